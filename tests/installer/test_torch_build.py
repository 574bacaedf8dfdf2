"""Which PyTorch for which machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from installer import torch_build
from installer.errors import SetupError
from installer.torch_build import Facts, Gpu, choose, explain_missing, parse

H200 = Gpu("NVIDIA H200", 580, 9.0)
RTX_3090 = Gpu("NVIDIA GeForce RTX 3090", 550, 8.6)
GTX_1080 = Gpu("NVIDIA GeForce GTX 1080", 580, 6.1)
BLACKWELL_OLD_DRIVER = Gpu("NVIDIA GeForce RTX 5090", 570, 12.0)
KEPLER = Gpu("Tesla K80", 470, 3.7)


@pytest.mark.parametrize(
    ("facts", "wish", "requirement", "index"),
    [
        (Facts("linux", "x86_64"), "auto", "torch==2.13.0+cpu", "cpu"),
        (Facts("linux", "aarch64"), "auto", "torch==2.13.0+cpu", "cpu"),
        (Facts("linux", "x86_64", (H200,)), "auto", "torch===2.13.0", None),
        (Facts("linux", "x86_64", (H200,)), "cpu", "torch==2.13.0+cpu", "cpu"),
        (Facts("linux", "x86_64", (RTX_3090,)), "auto", "torch==2.13.0+cu126", "cu126"),
        (Facts("linux", "x86_64", (GTX_1080,)), "auto", "torch==2.13.0+cu126", "cu126"),
        (Facts("linux", "x86_64", (GTX_1080, H200)), "auto", "torch===2.13.0", None),
        (Facts("linux", "x86_64", (BLACKWELL_OLD_DRIVER,)), "auto", "torch==2.13.0+cpu", "cpu"),
        (Facts("linux", "x86_64", (KEPLER,)), "auto", "torch==2.13.0+cpu", "cpu"),
        (Facts("linux", "x86_64", (KEPLER,)), "cuda", "torch===2.13.0", None),
        (Facts("linux", "x86_64"), "cuda", "torch===2.13.0", None),
        (Facts("win32", "amd64"), "auto", "torch==2.13.0", None),
        (Facts("win32", "amd64", (H200,)), "auto", "torch==2.13.0+cu130", "cu130"),
        (Facts("win32", "amd64", (GTX_1080,)), "auto", "torch==2.13.0+cu126", "cu126"),
        (Facts("darwin", "arm64"), "auto", "torch==2.13.0", None),
    ],
)
def test_the_build_suits_the_machine(facts: Facts, wish: str, requirement: str, index: str | None):
    plan = choose(facts, wish)
    assert plan.requirement == requirement
    assert plan.index == (index and f"https://download.pytorch.org/whl/{index}")
    assert plan.version == requirement.lstrip("torch=")


@pytest.mark.parametrize(("machine", "wish"), [("x86_64", "auto"), ("arm64", "cuda")])
def test_what_no_mac_can_have_is_said(machine: str, wish: str):
    with pytest.raises(SetupError, match=r"Mac|macOS"):
        choose(Facts("darwin", machine), wish)


def test_the_reason_is_given():
    assert choose(Facts("linux", "x86_64", (H200,))).reason == "NVIDIA H200"
    assert "no NVIDIA GPU" in choose(Facts("linux", "x86_64")).reason
    assert "Tesla K80" in choose(Facts("linux", "x86_64", (KEPLER,))).reason


def test_a_missing_cpu_build_has_a_way_out():
    text = explain_missing(choose(Facts("linux", "x86_64")))
    assert "torch==2.13.0+cpu was not found" in text
    assert "--torch cuda" in text
    assert "--torch cuda" not in explain_missing(choose(Facts("linux", "x86_64", (RTX_3090,))))


def test_the_table_is_read():
    table = "NVIDIA H200, 580.95.05, 9.0\nNVIDIA, Inc. Odd, 525.1, 7.5\nNo devices were found\n, [N/A], x\n"
    assert parse(table) == (Gpu("NVIDIA H200", 580, 9.0), Gpu("Inc. Odd", 525, 7.5))


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo 'NVIDIA L4, 570.86.15, 8.9'", (Gpu("NVIDIA L4", 570, 8.9),)),
        ("echo 'NVIDIA-SMI has failed' ; exit 9", ()),
    ],
)
def test_the_drivers_tool_is_asked(program: Callable[[str, str], Path], script: str, expected: tuple[Gpu]):
    program("nvidia-smi", script)
    assert torch_build.nvidia() == expected


def test_a_machine_without_the_tool_has_no_gpu(program: Callable[[str, str], Path]):
    assert torch_build.look().gpus == ()
