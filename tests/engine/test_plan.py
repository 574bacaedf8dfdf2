"""The memory planner: published figures come out, every part is counted, and less is given up in order."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine import BadModel, BadRequest, kernels
from engine.__main__ import main
from engine.loaded import load
from engine.plan import GIVE_UPS, SHORTEST, Plan, plan_memory
from engine.planning.words import describe_plan, read_bytes
from engine.weights.json_facts import JsonFacts
from engine.weights.synth import synthesise
from tests.engine.weights import configs

GIB = 1 << 30
LONGEST = 131_072


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Configurations of the full-size model and of small ones."""
    path = tmp_path_factory.mktemp("plan")
    for name, config in {
        "muse": configs.FULL_MUSE,
        "drafter": configs.FULL_DRAFTER,
        "small": configs.MUSE,
        "small_drafter": configs.DRAFTER,
        "llama": configs.LLAMA,
        "gemma3": configs.GEMMA3,
    }.items():
        (path / f"{name}.json").write_text(json.dumps(config))
    return path


def full(folder: Path, budget: int, **options: Any) -> Plan:
    muse, drafter = folder / "muse.json", folder / "drafter.json"
    return plan_memory(muse, budget=budget, mmproj=muse, drafter=drafter, quant="Q4_K_M", **options)


def sizes(plan: Plan) -> dict[str, int]:
    return {part.name: part.bytes for part in plan.asked.parts}


def test_the_full_model_takes_what_is_published(folder: Path):
    found = sizes(full(folder, 24 * GIB))
    weights = found["weights"] + found["weights_in_memory"]
    assert weights == pytest.approx(16.757e9, rel=0.02)
    assert found["vision"] == pytest.approx(1.4e9, rel=0.15)
    assert found["drafter"] == pytest.approx(1.631e9, rel=0.08)
    assert found["kv_global"] == 13 * 1_024 * LONGEST  # 1.745 GB
    window = 39 * 1_024 * 2_048  # 82 MB, and room for what comes in and what may be taken back
    assert window <= found["kv_local"] <= window * 1.3
    assert (found["kv_global"] + found["kv_local"]) / GIB == pytest.approx(1.7, abs=0.03)


def test_the_full_model_fits_a_24_gib_card(folder: Path):
    plan = full(folder, 24 * GIB)
    assert plan.asked.fits
    assert plan.steps == ()
    assert plan.settled == plan.asked
    assert plan.asked.greatest_context == LONGEST


@pytest.mark.parametrize(("kv", "row"), [("bf16", 1_024), ("f32", 2_048), ("q8", 544)])
def test_keys_and_values_cost_what_their_storage_says(folder: Path, kv: str, row: int):
    assert sizes(full(folder, 24 * GIB, kv=kv))["kv_global"] == 13 * row * LONGEST


def test_parts_add_up_to_what_is_needed(folder: Path):
    for place in ("card", "memory"):
        plan = full(folder, 64 * GIB, place=place)
        assert plan.asked.needed == sum(part.bytes for part in plan.asked.parts if part.place == place)


def test_tensors_add_up_to_the_weights(folder: Path):
    plan = full(folder, 24 * GIB)
    at_hand = sum(tensor.bytes for tensor in plan.tensors if tensor.place == "card")
    assert at_hand == sizes(plan)["weights"]
    aside = [tensor for tensor in plan.tensors if tensor.place == "memory"]
    assert [tensor.name for tensor in aside] == ["token_embd.weight"]
    assert len(plan.tensors) == 731


def test_the_greatest_context_is_the_greatest(folder: Path):
    budget = 20 * GIB
    greatest = full(folder, budget).asked.greatest_context
    assert 0 < greatest < LONGEST
    assert full(folder, budget, context=greatest).asked.fits
    assert not full(folder, budget, context=greatest + 256).asked.fits


def test_what_is_given_up_comes_in_order_and_frees_what_it_says(folder: Path):
    kinds = (
        "vision part in main memory",
        "in 8 bits",
        "tokens of the conversation",
        "the drafter",
        "layers on",
    )
    seen = []
    for budget in (22.5, 20.5, 19.5, 18.5, 17.5, 10):
        plan = full(folder, int(budget * GIB))
        order = [next(i for i, words in enumerate(kinds) if words in step.words) for step in plan.steps]
        assert order == sorted(order)
        assert all(step.frees > 0 for step in plan.steps)
        freed = sum(step.frees for step in plan.steps)
        assert plan.asked.needed - freed == plan.settled.needed
        assert plan.settled.fits
        seen.append(len(order))
    assert seen == sorted(seen)
    assert seen[0] < seen[-1] == len(GIVE_UPS)


def test_a_step_that_is_enough_is_the_last(folder: Path):
    asked = full(folder, 24 * GIB).asked
    plan = full(folder, asked.needed - 1)
    assert len(plan.steps) == 1
    assert "vision" in plan.steps[0].words


def test_the_context_is_not_made_shorter_than_is_useful(folder: Path):
    plan = full(folder, 17 * GIB)
    assert plan.settled.choices.context == SHORTEST
    assert not plan.settled.choices.drafter


def test_a_machine_that_is_far_too_small_is_told_so(folder: Path):
    plan = full(folder, GIB)
    assert not plan.settled.fits
    assert "Even then" in describe_plan(plan)


