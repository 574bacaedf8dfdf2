"""With a drafter the text is the same, token for token and draw for draw, whatever it proposes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.api import Done, Event, FinishReason, Request, Sampling, Text
from engine.cache.kv import Kv
from engine.cache.prefix import Prefixes
from engine.cache.storage import BF16, F32, Q8, Storage
from engine.draft.adapt import Pace
from engine.draft.dflash import DFlash
from engine.draft.drafter import Drafter
from engine.layers.decoder import Decoder, Insert
from engine.models import dflash, load
from engine.runner import Runner
from engine.sample import PENALISED, candidates, penalise
from engine.sequence import Job, ListenerGone
from engine.sequence import Sequence as Generation
from engine.text.pictures import Picture
from engine.weights.gguf import GgufFile
from tests.engine import drafters, muse

WINDOW = 24  # crossed by every text here, again and again
CONTEXT = 4_096
GREEDY = Sampling(temperature=0)
LOOSE = Sampling(temperature=1.3, top_k=50, top_p=0.95, min_p=0.01, repetition_penalty=1.3, seed=5)
PICTURES = (30, 17)  # where the features of one begin in a prompt, and how many


@dataclass
class Talk:
    """Stands for a `Dialogue`: a prompt of tokens. `banned`: what is forbidden, by the token before."""

    ids: list[int]
    banned: dict[int, list[int]] = field(default_factory=dict)
    end: int | None = None
    turns: tuple[int, ...] = ()
    pictures: tuple[Picture, ...] = ()
    is_over: bool = False
    reason: FinishReason = "stop"
    said: list[int] = field(default_factory=list)

    def constrain(self, logits: Tensor) -> None:
        logits[self.banned.get(self.said[-1] if self.said else -1, [])] = float("-inf")

    def push(self, token: int) -> list[Event]:
        self.said.append(token)
        self.is_over = token == self.end
        return [Text("x")]

    def finish(self, reason: FinishReason) -> list[Event]:
        return []


class Seeing(Runner):
    """Runs prompts in which a picture's features stand."""

    def forward(
        self, ids: Sequence[int], cache: Kv, *, rate: bool = True, inserts: Sequence[Insert] = ()
    ) -> Tensor | None:
        start, count = PICTURES
        width = self.model.embedding.weight.shape[1]
        rows = torch.randn(count, width, generator=torch.Generator().manual_seed(3))
        return super().forward(ids, cache, rate=rate, inserts=[Insert(start, rows)])


class Fixed(Pace):
    """Always proposes as many tokens as it is told, one number after another."""

    counts: tuple[int, ...] = (15,)

    def _choose(self) -> int:
        self.at = getattr(self, "at", -1) + 1
        return self.counts[self.at % len(self.counts)]


@dataclass
class World:
    """A tiny Muse Glimmer and a DFlash drafter for it, both of random weights."""

    model: Decoder
    folder: Path
    target: Any

    def runner(self, drafter: Drafter | None, storage: Storage = F32, kind: type[Runner] = Runner) -> Runner:
        runner = kind(self.model, CONTEXT, 10**6, storage, drafter)
        runner.most = runner.chunk = 64
        return runner

    def dflash(self, seed: int = 0, storage: Storage = F32) -> DFlash:
        path = self.folder / f"{seed}.gguf"
        if not path.exists():
            drafters.write(path, drafters.drafter(seed, gain=4, sliding_window=WINDOW))
        with GgufFile(path) as file:
            return DFlash(dflash.load(file, 1, self.model)[0], CONTEXT, storage)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world")
    text = {"num_hidden_layers": 4, "sliding_window": WINDOW, "output_multiplier": 2.5}
    target = muse.model(muse.config(text, {"num_hidden_layers": 1}), seed=1)
    with GgufFile(muse.write_text(folder / "m.gguf", target)) as file:
        return World(load(file, threads=1)[1], folder, target)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> type[Fixed]:
    """Steps propose what `counts` says, whether it pays or not."""
    monkeypatch.setattr("engine.sequence.Pace", Fixed)
    monkeypatch.setattr(Fixed, "counts", (15, 3, 15, 1, 8, 0, 15))
    return Fixed


