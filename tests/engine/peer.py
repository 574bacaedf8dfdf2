"""llama.cpp, told to be quiet."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import pytest


def llama_cpp() -> Any:
    """Its binding; without it the test is skipped."""
    return _quiet()[0]


@cache
def _quiet() -> tuple[Any, Any]:
    """The binding, and what it calls instead of writing, which must live as long as it does."""
    binding = pytest.importorskip("llama_cpp", reason="needs the 'peer' extra")
    ignore = binding.llama_log_callback(lambda level, text, data: None)
    binding.llama_log_set(ignore, ctypes.c_void_p())
    return binding, ignore
