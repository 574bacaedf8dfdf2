"""The machine that was measured, and with what."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from engine import device

FEATURES = (
    "avx2", "fma", "f16c", "avxvnni", "avx512f", "avx512bw", "avx512vnni", "avx512bf16",
    "amx-int8", "amx-bf16", "neon", "dotprod", "i8mm", "sve",
)  # fmt: skip
LIBRARIES = ("torch", "numba", "llvmlite", "numpy")


@dataclass(frozen=True, slots=True)
class Machine:
    """What speed depends on."""

    cpu: str
    cores: int
    features: tuple[str, ...]  # of those that matter here
    cache_bytes: int | None  # the last level's; others may share it
    memory_bytes: int
    system: str
    versions: dict[str, str]


def look() -> Machine:
    """This machine."""
    return Machine(
        cpu=_cpu_name(),
        cores=device.cores(),
        features=_features(),
        cache_bytes=_cache_bytes(),
        memory_bytes=device.memory_bytes(),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        versions={"python": platform.python_version()} | dict(_versions(LIBRARIES)),
    )


def peak_bytes() -> int:
    """The most memory that this process has held at once."""
    status = Path("/proc/self/status")
    if status.exists():
        peak = re.search(r"^VmHWM:\s+(\d+) kB$", status.read_text(encoding="utf-8"), re.MULTILINE)
        if peak is not None:
            return int(peak[1]) << 10
    return int(getattr(psutil.Process().memory_info(), "peak_wset", 0)) or device.resident_bytes()


def load_average() -> float:
    """How many programs ran at once in the last minute."""
    return psutil.getloadavg()[0]


def _versions(names: Iterable[str]) -> Iterable[tuple[str, str]]:
    for name in names:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue


def _cpu_name() -> str:
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        lines = [line.partition(":") for line in facts.read_text(encoding="utf-8").splitlines()]
        values = {key.strip(): value.strip() for key, _, value in lines}
        if "model name" in values:
            return f"{values['model name']} (family {values['cpu family']}, model {values['model']})"
    return platform.processor() or platform.machine()


def _features() -> tuple[str, ...]:
    try:
        from llvmlite import binding
    except ImportError:
        return ()
    found = binding.get_host_cpu_features()
    return tuple(name for name in FEATURES if found.get(name, False))


def _cache_bytes() -> int | None:
    sizes = sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"))
    if not sizes:
        return None
    return max(int(path.read_text().strip().removesuffix("K")) for path in sizes) << 10
