"""A drafter's view of one sequence: it follows the sequence wherever that goes, and is beside its cache."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor

from engine.cache.kv import Kv
from engine.cache.prefix import Prefixes
from engine.cache.storage import Q8
from engine.draft.dflash import WAITING, DFlash, Draft
from engine.models import dflash, load
from engine.weights.gguf import GgufFile
from tests.engine import drafters, muse

WINDOW = 24
LENGTH = 600


@pytest.fixture(scope="module")
def drafter(tmp_path_factory: pytest.TempPathFactory) -> DFlash:
    folder = tmp_path_factory.mktemp("draft")
    made = muse.model(muse.config({"num_hidden_layers": 4}, {"num_hidden_layers": 1}))
    with GgufFile(muse.write_text(folder / "m.gguf", made)) as file:
        target = load(file, threads=1)[1]
    with GgufFile(drafters.write(folder / "d.gguf", drafters.drafter(gain=5, sliding_window=WINDOW))) as file:
        return DFlash(dflash.load(file, 1, target)[0], 1_000)


@pytest.fixture(scope="module")
def states(drafter: DFlash) -> list[Tensor]:
    width = drafter.model.embedding.weight.shape[1]
    return list(torch.randn(3, LENGTH, width, generator=torch.Generator().manual_seed(0)))


def note(draft: Draft, states: list[Tensor], end: int) -> None:
    draft.note([state[draft.length : end] for state in states])


def fresh(drafter: DFlash, states: list[Tensor], length: int) -> list[int]:
    """What one proposes that has taken in so many tokens at once."""
    draft = drafter.begin(0)
    note(draft, states, length)
    return draft.propose(9, 15)


def test_proposals_depend_on_what_was_taken_in(drafter: DFlash, states: list[Tensor]) -> None:
    """Or the tests below would prove nothing."""
    found = [tuple(fresh(drafter, states, length)) for length in range(1, 101)]
    assert len(set(found)) > 80
    assert len({token for tokens in found for token in tokens}) > 10


def test_in_whatever_pieces_tokens_come_the_proposals_are_the_same(
    drafter: DFlash, states: list[Tensor]
) -> None:
    chance, draft = random.Random(0), drafter.begin(0)
    while draft.length < LENGTH - 60:
        note(draft, states, draft.length + chance.choice([1, 2, 16, 60]))
        if chance.random() < 0.4:
            assert draft.propose(9, 15) == fresh(drafter, states, draft.length)
            assert draft.propose(9, 4) == fresh(drafter, states, draft.length)[:4]


def test_tokens_wait_to_be_taken_in_together(drafter: DFlash, states: list[Tensor]) -> None:
    draft, sizes = drafter.begin(0), []
    for end in range(1, 3 * WAITING):
        note(draft, states, end)
        sizes.append(draft._kv.length)
    assert set(sizes) == {0, WAITING, 2 * WAITING}
    assert draft.length == 3 * WAITING - 1
    assert draft.bytes > draft._kv.bytes


def test_what_is_taken_back_leaves_no_trace(drafter: DFlash, states: list[Tensor]) -> None:
    chance, draft = random.Random(1), drafter.begin(0)
    wrong = [torch.flip(state, [0]) for state in states]
    while draft.length < LENGTH - 20:
        good = draft.length + chance.randint(1, 4)
        note(draft, states, good)
        draft.note([state[:12] for state in wrong])
        if chance.random() < 0.5:
            draft.propose(9, 3)
        draft.truncate(good)
        assert draft.length == good
        assert draft.propose(9, 15) == fresh(drafter, states, good)


def test_far_back_it_begins_anew_and_is_itself_again_after_a_window(
    drafter: DFlash, states: list[Tensor]
) -> None:
    draft = drafter.begin(0)
    note(draft, states, LENGTH)
    draft.propose(9, 1)
    other = draft.copy(100)
    draft.truncate(100)
    for one in (draft, other):
        assert one.length == 100
        assert len(one.propose(9, 15)) == 15  # knowing nothing, at the right place
        note(one, states, 100 + WINDOW)
        assert one.propose(9, 15) == fresh(drafter, states, 100 + WINDOW)


def test_skipped_tokens_are_nothing_but_missed(drafter: DFlash, states: list[Tensor]) -> None:
    """As after a re-used beginning."""
    draft = drafter.begin(200)
    assert draft.length == 200
    note(draft, states, 200 + WINDOW)
    assert draft.propose(9, 15) == fresh(drafter, states, 200 + WINDOW)


def test_it_goes_along_with_the_cache(drafter: DFlash, states: list[Tensor]) -> None:
    """Kept with it, copied, rolled back, and its bytes are counted."""
    kv = Kv(drafter.model.cache, 1_000)
    draft = drafter.begin(0)
    kv.aside = draft
    rows = torch.zeros(300, 2, 16)
    for layer in range(3):
        kv.append(layer, rows, rows)
    kv.advance(300)
    note(draft, states, 300)
    beside, kv.aside = kv.bytes, None
    assert beside - kv.bytes == draft.bytes > 0
    kv.aside = draft
    prefixes, tokens = Prefixes(1 << 30), list(range(300))
    prefixes.keep(tokens, kv)
    taken = prefixes.take([*tokens[:297], 5, 6])
    assert taken is kv and draft.length == taken.length == 297
    prefixes.keep(tokens[:297], kv)
    side = kv.copy(297)
    assert side.aside is not None and side.aside is not draft and side.aside.length == 297
    assert isinstance(side.aside, Draft)
    note(side.aside, states, 310)
    assert side.aside.propose(9, 15) == fresh(drafter, states, 310)
    assert draft.propose(9, 15) == fresh(drafter, states, 297)


def test_a_cache_of_fewer_bits_proposes_nearly_the_same(drafter: DFlash, states: list[Tensor]) -> None:
    small, same = DFlash(drafter.model, 1_000, Q8), 0
    for end in range(20, 420, 20):
        draft = small.begin(0)
        note(draft, states, end)
        found = zip(draft.propose(9, 15), fresh(drafter, states, end), strict=True)
        same += sum(one == other for one, other in found)
    assert draft.bytes < 0.6 * _bytes(drafter, states)
    assert same / (20 * 15) > 0.8


def _bytes(drafter: DFlash, states: list[Tensor]) -> int:
    draft = drafter.begin(0)
    note(draft, states, 400)
    draft.propose(9, 1)
    return draft.bytes
