"""Muse Glimmer's text half against transformers, over the same random weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import MuseGlimmerForConditionalGeneration

from engine.cache.kv import Kv
from engine.cache.storage import BF16, F32, Q8, Storage
from engine.layers.decoder import Decoder, Insert
from engine.models import load
from engine.weights.gguf import GgufFile
from engine.weights.safetensors import SafetensorsFolder
from tests.engine import muse

CLOSE = 2e-4
WRONG = 50 * CLOSE  # what a wrong reading makes at least
SPREAD = 0.4  # standard deviation of logits, at least: flat ones agree whatever the model


@dataclass(frozen=True)
class Shape:
    """A tiny model's sizes."""

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    window: int
    width: int = 64

    @property
    def changes(self) -> dict[str, Any]:
        return {
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "sliding_window": self.window,
            "hidden_size": self.width,
            # The published 0.196 and 20 leave the logits of a model so narrow flat, and uncapped.
            "output_multiplier": 0.9,
            "final_logit_softcapping": 3.0,
        }


SHAPES = {
    "4 layers": Shape(4, 4, 1, 16, 4),
    "5 layers": Shape(5, 8, 2, 32, 8),
    "6 layers, many heads": Shape(6, 32, 4, 16, 16),
    "7 layers, wide heads": Shape(7, 4, 4, 128, 12),
    "8 layers": Shape(8, 16, 2, 64, 32),
    "9 layers, long window": Shape(9, 8, 1, 48, 64),
}
SMALL = SHAPES["5 layers"]


@cache
def oracle(shape: Shape, base: float = 500_000.0, **options: float) -> MuseGlimmerForConditionalGeneration:
    changes = shape.changes | options | {"rope_parameters": {"rope_type": "default", "rope_theta": base}}
    return muse.model(muse.config(changes, {"num_hidden_layers": 1}), seed=shape.layers)


