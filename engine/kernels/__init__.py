"""Products with matrices that stay as they are stored: what the processor at hand runs them with."""

from __future__ import annotations

import platform
from functools import cache
from importlib.util import find_spec

NEEDED = ("avx2", "fma", "f16c")


@cache
def can_run() -> bool:
    """Whether this processor runs the kernels; without them weights are decoded, which takes more memory."""
    if platform.machine().lower() not in ("x86_64", "amd64") or find_spec("numba") is None:
        return False
    try:
        from llvmlite import binding
    except ImportError:
        return False
    features = binding.get_host_cpu_features()
    return all(features.get(name, False) for name in NEEDED)


def chosen(packs: bool | None) -> bool:
    """Whether matrices stay as they are stored: as somebody wants it (None: nobody does), if that can run."""
    return can_run() if packs is None else packs and can_run()


@cache
def open_kernels() -> None:
    """Have numba keep what it compiles where we want it: by itself it sees changes in one module only."""
    import numba

    from engine.kernels import compiled

    numba.config.CACHE_DIR = str(compiled.folder())
