"""A token's bits don't depend on which others are computed with it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from engine.cache.kv import Kv
from engine.cache.storage import BF16, F32, Q8, Storage
from engine.layers import attend
from engine.layers.linear import FEW, Linear
from engine.models import load
from engine.weights.gguf import GgufFile
from tests.engine import muse, tiny

LONG = {"num_hidden_layers": 8, "sliding_window": 24, "output_multiplier": 1.7}


@pytest.mark.parametrize("threads", [1, 2])
def test_a_row_of_a_product_is_the_same_among_others_and_alone(threads: int) -> None:
    chance = random.Random(threads)
    torch.set_num_threads(threads)
    for _ in range(60):
        rows, columns = chance.randint(1, 2_500), chance.choice([chance.randint(1, 90), 576, 1_000])
        linear, x = Linear(torch.randn(rows, columns), torch.randn(rows)), torch.randn(FEW, columns)
        alone = torch.cat([linear(x[row : row + 1].clone()) for row in range(FEW)])
        count = chance.randint(2, FEW)
        assert torch.equal(linear(x[FEW - count :]), alone[FEW - count :]), (rows, columns, count)
        assert (linear.loose()(x) - alone).abs().max() < 1e-3


def test_one_dimension_and_many_rows_are_products_too() -> None:
    linear = Linear(torch.randn(50, 7), torch.randn(50))
    x = torch.randn(3, 20, 7)
    wanted = x @ linear.weight.T + linear.bias
    assert (linear(x) - wanted).abs().max() < 1e-5
    assert (linear(x[0, 0]) - wanted[0, 0]).abs().max() < 1e-5
    assert linear(x[0, 0]).shape == (50,)
    assert (linear(x[:, :2]) - wanted[:, :2]).abs().max() < 1e-5


@pytest.fixture(scope="module", params=["llama", "gemma3", "muse"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("model") / "m.gguf"
    if request.param == "muse":
        return muse.write_text(target, muse.model(muse.config(LONG, {"num_hidden_layers": 1})))
    return tiny.write(target, tiny.LLAMA if request.param == "llama" else tiny.GEMMA3)


@pytest.mark.parametrize(
    ("storage", "threads"), [(F32, 2), (BF16, 1), (Q8, 1)], ids=["f32-two threads", "bf16", "q8"]
)
@pytest.mark.parametrize("is_long", [False, True], ids=["at once", "in parts"])
@torch.inference_mode()
def test_a_token_is_the_same_among_proposed_ones_and_alone(
    path: Path, storage: Storage, threads: int, is_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit, through all layers and whatever the cache rounds; windows move on the way."""
    torch.set_num_threads(threads)
    if is_long:
        monkeypatch.setattr(attend, "LEAST", 1)
        monkeypatch.setattr(attend, "CONVERTED", 40)
    with GgufFile(path) as file:
        model = load(file, threads=1)[1]
    ids = torch.tensor(random.Random(0).choices(range(3, 200), k=150))
    one, other = (Kv(model.cache, 1_000, storage, spare=16) for _ in range(2))
    for kv in (one, other):
        model.hidden(ids[:20], kv)
    alone = torch.cat([model.rate(model.hidden(ids[at : at + 1], one)) for at in range(20, 150)])
    chance, checked = random.Random(1), 0
    while other.length < 130:
        start, count = other.length, chance.randint(2, FEW)
        states = model.hidden(ids[start : start + count], other)
        rows, accepted = model.rate(states), chance.randint(1, count)
        assert torch.equal(rows, alone[start - 20 : start - 20 + count])
        other.truncate(start + accepted)
        checked += count
    assert checked > 130
