"""What is made of figures."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from xml.etree import ElementTree

import pytest

spec = importlib.util.spec_from_file_location("speed", Path(__file__).with_name("speed.py"))
assert spec is not None and spec.loader is not None
speed = importlib.util.module_from_spec(spec)
spec.loader.exec_module(speed)


def found(file: str, decode: float) -> dict:
    side = {"decode": {"median": decode}, "prefill": {"median": 7.0}}
    return {
        "file": file,
        "threads": 2,
        "rounds": 5,
        "machine": {"cpu": "A processor", "features": ["avx2"]},
        "Sidelight": side,
        "llama.cpp": side,
        "ratios": {"decode": {"median": 2.5}, "prefill": {"median": 0.5}},
    }


def test_the_readme_keeps_all_but_what_stands_between_its_marks() -> None:
    text = f"before\n{speed.START}old{speed.END}\nafter"
    new = speed.rewritten(text, speed.table([found("a.gguf", 1234.4)]))
    assert new.startswith("before\n") and new.endswith("\nafter") and "old" not in new
    assert "| `a.gguf` | generating | 1,234 | 1,234 | **2.50** |" in new and "A processor" in new
    assert speed.rewritten(new, "x") == f"before\n{speed.START}\nx\n{speed.END}\nafter"


def test_a_readme_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="README"):
        speed.rewritten("nothing", "x")


def test_the_chart_has_a_bar_for_each_ratio_in_its_size() -> None:
    chart = ElementTree.fromstring(speed.chart([found("a<b.gguf", 1.0), found("c.gguf", 2.0)]))
    bars = [float(bar.get("width", 0)) for bar in chart.iter("{http://www.w3.org/2000/svg}rect")]
    assert len(bars) == 4 and bars[0] == 5 * bars[1] == speed.WIDE
    assert "a<b.gguf" in [text.text for text in chart.iter("{http://www.w3.org/2000/svg}text")]
