"""DFlash drafters against transformers, over the same random weights; and what is refused."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.api import BadModel
from engine.cache.kv import Kv
from engine.draft.dflash import DFlash
from engine.layers.decoder import Decoder
from engine.layers.rope import rope
from engine.models import dflash, load
from engine.models.dflash import DraftModel
from engine.weights.gguf import GgufFile
from engine.weights.safetensors import SafetensorsFolder
from tests.engine import drafters, muse

STEPS = 50
LAYERS = 5
TARGET = muse.model(
    muse.config({"num_hidden_layers": LAYERS, "output_multiplier": 1.7}, {"num_hidden_layers": 1})
)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    with GgufFile(muse.write_text(tmp_path_factory.mktemp("muse") / "m.gguf", TARGET)) as file:
        return load(file, threads=1)[1]


def read(path: Path, target: Decoder) -> DraftModel:
    with SafetensorsFolder(path) if path.is_dir() else GgufFile(path) as file:
        return dflash.load(file, 1, target)[0]


def told(by: Any, length: int = 30) -> drafters.Told:
    """What transformers proposes in more than `STEPS` steps."""
    prompt = random.Random(length).choices(range(10, 300), k=length)
    return drafters.told_by_transformers(TARGET, by, prompt, STEPS + 14)


@torch.inference_mode()
def states(target: Decoder, text: list[int], layers: tuple[int, ...]) -> list[Tensor]:
    return target.states(torch.tensor(text), Kv(target.cache, 1_000), layers)[1]


def agreement(model: DraftModel, target: Decoder, wanted: drafters.Told) -> float:
    """The share of proposals that are the same, over the steps that transformers made."""
    drafter = DFlash(model, 1_000)
    kept, draft = states(target, wanted.text, drafter.layers), drafter.begin(0)
    same = total = 0
    for at, proposed in wanted.proposals:
        draft.note([state[draft.length : at - 1] for state in kept])
        found = draft.propose(wanted.text[at - 1], len(proposed))
        same += sum(one == other for one, other in zip(found, proposed, strict=True))
        total += len(proposed)
    assert len(wanted.proposals) >= STEPS
    return same / total


@pytest.mark.parametrize("window", [8, 20, 40, 2_048])
def test_candidates_are_those_of_transformers(window: int, target: Decoder, tmp_path: Path) -> None:
    """Windows shorter than a block, shorter than the prompt, crossed on the way, and never reached."""
    by = drafters.drafter(window, sliding_window=window)
    wanted = told(by)
    assert len({tuple(proposed) for _, proposed in wanted.proposals}) > STEPS / 2
    assert agreement(read(drafters.write(tmp_path / "d.gguf", by), target), target, wanted) == 1
    by.save_pretrained(tmp_path / "d")
    assert agreement(read(tmp_path / "d", target), target, wanted) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"layer_types": ["full_attention", "sliding_attention", "full_attention"]},
        {"target_layer_ids": [3], "num_hidden_layers": 1},  # not 4: transformers norms that one's state
        {"target_layer_ids": [3, 0, 1, 2], "block_size": 5, "num_attention_heads": 8},
    ],
    ids=["a layer that sees all", "one layer", "layers out of order, a short block"],
)
def test_other_drafters_agree_too(changes: dict[str, Any], target: Decoder, tmp_path: Path) -> None:
    by = drafters.drafter(1, sliding_window=20, **changes)
    wanted = told(by)
    assert agreement(read(drafters.write(tmp_path / "d.gguf", by), target), target, wanted) == 1
    by.save_pretrained(tmp_path / "d")
    assert agreement(read(tmp_path / "d", target), target, wanted) == 1


@pytest.mark.parametrize("off", [-1, 1])
def test_features_of_a_layer_before_or_after_are_told_from_the_right_ones(
    off: int, target: Decoder, tmp_path: Path
) -> None:
    """A file counts what goes into layers, so one more than we do; who reads it otherwise is off by one."""
    by = drafters.drafter(2, sliding_window=20, target_layer_ids=[1, 2, 3])
    wanted = told(by)
    right = read(drafters.write(tmp_path / "d.gguf", by), target)
    assert right.config.targets == (1, 2, 3)
    assert agreement(right, target, wanted) == 1
    wrong = read(drafters.write(tmp_path / "e.gguf", by, add_to_targets=1 + off), target)
    assert agreement(wrong, target, wanted) < 0.7


def each(model: DraftModel, change: Callable[[Any], Any]) -> DraftModel:
    blocks = [replace(block, attention=change(block.attention)) for block in model.blocks]
    return replace(model, blocks=blocks)


def with_reach(model: DraftModel, add: int) -> DraftModel:
    wider = replace(model.cache, window=(model.cache.window or 0) + add)
    return replace(each(model, lambda heads: replace(heads, reach=heads.reach + add)), cache=wider)


def neighbours(model: DraftModel) -> DraftModel:
    config = model.config
    turn = rope(config.head_dim, config.rope, "interleaved")
    return each(model, lambda heads: replace(heads, rope=turn))


def normed(model: DraftModel) -> DraftModel:
    weight = model.embedding.weight
    table = torch.nn.functional.rms_norm(weight, weight.shape[-1:])
    return replace(model, embedding=replace(model.embedding, weight=table))


READINGS: dict[str, Callable[[DraftModel], DraftModel]] = {
    "a window longer by one": lambda model: with_reach(model, 1),
    "a window shorter by one": lambda model: with_reach(model, -1),
    "neighbours turn": neighbours,
    "embeddings are normed": normed,
    "another mask": lambda model: replace(model, config=replace(model.config, mask=8)),
    "a shorter block": lambda model: replace(model, config=replace(model.config, block=15)),
}


@pytest.mark.parametrize("name", READINGS)
def test_a_wrong_reading_is_told_from_the_right_one(name: str, target: Decoder, tmp_path: Path) -> None:
    by = drafters.drafter(3, sliding_window=20)
    wanted = told(by)
    wanted.proposals = [(at, proposed[:14]) for at, proposed in wanted.proposals]
    right = read(drafters.write(tmp_path / "d.gguf", by), target)
    assert agreement(right, target, wanted) == 1
    assert agreement(READINGS[name](right), target, wanted) < 1


def refusal(path: Path, target: Decoder) -> str:
    with pytest.raises(BadModel) as raised:
        read(path, target)
    return str(raised.value)


def test_a_drafter_for_another_model_is_refused_by_tensor(target: Decoder, tmp_path: Path) -> None:
    wide = drafters.drafter(hidden_size=64)
    text = "d.gguf: the tensor fc.weight is 64 x 192 and should be 48 x 144."
    assert refusal(drafters.write(tmp_path / "d.gguf", wide), target) == text
    wide.save_pretrained(tmp_path / "d")
    text = "d: the tensor encoder.fc.weight is 64 x 192 and should be 48 x 144."
    assert refusal(tmp_path / "d", target) == text


def test_a_drafter_for_another_vocabulary_is_refused(target: Decoder, tmp_path: Path) -> None:
    path = drafters.write(tmp_path / "d.gguf", drafters.drafter(), vocab=301)
    assert refusal(path, target) == (
        "d.gguf: it knows 301 tokens, and the tensor token_embd.weight of the model has 300 rows;"
        " it is a drafter for another model."
    )
    path = drafters.write(tmp_path / "e.gguf", drafters.drafter(mask_token_id=300), vocab=None)
    assert "its mask is token 300, and the tensor token_embd.weight of the model has 300" in refusal(
        path, target
    )
    path = drafters.write(tmp_path / "f.gguf", drafters.drafter(target_layer_ids=[0, 2, 5]))
    assert "it reads after the model's layer 6, and the model has 5" in refusal(path, target)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"architecture": "dflash-draft"}, "'dflash-draft' and is not a drafter (dflash)"),
        ({"extra": {"conv_kernel_size": 2}}, "DFlash2"),
        ({"extra": {"block_size": 1}}, "dflash.block_size can't be 1"),
        ({"extra": {"attention.head_count_kv": 3}}, "3 heads of keys don't divide 4 heads"),
        ({"without": ["block_size"]}, "dflash.block_size"),
        ({"add_to_targets": 0}, "dflash.target_layers is not a list of layers, counted from 1"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(
    options: dict[str, Any], words: str, target: Decoder, tmp_path: Path
) -> None:
    assert words in refusal(drafters.write(tmp_path / "d.gguf", drafters.drafter(), **options), target)


def test_missing_and_unknown_tensors_are_named(
    target: Decoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = drafters.drafter()
    tensors = drafters.tensors(made)
    taken = tensors.pop("blk.1.attn_k_norm.weight")
    monkeypatch.setattr(drafters, "tensors", lambda made: tensors)
    path = drafters.write(tmp_path / "d.gguf", made)
    assert refusal(path, target) == "d.gguf: the tensor blk.1.attn_k_norm.weight is missing."
    tensors |= {"blk.1.attn_k_norm.weight": taken, "blk.1.attn_gate.weight": taken}
    path = drafters.write(tmp_path / "e.gguf", made)
    assert "holds the tensor blk.1.attn_gate.weight" in refusal(path, target)
    del tensors["blk.1.attn_gate.weight"]
    tensors["fc.weight"][3, 4] = float("nan")
    path = drafters.write(tmp_path / "f.gguf", made)
    assert "the tensor fc.weight holds values that are not numbers" in refusal(path, target)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "muse_glimmer"}, "'muse_glimmer' and is not a drafter"),
        ({"hidden_act": "gelu"}, "hidden_act is gelu"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 5e5}}, "stretches positions"),
        ({"layer_types": ["sliding_attention"]}, "layer_types does not say of each of 3 layers"),
        ({"target_layer_ids": [0, -1]}, "target_layer_ids is not a list of layers"),
        ({"target_layer_ids": []}, "target_layer_ids is not a list of layers"),
        ({"mask_token_id": -1}, "the mask token can't be -1"),
    ],
)
def test_what_is_wrong_with_a_folder_is_said(
    changes: dict[str, Any], words: str, target: Decoder, tmp_path: Path
) -> None:
    drafters.drafter().save_pretrained(tmp_path / "d")
    config = tmp_path / "d" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | changes))
    assert words in refusal(tmp_path / "d", target)


def test_a_text_model_is_no_drafter_and_a_drafter_no_text_model(target: Decoder, tmp_path: Path) -> None:
    path = muse.write_text(tmp_path / "m.gguf", TARGET)
    assert "'muse-glimmer' and is not a drafter" in refusal(path, target)
    path = drafters.write(tmp_path / "d.gguf", drafters.drafter())
    with GgufFile(path) as file, pytest.raises(BadModel, match="dflash"):
        load(file, threads=1)
