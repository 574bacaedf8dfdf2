from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.api import EngineError, Sampling
from engine.sample import PENALISED, candidates, choose, generator, penalise

OFF = Sampling(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)


def plain(logits: np.ndarray, sampling: Sampling) -> dict[int, float]:
    """The definition, in numpy: token -> probability."""
    kept = sorted(range(len(logits)), key=lambda token: -logits[token])
    if sampling.top_k:
        kept = kept[: sampling.top_k]
    chances = np.exp(logits[kept] - logits.max())
    chances /= chances.sum()
    if sampling.top_p < 1:
        count = 1
        while count < len(kept) and chances[:count].sum() < sampling.top_p:
            count += 1
        kept = kept[:count]
    kept = [token for token in kept if np.exp(logits[token] - logits.max()) >= sampling.min_p]
    heated = np.exp((logits[kept] - logits.max()) / sampling.temperature)
    return dict(zip(kept, heated / heated.sum(), strict=True))


@settings(deadline=None, max_examples=150)
@given(
    seed=st.integers(0, 2**31),
    size=st.sampled_from([3, 40, 900]),
    temperature=st.sampled_from([0.2, 1.0, 3.0]),
    top_k=st.sampled_from([0, 1, 5, 300, 2_000]),
    top_p=st.sampled_from([0.05, 0.5, 0.937, 0.999, 1.0]),
    min_p=st.sampled_from([0.0, 0.0513, 0.9]),
)
def test_candidates_are_those_of_the_definition(
    seed: int, size: int, temperature: float, top_k: int, top_p: float, min_p: float
) -> None:
    logits = np.random.default_rng(seed).standard_normal(size) * 3
    sampling = Sampling(temperature, top_k, top_p, min_p)
    expected = plain(logits, sampling)
    ids, chances = candidates(torch.from_numpy(logits), sampling)
    assert set(ids.tolist()) == set(expected)
    found = dict(zip(ids.tolist(), chances.tolist(), strict=True))
    assert found == pytest.approx(expected, abs=1e-9)


def test_a_flat_distribution_goes_beyond_the_first_look() -> None:
    ids, _ = candidates(torch.zeros(5_000), Sampling(1.0, 0, 0.9, 0.0))
    assert 4_490 <= len(ids) <= 4_510


def test_draws_follow_the_probabilities() -> None:
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0, -30.0])
    chance, draws = generator(5), 4_000
    counts = Counter(choose(logits, OFF, [], chance) for _ in range(draws))
    expected = torch.softmax(logits, 0).tolist()
    for token, share in enumerate(expected):
        assert abs(counts[token] / draws - share) < 4 * (share * (1 - share) / draws) ** 0.5 + 1e-9


def test_greedy_takes_the_likeliest_and_no_chance() -> None:
    logits = torch.randn(1_000, generator=torch.Generator().manual_seed(1))
    chance = generator(1)
    before = chance.get_state()
    assert choose(logits, Sampling(temperature=0), [], chance) == int(logits.argmax())
    assert torch.equal(chance.get_state(), before)


@pytest.mark.parametrize("seed", [0, -7, 2**64 + 3])
def test_a_seed_repeats_and_another_does_not(seed: int) -> None:
    logits = torch.zeros(1_000)

    def draw(chance: torch.Generator) -> list[int]:
        return [choose(logits, OFF, [], chance) for _ in range(20)]

    assert draw(generator(seed)) == draw(generator(seed)) != draw(generator(seed + 1))
    assert draw(generator(None)) != draw(generator(None))


def test_the_penalty_lowers_recent_tokens_once_each_and_only_them() -> None:
    logits = torch.tensor([3.0, -2.0, 0.0, 5.0])
    assert penalise(logits, [0, 1, 1, 0], 2.0).tolist() == [1.5, -4.0, 0.0, 5.0]
    assert logits.tolist() == [3.0, -2.0, 0.0, 5.0]
    greedy = Sampling(temperature=0, repetition_penalty=2.0)
    assert choose(torch.tensor([3.0, 2.0]), greedy, [0], generator(0)) == 1
    assert choose(torch.tensor([3.0, 2.0]), greedy, [0, *[1] * PENALISED], generator(0)) == 0


@pytest.mark.parametrize("logits", [[float("nan"), 1.0], [float("-inf")] * 2, [float("inf"), 0.0]])
def test_logits_that_are_none_are_refused(logits: list[float]) -> None:
    for temperature in (0, 1):
        with pytest.raises(EngineError, match="rates no next word"):
            choose(torch.tensor(logits), Sampling(temperature=temperature), [], generator(0))


def test_forbidden_tokens_are_never_drawn() -> None:
    logits = torch.full((50,), float("-inf"))
    logits[[7, 9]] = 0.0
    chance = generator(2)
    assert {choose(logits, OFF, [], chance) for _ in range(50)} == {7, 9}
    assert {choose(logits, Sampling(), [], chance) for _ in range(50)} == {7, 9}
