"""The benchmark command, from the command line to the figures; the real llama.cpp is its peer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from engine.__main__ import main
from engine.api import BadRequest
from engine.bench import quality
from engine.bench.figures import Spread, ratios
from engine.bench.measures import WIDTHS, Plan, chosen
from engine.bench.ours import bytes_per_token
from engine.kernels.layouts import packed_bytes
from engine.loaded import load


def test_ratios_are_taken_round_by_round() -> None:
    ours, theirs = Spread.of([10.0, 40.0, 30.0]), Spread.of([5.0, 10.0, 30.0])
    assert (ours.median, ours.low, ours.high) == (30.0, 10.0, 40.0)
    assert ratios(ours, theirs).rounds == (2.0, 4.0, 1.0)
    assert ratios(ours, theirs).median == 2.0


@pytest.mark.parametrize("context", [64, 100, 700, 4_096, 8_192])
def test_a_plan_fits_its_context(context: int) -> None:
    plan = Plan.fitting(range(50), context)
    assert plan.context <= context
    assert len(plan.tokens) >= max(plan.start, plan.prefilled, plan.far or 0) + max(WIDTHS)
    assert ("decode_far" in chosen(plan)) == (context == 8_192)


def test_a_context_may_be_too_short_to_measure() -> None:
    with pytest.raises(BadRequest, match="63 tokens is too short"):
        Plan.fitting([1], 63)


def test_figures_of_a_real_model_alone(smollm2: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "engine", "bench", str(smollm2), "--rounds", "1", "--json"],
        capture_output=True,
        encoding="utf-8",
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    ours = found["Sidelight"]
    for name in ("decode", "prefill", "decode_far"):
        assert ours[name]["median"] > 0
    assert set(ours["steps"]) == {str(width) for width in WIDTHS[1:]}
    assert 0 < ours["share_of_bandwidth"] < 5 and "llama.cpp" not in found and "ratios" not in found
    assert found["file_bytes"] == smollm2.stat().st_size and found["machine"]["cores"] >= 1
    assert ours["peak_bytes"] > ours["bytes_per_token"] > smollm2.stat().st_size / 2


def test_weights_of_a_token_are_all_but_the_embedding(smollm2: Path) -> None:
    """Of SmolLM2 the head is the embedding, packed, which each token reads; norms are the small rest."""
    model = load(smollm2, 64, 1, "F16", packs=True).runner.model
    layers = 30 * (
        packed_bytes("Q4_1", (576 + 2 * 192, 576))
        + packed_bytes("Q4_1", (576, 576))
        + packed_bytes("Q4_1", (2 * 1536, 576))
        + packed_bytes("Q4_1", (576, 1536))
    )
    norms = 4 * 576 * (2 * 30 + 1)
    wanted = layers + norms + packed_bytes("Q8_0", (49_152, 576))
    assert wanted <= bytes_per_token(model) <= wanted + 4_096  # what is turned by position needs a little


def test_logarithms_of_chances_add_to_one() -> None:
    rows = quality._logarithms(np.array([[1000.0, 1000.0], [0.0, -800.0]], np.float32))
    assert np.allclose(np.exp(rows).sum(-1), 1) and np.allclose(rows[0], np.log(0.5))


def test_refusals_are_sentences(
    smollm2: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["bench", str(tmp_path / "none.gguf")]) == 2
    assert "There is no file" in capsys.readouterr().err
    assert main(["bench", str(smollm2), "--rounds", "0"]) == 2
    assert "0 rounds measure nothing" in capsys.readouterr().err
    (tmp_path / "empty.txt").write_text(" \n")
    assert main(["bench", str(smollm2), "--text", str(tmp_path / "empty.txt")]) == 2
    assert "is empty" in capsys.readouterr().err
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["bench", str(smollm2), "--against", "llama.cpp"]) == 2
    assert "pip install llama-cpp-python==" in capsys.readouterr().err


@pytest.mark.peer
@pytest.mark.timeout(1_500)
def test_both_engines_predict_a_text_equally_well(smollm2: Path, tmp_path: Path) -> None:
    pytest.importorskip("llama_cpp", reason="needs the 'peer' extra")
    command = [sys.executable, "-m", "engine", "bench", str(smollm2), "--rounds", "1", "--json"]
    done = subprocess.run(
        [*command, "--against", "llama.cpp", "--quality"], capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found["ratios"]) == {"decode", "prefill", "decode_far"}
    ours, theirs = found["quality"]["Sidelight"], found["quality"]["llama.cpp"]
    assert abs(ours["perplexity"] / theirs["perplexity"] - 1) <= 0.003
    assert ours["divergence"] <= 1.1 * theirs["divergence"]