def prompt(seed: int, length: int | None = None) -> list[int]:
    chance = random.Random(seed)
    return chance.choices(range(2, 300), k=length or chance.randint(50, 90))


@dataclass
class Run:
    """A generation that has ended."""

    generation: Generation
    done: Done
    said: list[int]


@torch.inference_mode()
def write(
    runner: Runner,
    ids: list[int],
    tokens: int,
    sampling: Sampling = GREEDY,
    prefixes: Prefixes | None = None,
    talk: Talk | None = None,
) -> Run:
    events: list[Event] = []
    request = Request(prompt="x", sampling=sampling, max_tokens=tokens)
    talk = talk or Talk(ids)
    generation = Generation(Job(request, events.append), talk, runner, prefixes or Prefixes(0))  # type: ignore[arg-type]
    while not generation.is_over:
        generation.step()
    assert isinstance(events[-1], Done)
    assert sum(isinstance(event, Done) for event in events) == 1
    assert generation.tokens == ids + talk.said
    assert generation.cache.length == len(generation.tokens) - 1
    usage = events[-1].usage
    cut = int(talk.is_over and usage.accepted_tokens > 0)  # an end that was proposed adds no token of its own
    assert usage.steps + usage.accepted_tokens - cut <= usage.generated_tokens == len(talk.said)
    assert usage.generated_tokens <= usage.steps + usage.accepted_tokens
    assert usage.drafted_tokens >= usage.accepted_tokens
    return Run(generation, events[-1], talk.said)


def both(
    world: World,
    seed: int,
    tokens: int,
    storage: Storage = F32,
    kind: type[Runner] = Runner,
    sampling: Sampling = GREEDY,
) -> dict[str, float]:
    """Acceptance by drafter; that the text is the same is asserted."""
    ids = prompt(seed)
    plain = write(world.runner(None, storage, kind), ids, tokens, sampling)
    assert plain.done.usage.steps == tokens and plain.done.usage.drafted_tokens == 0
    text, found = ids + plain.said, {}
    for name, drafter in {
        "random": world.dflash(seed % 3, storage),
        "copies": drafters.Knowing(text),
        "often right": drafters.Knowing(text, 0.8, seed),
    }.items():
        run = write(world.runner(drafter, storage, kind), ids, tokens, sampling)
        assert run.said == plain.said, (name, seed)
        assert run.done.reason == plain.done.reason == "length"
        usage = run.done.usage
        found[name] = usage.accepted_tokens / max(1, usage.drafted_tokens)
    return found


CASES = [
    pytest.param(F32, Runner, id="plain cache"),
    pytest.param(Q8, Runner, id="8-bit cache"),
    pytest.param(BF16, Runner, id="16-bit cache"),
    pytest.param(F32, Seeing, id="a picture"),
    pytest.param(Q8, Seeing, id="a picture, 8-bit cache"),
]


@pytest.mark.parametrize(("storage", "kind"), CASES)
def test_greedy_text_is_the_same(
    world: World, always: type[Fixed], storage: Storage, kind: type[Runner]
) -> None:
    for seed in range(2):
        found = both(world, seed, 64, storage, kind)
        assert found["random"] < 0.1
        assert found["copies"] > 0.95
        assert 0.1 < found["often right"] < 0.9


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(("storage", "kind"), CASES)
def test_greedy_text_is_the_same_over_forty_prompts(
    world: World, always: type[Fixed], storage: Storage, kind: type[Runner]
) -> None:
    found = [both(world, seed, 256, storage, kind) for seed in range(40)]
    for name in found[0]:
        print(f"\n{name}: {np.mean([each[name] for each in found]):.1%} accepted")


