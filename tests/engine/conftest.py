"""Fixtures of the engine's tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from gguf import GGUFReader

from engine import device

# Many tests import torch before the engine could start it gently.
os.environ.setdefault(device.SPINS, device.SPIN_COUNT)


@pytest.fixture(scope="session")
def gguf_py() -> Callable[[Path], GGUFReader]:
    """Opens a file with gguf-py, which takes seconds for a large vocabulary: once each."""
    return cache(GGUFReader)


def pytest_runtest_setup() -> None:
    """One thread for torch: tiny sums gain nothing from more, which would wait for each other on busy cores.

    Measured there: 50 drafts by transformers took 40 s with two, 2 s with one. An engine sets its own.
    """
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
