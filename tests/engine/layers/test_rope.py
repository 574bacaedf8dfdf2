import math

import pytest
import torch

from engine.layers.rope import Order, rope
from engine.weights.config import Rope as RopeConfig


@pytest.mark.parametrize(
    ("order", "pairs"), [("interleaved", [(0, 1), (2, 3)]), ("halves", [(0, 2), (1, 3)])]
)
def test_pairs_turn_by_their_angle(order: Order, pairs: list[tuple[int, int]]) -> None:
    turn = rope(4, RopeConfig(base=100.0, dimensions=4, scale=0.5), order, torch.tensor([1.0, 4.0]))
    x = torch.arange(1.0, 9.0).view(2, 1, 4)
    turned = turn.turn(x, turn.at(start=30, count=2))
    for row, position in enumerate((30, 31)):
        for pair, (a, b) in enumerate(pairs):
            angle = position * 0.5 * 100.0 ** (-pair / 2) / (1, 4)[pair]
            first, second = float(x[row, 0, a]), float(x[row, 0, b])
            assert math.isclose(
                turned[row, 0, a], first * math.cos(angle) - second * math.sin(angle), abs_tol=1e-5
            )
            assert math.isclose(
                turned[row, 0, b], first * math.sin(angle) + second * math.cos(angle), abs_tol=1e-5
            )


def test_dimensions_beyond_the_turned_ones_stay() -> None:
    turn = rope(8, RopeConfig(base=100.0, dimensions=4), "halves")
    x = torch.randn(3, 2, 8)
    turned = turn.turn(x, turn.at(5, 3))
    assert torch.equal(turned[..., 4:], x[..., 4:])
    assert not torch.equal(turned[..., :4], x[..., :4])


def test_far_positions_keep_their_angle() -> None:
    turn = rope(2, RopeConfig(base=10_000.0, dimensions=2), "halves")
    assert math.isclose(float(turn.at(131_071, 1).cos[0, 0, 0]), math.cos(131_071), abs_tol=1e-6)