@pytest.mark.parametrize("storage", [F32, Q8], ids=lambda storage: storage.name)
def test_sampled_text_is_the_same_by_the_same_seed(
    world: World, always: type[Fixed], storage: Storage
) -> None:
    """The draws are the same, so each token's distribution is too; penalties see proposals one by one."""
    for seed in range(3):
        found = both(world, seed, 80, storage, sampling=replace(LOOSE, seed=seed))
        assert found["copies"] > 0.95


def test_without_a_penalty_of_repetition_it_would_be_another_text(world: World) -> None:
    """Or the test above would not show that the history advances with the proposals."""
    runner = world.runner(None)
    with_it = write(runner, prompt(0), 80, LOOSE).said
    assert write(runner, prompt(0), 80, replace(LOOSE, repetition_penalty=1.0)).said != with_it


def test_what_a_grammar_forbids_is_forbidden_row_by_row(world: World, always: type[Fixed]) -> None:
    ids = prompt(4)
    free = write(world.runner(None), ids, 100).said
    banned = {before: [after] for before, after in pairwise(free[10:])}
    held = write(world.runner(None), ids, 100, talk=Talk(ids, banned)).said
    assert held != free
    for text in (ids + free, ids + held):  # proposals that are forbidden, and such as are not
        run = write(world.runner(drafters.Knowing(text)), ids, 100, talk=Talk(ids, banned))
        assert run.said == held


def test_the_end_comes_within_a_proposal(world: World, always: type[Fixed]) -> None:
    ids = prompt(5)
    plain = write(world.runner(None), ids, 100).said
    end = next(token for token in plain[40:] if token not in plain[:40])
    talk = Talk(ids, end=end)
    run = write(world.runner(drafters.Knowing(ids + plain)), ids, 100, talk=talk)
    assert run.said == plain[: plain.index(end) + 1]
    assert run.done.reason == "stop"


@pytest.mark.parametrize("tokens", [1, 2, 3, 15, 16, 17, 18])
def test_never_more_tokens_than_asked_for(world: World, always: type[Fixed], tokens: int) -> None:
    ids = prompt(6)
    plain = write(world.runner(None), ids, 20).said
    always.counts = (15,)
    run = write(world.runner(drafters.Knowing(ids + plain)), ids, tokens)
    assert run.said == plain[:tokens]
    assert run.done.usage.drafted_tokens == run.done.usage.accepted_tokens


def test_the_context_is_filled_to_the_last_token(world: World, always: type[Fixed]) -> None:
    ids = prompt(7, 60)
    plain = write(world.runner(None), ids, 60).said
    for context in range(100, 108):
        runner = world.runner(drafters.Knowing(ids + plain))
        runner.context = context
        run = write(runner, ids, 500)
        assert run.said == plain[: context - 60]
        assert run.done.reason == "length"


def test_a_beginning_is_used_again_with_what_the_drafter_knows_of_it(
    world: World, always: type[Fixed]
) -> None:
    drafter, ids = world.dflash(), prompt(8, 200)
    with_it, without = world.runner(drafter), world.runner(None)
    texts = []
    for runner in (with_it, without):
        prefixes = Prefixes(1 << 30)
        first = write(runner, ids, 60, prefixes=prefixes)
        prefixes.keep(first.generation.tokens, first.generation.cache)
        longer = first.generation.tokens + prompt(9, 20)
        second = write(runner, longer, 60, prefixes=prefixes)
        assert second.done.usage.cached_tokens == 259
        prefixes.keep(second.generation.tokens, second.generation.cache)
        early = longer[:240] + prompt(10, 70)  # too far back for the drafter's window
        third = write(runner, early, 60, prefixes=prefixes)
        texts.append([first.said, second.said, third.said])
        if runner is with_it:
            aside, cache = second.generation.cache.aside, second.generation.cache
            assert aside is not None and aside.length == cache.length
            assert second.done.usage.drafted_tokens > 0 < third.done.usage.drafted_tokens
    assert texts[0] == texts[1]


