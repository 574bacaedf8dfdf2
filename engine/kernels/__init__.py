"""Products with matrices that stay as they are stored: what the processor at hand runs them with."""

from __future__ import annotations

import platform
from functools import cache
from hashlib import sha256
from pathlib import Path

NEEDED = ("avx2", "fma", "f16c")


@cache
def can_run() -> bool:
    """Whether this processor runs the kernels; without them weights are decoded, which takes more memory."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    try:
        from llvmlite import binding
    except ImportError:
        return False
    features = binding.get_host_cpu_features()
    return all(features.get(name, False) for name in NEEDED)


@cache
def open_kernels() -> None:
    """Have numba keep what it compiles by our sources: by itself it sees changes in one module only."""
    import numba

    sources = sorted(Path(__file__).parent.rglob("*.py"))
    version = sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    if not numba.config.CACHE_DIR:
        numba.config.CACHE_DIR = str(Path(__file__).parent / "__pycache__" / version)
