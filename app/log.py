"""The log file: what went wrong and when, never what was said."""

from __future__ import annotations

import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
MAX_BYTES = 1_000_000
KEPT = 3


def start(path: Path, level: int = logging.INFO) -> logging.Handler | None:
    """Send warnings and worse from everywhere, and `level` from our own rooms, to `path`.

    None when it cannot be written: Sidelight works without a log.
    """
    try:
        handler = RotatingFileHandler(path, maxBytes=MAX_BYTES, backupCount=KEPT, encoding="utf-8")
    except OSError:
        return None
    handler.setFormatter(logging.Formatter(FORMAT))
    logging.getLogger().addHandler(handler)
    for room in ("app", "engine", "ui"):
        logging.getLogger(room).setLevel(level)
    return handler


def stop(handler: logging.Handler | None) -> None:
    """Close what `start` opened."""
    if handler is not None:
        logging.getLogger().removeHandler(handler)
        handler.close()