def test_the_second_request_proposes_what_a_fresh_one_would(world: World) -> None:
    """A re-used beginning brings the drafter's view along: it doesn't start from nothing."""
    drafter, ids, more = world.dflash(), prompt(11, 100), prompt(12, 5)
    fresh, reused = world.runner(drafter), world.runner(drafter)
    with torch.inference_mode():
        whole = fresh.new_cache()
        for part in (ids[:60], ids[60:], more):
            fresh.forward(part, whole)
        kept = reused.new_cache()
        for part in (ids[:60], ids[60:]):
            reused.forward(part, kept)
        prefixes = Prefixes(1 << 30)
        prefixes.keep(ids, kept)
        taken = prefixes.take(ids + more)
        assert taken is not None
        reused.forward(more, taken)
        one, other = fresh.proposer(whole), reused.proposer(taken)
        assert one is not None and other is not None
        assert other.propose(9, 15) == one.propose(9, 15)
        other.truncate(0)
        assert other.propose(9, 15) != one.propose(9, 15)


def test_a_listener_who_leaves_amid_a_proposal_leaves_a_clean_cache(
    world: World, always: type[Fixed]
) -> None:
    ids, heard = prompt(13), []
    plain = write(world.runner(None), ids, 40).said

    def emit(event: Event) -> None:
        heard.append(event)
        if sum(isinstance(each, Text) for each in heard) == 7:
            raise RuntimeError("gone")

    request = Request(prompt="x", sampling=GREEDY, max_tokens=40)
    runner, prefixes = world.runner(drafters.Knowing(ids + plain)), Prefixes(1 << 30)
    always.counts = (15,)
    generation = Generation(Job(request, emit), Talk(ids), runner, prefixes)  # type: ignore[arg-type]
    with torch.inference_mode():
        generation.step()
        generation.step()
        with pytest.raises(ListenerGone):
            generation.step()
    assert generation.tokens == ids + plain[:7]
    assert generation.cache.length == len(generation.tokens) - 1
    prefixes.keep(generation.tokens, generation.cache)
    assert write(runner, ids + plain[:7], 20, prefixes=prefixes).said == plain[7:27]


def test_a_pace_by_the_clock_changes_nothing_but_the_speed(world: World) -> None:
    """As in the product: how many are proposed is measured, so it differs from run to run."""
    ids = prompt(14)
    plain = write(world.runner(None), ids, 200).said
    for drafter in (world.dflash(), drafters.Knowing(ids + plain), drafters.Knowing(ids + plain, 0.7)):
        runner = world.runner(drafter)
        for _ in range(2):
            assert write(runner, ids, 200).said == plain
    assert runner.costs.plain


# ---------------------------------------------------------------------------------------------------------
# That draws follow the model's distribution.


def survival(statistic: float, freedom: int) -> float:
    """The chance that a chi-square as great comes about by chance."""
    half = torch.tensor(freedom / 2, dtype=torch.float64)
    return float(torch.special.gammaincc(half, torch.tensor(statistic / 2, dtype=torch.float64)))


def p_value(counts: np.ndarray, chances: np.ndarray) -> float:
    """Of a chi-square test; rare tokens are counted together."""
    expected = chances * counts.sum()
    rare = expected < 5
    seen = np.append(counts[~rare], counts[rare].sum())
    wanted = np.append(expected[~rare], expected[rare].sum())
    seen, wanted = seen[wanted > 0], wanted[wanted > 0]
    assert len(wanted) > 5
    return survival(float(((seen - wanted) ** 2 / wanted).sum()), len(wanted) - 1)


def chances(row: Tensor, sampling: Sampling, recent: list[int], size: int) -> np.ndarray:
    """The distribution that a token is to be drawn from."""
    ids, found = candidates(penalise(row, recent[-PENALISED:], sampling.repetition_penalty), sampling)
    out = np.zeros(size)
    out[ids.numpy()] = found.double().numpy()
    return out / out.sum()


class Always:
    """Proposes the same, whatever it reads."""

    layers: tuple[int, ...] = (0,)
    most = 15

    def __init__(self, proposed: list[int]) -> None:
        self.proposed = proposed

    def begin(self, at: int) -> Any:
        return _AlwaysProposer(self.proposed, at)