def tokens(count: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(count + 1_000 * seed).integers(2, 300, count).tolist()


@torch.no_grad()
def expected(made: MuseGlimmerForConditionalGeneration, ids: list[int]) -> Tensor:
    return made(input_ids=torch.tensor([ids])).logits[0]


def from_gguf(path: Path) -> Decoder:
    with GgufFile(path) as file:
        return load(file, threads=1, packs=False)[1]


def from_folder(path: Path) -> Decoder:
    with SafetensorsFolder(path) as folder:
        return load(folder, threads=1, packs=False)[1]


@torch.no_grad()
def run(
    model: Decoder,
    ids: list[int],
    chunk: int = 10_000,
    storage: Storage = F32,
    kv: Kv | None = None,
    inserts: tuple[Insert, ...] = (),
) -> Tensor:
    """(n, vocabulary) logits; the cache has little room to spare, so windows move often."""
    kv = Kv(model.cache, 10_000, storage, spare=16) if kv is None else kv
    parts = [ids[at : at + chunk] for at in range(0, len(ids), chunk)]
    return torch.cat([model.rate(model.hidden(torch.tensor(part), kv, inserts)) for part in parts])


@pytest.fixture(scope="module", params=SHAPES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    shape = SHAPES[request.param]
    made, folder = oracle(shape), tmp_path_factory.mktemp("muse")
    gguf_file = muse.write_text(folder / "m.gguf", made)
    sharded = muse.write_folder(folder / "m", made, max_shard_size="200KB")
    return shape, made, from_gguf(gguf_file), from_folder(sharded)


def test_logits_are_those_of_transformers(pair: Any) -> None:
    shape, made, one, other = pair
    for count in sorted({1, shape.window - 1, shape.window, shape.window + 1, 5 * shape.window}):
        ids = tokens(count)
        wanted = expected(made, ids)
        assert wanted.std() > SPREAD
        errors = [(run(one, ids, chunk) - wanted).abs().max() for chunk in {count, 16, shape.window - 1, 1}]
        errors.append((run(other, ids, 7) - wanted).abs().max())
        print(f"\n{shape}, {count} tokens: worst {max(errors):.1e}, spread {wanted.std():.2f}")
        assert max(errors) < CLOSE


def test_a_folder_of_many_files_in_bf16_is_read(tmp_path: Path) -> None:
    made = muse.model(muse.config(SMALL.changes, {"num_hidden_layers": 1}), seed=3)
    rounded = {name: tensor.bfloat16() for name, tensor in made.state_dict().items()}
    folder = muse.write_folder(tmp_path / "m", made, state_dict=dict(rounded), max_shard_size="100KB")
    assert len(list(folder.glob("*.safetensors"))) > 3
    with SafetensorsFolder(folder) as opened:
        assert {tensor.type for tensor in opened.tensors.values()} == {"BF16"}
    made.load_state_dict(rounded)
    ids = tokens(40)
    assert (run(from_folder(folder), ids) - expected(made, ids)).abs().max() < CLOSE


@pytest.mark.parametrize("options", [{"fused": True}, {"pattern": 4}, {"local_base": 500_000.0}])
def test_other_ways_to_store_the_same_are_read(options: dict[str, Any], tmp_path: Path) -> None:
    shape = SHAPES["8 layers"]
    model = from_gguf(muse.write_text(tmp_path / "m.gguf", oracle(shape), **options))
    ids = tokens(70)
    assert (run(model, ids) - expected(oracle(shape), ids)).abs().max() < CLOSE


def test_local_layers_may_have_a_rope_of_their_own(tmp_path: Path) -> None:
    other = oracle(SMALL, base=1_000.0)
    model = from_gguf(muse.write_text(tmp_path / "m.gguf", oracle(SMALL), local_base=1_000.0))
    ids = tokens(40)
    assert (run(model, ids) - expected(other, ids)).abs().max() < CLOSE
    assert (run(model, ids) - expected(oracle(SMALL), ids)).abs().max() > WRONG


def test_the_scale_of_queries_is_read_and_not_known(tmp_path: Path) -> None:
    other = oracle(SMALL, qk_scale_factor=1.7)
    ids = tokens(40)
    wanted = expected(other, ids)
    assert (run(from_gguf(muse.write_text(tmp_path / "m.gguf", other)), ids) - wanted).abs().max() < CLOSE
    assert (run(from_folder(muse.write_folder(tmp_path / "m", other)), ids) - wanted).abs().max() < CLOSE
    assert (expected(oracle(SMALL), ids) - wanted).abs().max() > WRONG


def without_gate(model: Decoder) -> Decoder:
    return each(model, lambda block: replace(block, attention=replace(block.attention, gate=None)))


def each(model: Decoder, change: Callable[[Any], Any]) -> Decoder:
    return replace(model, blocks=[change(block) for block in model.blocks])


def with_norms(model: Decoder, add: float) -> Decoder:
    def change(block: Any) -> Any:
        norm = replace(block.attention_norm, weight=block.attention_norm.weight + add)
        return replace(block, attention_norm=norm)

    return each(model, change)


def with_window(model: Decoder, add: int) -> Decoder:
    def change(block: Any) -> Any:
        window = block.attention.window
        return replace(
            block, attention=replace(block.attention, window=None if window is None else window + add)
        )

    widened = replace(model.cache, window=(model.cache.window or 0) + add)
    return replace(each(model, change), cache=widened)


def all_turned(model: Decoder) -> Decoder:
    turn = model.blocks[1].attention.rope
    return each(model, lambda block: replace(block, attention=replace(block.attention, rope=turn)))


def end_eps(model: Decoder) -> Decoder:
    return each(model, lambda block: replace(block, attention_end=replace(block.attention_end, eps=1e-2)))


READINGS: dict[str, Callable[[Decoder], Decoder]] = {
    "no gate": without_gate,
    "norms plus one again": lambda model: with_norms(model, 1),
    "norms less one": lambda model: with_norms(model, -1),
    "a window longer by one": lambda model: with_window(model, 1),
    "a window shorter by one": lambda model: with_window(model, -1),
    "positions everywhere": all_turned,
    "another eps at the end": end_eps,
    "no norm of embeddings": lambda model: replace(model, embedding_norm=None),
    "no scale of logits": lambda model: replace(model, logit_scale=1.0),
    "no softcap": lambda model: replace(model, softcap=None),
}


@pytest.mark.parametrize("name", READINGS)
def test_a_wrong_reading_is_told_from_the_right_one(name: str, tmp_path: Path) -> None:
    made, ids = oracle(SMALL), tokens(40)
    model = READINGS[name](from_gguf(muse.write_text(tmp_path / "m.gguf", made)))
    assert (run(model, ids) - expected(made, ids)).abs().max() > WRONG


def test_the_wrong_order_of_turned_rows_is_told_from_the_right_one(tmp_path: Path) -> None:
    made, ids = oracle(SMALL), tokens(40)
    tensors = muse.text_tensors(made)
    for index, layer in enumerate(made.model.language_model.layers):
        tensors[f"blk.{index}.attn_q.weight"] = layer.self_attn.q_proj.weight.detach().numpy()
        tensors[f"blk.{index}.attn_k.weight"] = layer.self_attn.k_proj.weight.detach().numpy()
    model = from_gguf(muse.write_text(tmp_path / "m.gguf", made, tensors=tensors))
    assert (run(model, ids) - expected(made, ids)).abs().max() > WRONG


def test_the_end_of_the_pattern_is_what_a_list_says(tmp_path: Path) -> None:
    """With 5 layers a period of 4 means others than transformers' count from the last."""
    made, ids = oracle(SMALL), tokens(40)
    model = from_gguf(muse.write_text(tmp_path / "m.gguf", made, pattern=4))
    assert [block.attention.window for block in model.blocks] == [8, 8, 8, None, 8]
    assert (run(model, ids) - expected(made, ids)).abs().max() > WRONG


@torch.no_grad()
def test_states_after_layers_are_those_of_transformers(tmp_path: Path) -> None:
    made, ids = oracle(SMALL), torch.tensor(tokens(40))
    theirs = made(input_ids=ids[None], output_hidden_states=True).hidden_states
    model = from_gguf(muse.write_text(tmp_path / "m.gguf", made))
    kv = Kv(model.cache, 100)
    _, states = model.states(ids, kv, (3, 0))
    assert (states[0] - theirs[4][0]).abs().max() < CLOSE
    assert (states[1] - theirs[1][0]).abs().max() < CLOSE
    assert (states[0] - theirs[3][0]).abs().max() > WRONG
    assert kv.length == 40


@torch.no_grad()
def test_features_stand_in_for_tokens_and_are_not_normed_again(tmp_path: Path) -> None:
    made, ids = oracle(SMALL), tokens(40)
    features = torch.randn(17, SMALL.width)  # of another size than normed ones
    inputs = made.model.language_model.embed_tokens(torch.tensor([ids])).clone()
    inputs[0, 10:27] = features
    wanted = made(inputs_embeds=inputs).logits[0]
    model = from_gguf(muse.write_text(tmp_path / "m.gguf", made))
    inserts = (Insert(10, 10 * features), Insert(10, features), Insert(500, features))
    for chunk in (40, 16, 3, 1):
        assert (run(model, ids, chunk, inserts=inserts) - wanted).abs().max() < CLOSE
    assert (run(model, ids) - wanted).abs().max() > WRONG


@torch.no_grad()
def test_proposed_tokens_that_are_taken_back_leave_no_trace(tmp_path: Path) -> None:
    shape = SHAPES["4 layers"]
    model = from_gguf(muse.write_text(tmp_path / "m.gguf", oracle(shape)))
    ids = tokens(200)
    wanted = expected(oracle(shape), ids)
    kv = Kv(model.cache, 1_000, spare=16)
    run(model, ids[:20], kv=kv)
    rng = np.random.default_rng(0)
    while kv.length < 180:
        start, accepted = kv.length, int(rng.integers(1, 16))
        proposed = ids[start : start + accepted] + tokens(16 - accepted, seed=start)
        assert (run(model, proposed, kv=kv)[:accepted] - wanted[start : start + accepted]).abs().max() < CLOSE
        kv.truncate(start + accepted)


@pytest.mark.parametrize(("storage", "most"), [(BF16, 1e-3), (Q8, 1e-2)])
def test_a_cache_of_fewer_bits_costs_little(storage: Storage, most: float, tmp_path: Path) -> None:
    """The layers of a random model amplify every rounding; real ones do less."""
    shape = SHAPES["8 layers"]
    model = from_gguf(muse.write_text(tmp_path / "m.gguf", oracle(shape)))
    ids = tokens(160)
    exact, rounded = run(model, ids, 16), run(model, ids, 16, storage)
    divergence = kl(exact, rounded)
    print(f"\n{storage.name}: KL mean {divergence.mean():.2e}, worst {divergence.max():.2e}")
    assert 0 < divergence.mean() < most


def kl(one: Tensor, other: Tensor) -> Tensor:
    """KL(one || other) in nats, (n,)."""
    return (one.softmax(-1) * (one.log_softmax(-1) - other.log_softmax(-1))).sum(-1)
