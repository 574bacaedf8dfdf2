"""Loading torch's big libraries before Python does, so the window does not stand still meanwhile.

An import keeps the interpreter lock while the system maps 400 MB: 150-240 ms without a repaint on two
cores. The same call through ctypes gives the lock away; the import then finds them loaded (30-40 ms at most).
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from pathlib import Path

LIBRARIES = (
    "libtorch_global_deps.so",
    "libc10.so",
    "libtorch_cpu.so",
    "libtorch.so",
)  # each needs those before


def preload(package: str = "torch") -> list[str]:
    """Load what is there of LIBRARIES; gives the names loaded. A failure is the import's to explain."""
    spec = importlib.util.find_spec(package) if package not in sys.modules else None
    if sys.platform != "linux" or spec is None or spec.origin is None:
        return []
    system = ctypes.CDLL(None).dlopen
    system.argtypes, system.restype = (ctypes.c_char_p, ctypes.c_int), ctypes.c_void_p
    folder = Path(spec.origin).parent / "lib"
    flags = os.RTLD_NOW | os.RTLD_GLOBAL
    return [name for name in LIBRARIES if (folder / name).exists() and system(bytes(folder / name), flags)]