class _AlwaysProposer(drafters.KnowingProposer):
    def __init__(self, proposed: list[int], length: int) -> None:
        self.proposed, self.length = proposed, length

    def propose(self, token: int, count: int) -> list[int]:
        return self.proposed[:count]

    def copy(self, length: int) -> Any:
        return _AlwaysProposer(self.proposed, min(self.length, length))


WARM = Sampling(temperature=0.9, top_k=40, top_p=0.95, min_p=0.0, repetition_penalty=1.2)
COOL = replace(WARM, temperature=0.5)  # proposals are taken more often: later places are reached


@torch.inference_mode()
def draw(world: World, runs: int, sampling: Sampling) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Counts of tokens at each place of a step, and the chances that they should have; likely proposals."""
    ids, vocabulary = prompt(20, 40), world.model.head.weight.shape[0]
    runner = world.runner(None)
    proposed: list[int] = []
    cache = runner.new_cache()
    row = runner.forward(ids, cache)
    wanted = []
    for _ in range(4):
        assert row is not None
        wanted.append(chances(row, sampling, ids + proposed, vocabulary))
        proposed.append(int(wanted[-1].argmax()))
        row = runner.forward(proposed[-1:], cache)
    first = proposed.pop(0)  # chosen from the prompt's logits; the proposals follow it
    counts = [np.zeros(vocabulary) for _ in proposed]
    runner = world.runner(Always(proposed))
    cache = runner.new_cache()
    runner.forward(ids, cache)
    for seed in range(runs):
        request = Request(prompt="x", sampling=replace(sampling, seed=seed))
        talk = Talk(ids)
        generation = Generation(Job(request, lambda event: None), talk, runner, Prefixes(0))  # type: ignore[arg-type]
        generation.cache = cache  # the same beginning for all
        generation.tokens.append(first)
        generation.step()
        for place, token in enumerate(talk.said[: len(counts)]):
            assert talk.said[:place] == proposed[:place]
            counts[place][token] += 1
        cache.truncate(len(ids))
    return counts, wanted[1:]


def check_draws(world: World, runs: int, least: int, sampling: Sampling = WARM) -> None:
    """`least`: draws at every place."""
    counts, wanted = draw(world, runs, sampling)
    for place, (seen, chance) in enumerate(zip(counts, wanted, strict=True)):
        found = p_value(seen, chance)
        print(f"\nplace {place}: {int(seen.sum()):,} draws, p = {found:.3f}, likeliest {chance.max():.2f}")
        assert seen.sum() > least
        assert found > 0.001


def test_draws_follow_the_distribution(world: World, always: type[Fixed]) -> None:
    check_draws(world, 3_000, 60)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_many_draws_follow_the_distribution(world: World, always: type[Fixed]) -> None:
    check_draws(world, 60_000, 1_200)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_many_draws_at_every_place_follow_the_distribution(world: World, always: type[Fixed]) -> None:
    always.counts = (15,)
    check_draws(world, 120_000, 20_000, COOL)


def test_the_rule_for_drafts_that_were_drawn_would_be_caught() -> None:
    """Taking the likeliest with a chance of min(1, p / q) as if it had been drawn by q: too often it."""
    chance, drafted = np.random.default_rng(0), np.array([0.35, 0.25, 0.1, 0.1, 0.08, 0.07, 0.05])
    likely = np.array([0.5, 0.3, 0.1, 0.05, 0.03, 0.01, 0.01])  # p; q is `drafted`, its likeliest the same
    counts = np.zeros(7)
    rest = np.maximum(likely - drafted, 0)
    for _ in range(3_000):
        taken = chance.random() < likely[0] / drafted[0]
        counts[0 if taken else chance.choice(7, p=rest / rest.sum())] += 1
    assert p_value(counts, likely) < 0.001
    right = np.bincount(chance.choice(7, size=3_000, p=likely), minlength=7)
    assert p_value(right, likely) > 0.001
