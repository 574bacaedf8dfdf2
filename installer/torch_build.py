"""Which build of PyTorch suits this machine."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass

from installer.errors import SetupError

VERSION = "2.13.0"
INDEX = "https://download.pytorch.org/whl/"


@dataclass(frozen=True)
class Gpu:
    """One line of nvidia-smi."""

    name: str
    driver: int  # major version
    capability: float  # 8.6 for Ampere, and so on


@dataclass(frozen=True)
class Facts:
    """What the choice depends on."""

    system: str  # as sys.platform has it
    machine: str  # as platform.machine() has it, in lower case
    gpus: tuple[Gpu, ...] = ()


@dataclass(frozen=True)
class TorchPlan:
    """One build: what to ask pip for and where else to look for it."""

    requirement: str
    index: str | None  # beside those that pip is configured with
    choice: str  # "cpu" or "cuda"
    reason: str
    need_bytes: int

    @property
    def version(self) -> str:
        """What the installed package's version must be, local part and all."""
        return self.requirement.partition("==")[2].removeprefix("=")


def choose(facts: Facts, wish: str = "auto") -> TorchPlan:
    """The build for a machine; `wish` is auto, cpu or cuda. Pure: it only looks at its arguments."""
    if facts.system == "darwin":
        return _mac(facts, wish)
    if wish == "cpu" or (wish == "auto" and not facts.gpus):
        return _cpu(facts, "no NVIDIA GPU was found" if wish == "auto" else "as asked")
    if wish == "cuda" and not facts.gpus:
        return _cuda(facts, "cu130", "as asked, though no NVIDIA GPU was found")
    for gpu in facts.gpus:
        if gpu.driver >= 580 and gpu.capability >= 7.5:
            return _cuda(facts, "cu130", gpu.name)
    for gpu in facts.gpus:
        if gpu.driver >= 525 and 5.0 <= gpu.capability <= 9.0:
            return _cuda(facts, "cu126", gpu.name)
    if wish == "cuda":
        return _cuda(facts, "cu130", "as asked, though the GPU or its driver may be too old")
    return _cpu(facts, f"{facts.gpus[0].name} or its driver is not supported by this PyTorch")


def _cpu(facts: Facts, reason: str) -> TorchPlan:
    # On Linux the plain package brings gigabytes of CUDA libraries; its CPU build is told by the version's
    # local part, so pip cannot take the other one by mistake, whatever index it is configured with.
    local, index = ("+cpu", f"{INDEX}cpu") if facts.system == "linux" else ("", None)
    return TorchPlan(f"torch=={VERSION}{local}", index, "cpu", reason, 3_000_000_000)


def _cuda(facts: Facts, tag: str, reason: str) -> TorchPlan:
    if facts.system == "linux" and tag == "cu130":  # what the package index itself serves
        # Three equals signs: exactly this version, so that no CPU build lying nearer (`+cpu`) is preferred.
        return TorchPlan(f"torch==={VERSION}", None, "cuda", reason, 9_000_000_000)
    return TorchPlan(f"torch=={VERSION}+{tag}", f"{INDEX}{tag}", "cuda", reason, 9_000_000_000)


def _mac(facts: Facts, wish: str) -> TorchPlan:
    if facts.machine != "arm64":
        raise SetupError("PyTorch is no longer made for Intel Macs, so Sidelight cannot run here.")
    if wish == "cuda":
        raise SetupError("There is no CUDA on macOS; leave out --torch cuda.")
    return TorchPlan(f"torch=={VERSION}", None, "cpu", "macOS", 3_000_000_000)


def explain_missing(plan: TorchPlan) -> str:
    """The sentence for when no index has the build."""
    python = f"Python {sys.version_info[0]}.{sys.version_info[1]}"
    text = f"{plan.requirement} was not found for {python} in the sources that pip is set up with"
    text += f", nor at {plan.index}." if plan.index else "."
    text += " If the network is down, run this again when it is back."
    if plan.choice == "cpu" and plan.index:
        text += (
            " If only that address cannot be reached, add --torch cuda: that build comes from the ordinary "
            "package index and runs without a GPU too, but takes several gigabytes."
        )
    return text


def look() -> Facts:
    """What this machine has."""
    return Facts(sys.platform, platform.machine().lower(), nvidia())


def nvidia() -> tuple[Gpu, ...]:
    """The NVIDIA GPUs, as the driver's own tool reports them; none if it is missing or fails."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ()
    words = [tool, "--query-gpu=name,driver_version,compute_cap", "--format=csv,noheader"]
    try:
        answer = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return parse(answer.stdout) if answer.returncode == 0 else ()


def parse(table: str) -> tuple[Gpu, ...]:
    """Read nvidia-smi's table; a line that makes no sense is no GPU."""
    gpus = []
    for line in table.splitlines():
        parts = [part.strip() for part in line.split(",")]
        try:
            gpus.append(Gpu(parts[-3], int(parts[-2].split(".")[0]), float(parts[-1])))
        except (IndexError, ValueError):
            continue
    return tuple(gpus)
