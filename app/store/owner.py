"""Who writes an answer: a process, told apart from a later one that happens to get the same number."""

from __future__ import annotations

import os

import psutil

TOLERANCE = 2.0  # seconds: the start time is derived from the clock, which may be set


def own() -> str:
    """This process, as stored beside the answers it streams."""
    return f"{os.getpid()}:{psutil.Process().create_time():.2f}"


def is_alive(owner: str) -> bool:
    """Whether the process that wrote this still runs."""
    number, _, started = owner.partition(":")
    try:
        process = psutil.Process(int(number))
        return abs(process.create_time() - float(started)) < TOLERANCE and (
            process.status() != psutil.STATUS_ZOMBIE
        )
    except psutil.AccessDenied:
        return True
    except (psutil.Error, ValueError):
        return False