def test_moved_layers_are_as_few_as_are_enough(folder: Path):
    plan = full(folder, 12 * GIB)
    moved = plan.settled.choices.moved_layers
    assert 0 < moved < 52
    from engine.planning.parts import Inventory, Machine
    from engine.planning.subject import read

    muse, drafter = folder / "muse.json", folder / "drafter.json"
    stock = Inventory(read(muse, muse, drafter, "Q4_K_M"), Machine("card", 12 * GIB, GIB))
    assert not stock.fits(replace(plan.settled.choices, moved_layers=moved - 1))


def test_a_file_and_its_configuration_give_the_same_plan(folder: Path, tmp_path: Path):
    for name in ("small", "llama", "gemma3"):
        path = tmp_path / f"{name}.gguf"
        synthesise(JsonFacts.open(folder / f"{name}.json"), "Q4_K_M", path)
        by_file = plan_memory(path, budget=GIB)
        by_config = plan_memory(folder / f"{name}.json", budget=GIB, quant="Q4_K_M")
        assert by_file.asked == by_config.asked
        assert by_file.steps == by_config.steps


def test_without_a_card_weights_are_counted_as_the_engine_holds_them(folder: Path):
    plan = plan_memory(folder / "llama.json", budget=GIB, place="memory", quant="Q4_K_M", packs=False)
    assert plan.asked.choices.kv == "f32"
    values = sum(tensor.bytes for tensor in plan.tensors) // 4
    from engine.weights.blueprints import draw

    assert values == draw(JsonFacts(configs.LLAMA, "c")).parameters
    assert sizes(plan)["weights"] == 4 * values


@pytest.mark.skipif(not kernels.can_run(), reason="needs a processor with AVX2")
@pytest.mark.parametrize(
    ("name", "quant", "kv"),
    [
        ("llama", "Q4_K_M", "f16"),
        ("gemma3", "Q5_K_M", "f16"),
        ("small", "Q8_0", "f16"),
        ("llama", "F16", "f32"),
        ("llama", "Q3_K+Q6_K", "f32"),  # queries decide how the values beside them are held
    ],
)
def test_by_default_they_are_counted_as_the_engine_holds_them(
    folder: Path, name: str, quant: str, kv: str, tmp_path: Path
):
    path = tmp_path / "m.gguf"
    synthesise(JsonFacts.open(folder / f"{name}.json"), quant, path)
    plan = plan_memory(path, budget=GIB, place="memory")
    loaded = load(path, None, 1)
    assert sizes(plan)["weights"] == loaded.weight_bytes
    assert plan.asked.choices.kv == loaded.runner.storage.name.lower() == kv


def test_other_models_parts_are_refused(folder: Path):
    with pytest.raises(BadModel, match="features 256 wide, and the model is 6,656 wide"):
        plan_memory(folder / "muse.json", budget=GIB, mmproj=folder / "small.json")
    with pytest.raises(BadModel, match="256 wide, and the model is 6,656 wide; this drafter is for another"):
        plan_memory(folder / "muse.json", budget=GIB, drafter=folder / "small_drafter.json")
    with pytest.raises(BadModel, match="is not a drafter"):
        plan_memory(folder / "small.json", budget=GIB, drafter=folder / "llama.json")


@pytest.mark.parametrize("context", [1, LONGEST + 1])
def test_a_context_that_the_model_cannot_have_is_refused(folder: Path, context: int):
    with pytest.raises(BadRequest, match="the model takes 2 to 131,072"):
        full(folder, GIB, context=context)


@pytest.mark.parametrize(
    ("text", "size"),
    [("24GiB", 24 << 30), ("24 G", 24 << 30), ("25.5GB", 25_500_000_000), ("800mb", 800_000_000), ("17", 17)],
)
def test_amounts_of_memory_are_read(text: str, size: int):
    assert read_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1G", "24XB", "1e9", "1,000"])
def test_other_texts_are_no_amounts(text: str):
    with pytest.raises(BadRequest, match="is not an amount of memory"):
        read_bytes(text)


def test_the_command_prints_words_or_json(folder: Path, capsys: pytest.CaptureFixture[str]):
    command = ["plan", str(folder / "muse.json"), "--quant", "Q4_K_M", "--vram", "16GiB"]
    assert main(command) == 0
    words = capsys.readouterr().out
    assert "131,072 tokens of context, with 16.00 GiB of a graphics card" in words
    assert "What to give up, in this order:" in words
    assert "  1. Hold keys and values in 8 bits" in words
    assert main([*command, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["asked"]["choices"]["context"] == LONGEST
    assert not values["asked"]["fits"]
    assert len(values["tensors"]) == 731


def test_the_commands_refuse_with_a_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    assert main(["plan", str(tmp_path / "no.json")]) == 2
    assert main(["plan", str(folder / "llama.json"), "--vram", "lots"]) == 2
    out = str(tmp_path / "x.gguf")
    assert main(["synth", "--config", str(folder / "llama.json"), "--quant", "IQ2_XXS", "--out", out]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 3
    assert "Traceback" not in shown.err


def test_synth_writes_a_file_that_plan_reads(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "made.gguf"
    command = [
        "synth",
        "--config",
        str(folder / "llama.json"),
        "--quant",
        "Q8_0",
        "--out",
        str(out),
        "--seed",
        "3",
    ]
    assert main(command) == 0
    assert f"{out.stat().st_size:,} bytes" in capsys.readouterr().out
    assert main(["plan", str(out), "--ram", "8GiB", "--context", "512"]) == 0
    assert "It fits." in capsys.readouterr().out
