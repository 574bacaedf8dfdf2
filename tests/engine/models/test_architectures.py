from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.api import BadModel
from engine.models import architectures, load
from engine.runner import Runner
from engine.weights.gguf import GgufFile
from tests.engine import tiny

SHAPES = {
    "llama 9/3": tiny.LLAMA,
    "llama 4/1": replace(tiny.LLAMA, heads=4, kv_heads=1, head_dim=24),
    "llama own head, biases": replace(tiny.LLAMA, tied=False, bias=True),
    "llama stretched": replace(tiny.LLAMA, rope_scale=4.0, factors=True),
    "gemma3 4/1": tiny.GEMMA3,
    "gemma3 9/3": replace(tiny.GEMMA3, heads=9, kv_heads=3, head_dim=16, factors=True),
}
CLOSE = 1e-4


def runner_of(path: Path) -> Runner:
    with GgufFile(path) as file:
        config, model, _ = load(file, threads=1, packs=False)
    return Runner(model, config.context_length, parameters=10**6)


def tokens(count: int) -> list[int]:
    return np.random.default_rng(count).integers(4, 250, count).tolist()


@pytest.mark.parametrize("name", SHAPES)
def test_the_logits_are_those_of_a_plain_float64_forward(name: str, tmp_path: Path) -> None:
    shape = SHAPES[name]
    runner, ids = runner_of(tiny.write(tmp_path / "m.gguf", shape)), tokens(23)
    expected = tiny.forward(shape, tiny.weights(shape), ids)
    assert np.abs(expected).max() > 1
    assert np.abs(runner.logits(ids).numpy() - expected).max() < CLOSE


@pytest.mark.parametrize("count", [1, 7, 8, 9, 40])
def test_windows_end_where_they_should(count: int, tmp_path: Path) -> None:
    runner, ids = runner_of(tiny.write(tmp_path / "m.gguf", tiny.GEMMA3)), tokens(count)
    expected = tiny.forward(tiny.GEMMA3, tiny.weights(tiny.GEMMA3), ids)
    assert np.abs(runner.logits(ids).numpy() - expected).max() < CLOSE
    if count > 8:  # the window matters: one more token of it is another model
        other = replace(tiny.GEMMA3, window=9)
        assert np.abs(expected - tiny.forward(other, tiny.weights(other), ids)).max() > 10 * CLOSE


@pytest.mark.parametrize("name", ["llama 9/3", "gemma3 4/1"])
def test_chunks_steps_and_all_at_once_agree(name: str, tmp_path: Path) -> None:
    runner, ids = runner_of(tiny.write(tmp_path / "m.gguf", SHAPES[name])), tokens(53)
    whole = runner.logits(ids)
    for size in (1, 5, 16):
        runner.most = runner.chunk = size
        assert (runner.logits(ids) - whole).abs().max() < CLOSE
        cache = runner.new_cache()
        for start in range(0, len(ids), size):
            last = runner.forward(ids[start : start + size], cache)
        assert last is not None
        assert (last - whole[-1]).abs().max() < CLOSE


def test_a_tied_head_is_the_embedding_itself(tmp_path: Path) -> None:
    assert (tied := runner_of(tiny.write(tmp_path / "a.gguf", tiny.LLAMA)).model).head is tied.embedding
    own = runner_of(tiny.write(tmp_path / "b.gguf", replace(tiny.LLAMA, tied=False))).model
    assert not torch.equal(own.head.weight, own.embedding.weight)


def test_the_weights_are_counted(tmp_path: Path) -> None:
    with GgufFile(tiny.write(tmp_path / "m.gguf", tiny.LLAMA)) as file:
        *_, held = load(file, threads=1, packs=False)
    assert held == sum(tensor.nbytes for tensor in tiny.weights(tiny.LLAMA).values())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"blk.1.ffn_up.weight": None}, "blk.1.ffn_up.weight is missing"),
        ({"blk.1.ffn_up.weight": (95, 72)}, "blk.1.ffn_up.weight is 95 x 72 and should be 96 x 72"),
        ({"output_norm.weight": (71,)}, "output_norm.weight is 71 and should be 72"),
        (
            {"blk.0.attn_sinks.weight": (9,)},
            "blk.0.attn_sinks.weight, which Sidelight doesn't know how to use",
        ),
    ],
)
def test_tensors_that_do_not_fit_are_named(
    change: dict[str, tuple[int, ...] | None], words: str, tmp_path: Path
) -> None:
    changed = {name: np.ones(size, np.float32) for name, size in change.items() if size is not None}
    tensors = {
        name: tensor for name, tensor in tiny.weights(tiny.LLAMA).items() if name not in change
    } | changed
    path = tiny.write(tmp_path / "m.gguf", tiny.LLAMA, tensors)
    with GgufFile(path) as file, pytest.raises(BadModel, match=words):
        load(file, threads=1, packs=False)


def test_a_size_that_no_memory_holds_is_refused_by_tensor(tmp_path: Path) -> None:
    """The shape is looked at before room is made for it."""
    huge = replace(tiny.LLAMA, ffn=1 << 24)
    path = tiny.write(tmp_path / "m.gguf", huge, tiny.weights(tiny.LLAMA))
    with (
        GgufFile(path) as file,
        pytest.raises(BadModel, match=r"ffn_gate\.weight is 96 x 72 and should be 16"),
    ):
        load(file, threads=1, packs=False)


def test_an_unknown_architecture_is_named_with_what_we_run(tmp_path: Path) -> None:
    path = tiny.write(tmp_path / "m.gguf", replace(tiny.LLAMA, architecture="llama9"), {})
    with GgufFile(path) as file, pytest.raises(BadModel, match=r"'llama9'.*gemma3, llama"):
        load(file, threads=1, packs=False)


def test_every_architecture_has_its_parts_and_a_name_of_its_own() -> None:
    known = architectures()  # two with one name: ValueError
    assert {"llama", "gemma3"} <= set(known)
    for name, member in known.items():
        assert name in member.NAMES
        assert callable(member.configure)
        assert callable(member.build)
        assert member.__doc__
