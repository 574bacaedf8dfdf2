"""With lookup the text is the same, token for token and draw for draw, of packed models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

from engine import Done, Engine, Event, Message, Request, Sampling, Text, kernels
from engine.cache.prefix import Prefixes
from engine.cache.storage import F16, F32, Q8, Storage
from engine.draft import lookup
from engine.draft.adapt import Ramp
from engine.layers.decoder import Decoder
from engine.models import load
from engine.runner import Runner
from engine.sequence import Job
from engine.sequence import Sequence as Generation
from engine.weights.gguf import GgufFile
from engine.weights.json_facts import JsonFacts
from engine.weights.synth import synthesise
from tests.engine import drafters
from tests.engine.test_speculation import GREEDY, LOOSE, Run, Talk, prompt, write
from tests.engine.weights import configs

pytestmark = pytest.mark.skipif(not kernels.can_run(), reason="needs a processor with AVX2")
CONTEXT = 1_000
CONFIGS = {"llama": configs.LLAMA, "gemma3": configs.GEMMA3, "muse": configs.MUSE}
TELL = "Tell me a story of a cat."
LIST: dict[str, Any] = {
    "type": "array",
    "minItems": 5,
    "maxItems": 6,
    "items": {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 20}, "colour": {"enum": ["red", "green"]}},
        "required": ["name", "colour"],
        "additionalProperties": False,
    },
}


class Eager(Ramp):
    """Proposes whatever was found, as many as it is told, one number after another."""

    counts: tuple[int, ...] = (15, 3, 7, 15, 1, 0, 12)

    def count(self, limit: int, rival: float = 0.0) -> int:
        self.at = getattr(self, "at", -1) + 1
        return max(0, min(self.counts[self.at % len(self.counts)], limit))


class Copy(Talk):
    """Is made to say `text`, but now and then another of two tokens is left to the model."""

    text: tuple[int, ...] = ()
    free: frozenset[int] = frozenset()

    def constrain(self, logits: Tensor) -> None:
        at = len(self.said)
        allowed = [self.text[at], self.text[at] ^ 1] if at in self.free else [self.text[at]]
        kept = logits[allowed]
        logits.fill_(float("-inf"))
        logits[allowed] = kept


@pytest.fixture(scope="module", params=list(CONFIGS))
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    """Random weights: what they say is nothing that stood before."""
    path = tmp_path_factory.mktemp("model") / "m.gguf"
    synthesise(JsonFacts(CONFIGS[request.param], "config.json"), "Q8_0", path, seed=1)
    with GgufFile(path) as file:
        return load(file, 1, packs=True)[1]


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> type[Eager]:
    monkeypatch.setattr(lookup, "Ramp", Eager)
    monkeypatch.setattr(Eager, "counts", Eager.counts)
    return Eager


@pytest.fixture
def always(eager: type[Eager], monkeypatch: pytest.MonkeyPatch) -> type[Eager]:
    """One token that stood before is enough to propose what followed it: mostly the wrong thing."""
    monkeypatch.setattr(lookup, "RUN", 1)
    return eager


def runner(model: Decoder, storage: Storage = F16, drafter: Any = None, **options: Any) -> Runner:
    made = Runner(model, CONTEXT, 10**6, storage, drafter, **options)
    made.most = made.chunk = 64
    return made


def both(model: Decoder, ids: list[int], tokens: int, sampling: Sampling, storage: Storage = F16) -> Run:
    plain = write(runner(model, storage, lookup=False), ids, tokens, sampling)
    assert plain.done.usage.steps == tokens and not plain.done.usage.drafted_tokens
    run = write(runner(model, storage), ids, tokens, sampling)
    assert run.said == plain.said
    assert run.done.usage.drafted_tokens
    return run


@pytest.mark.parametrize("storage", [F16, F32], ids=lambda storage: storage.name)
def test_greedy_and_sampled_texts_are_the_same(model: Decoder, always: type[Eager], storage: Storage) -> None:
    """Over windows of 32 and 64 tokens, where the model has them: proposals are taken back in a ring."""
    for sampling in (GREEDY, LOOSE, replace(LOOSE, seed=6, temperature=0.6, repetition_penalty=1.0)):
        both(model, prompt(3), 150, sampling, storage)


def copying(model: Decoder, seed: int = 0) -> tuple[list[int], Copy]:
    """A document, and the talk that repeats it with a few changes."""
    chance, document = Random(seed), prompt(seed, 200)
    talk = Copy([*document, 0])
    talk.text, talk.free = tuple(document + document), frozenset(chance.sample(range(200), 12))
    return [*document, 0], talk


@pytest.mark.parametrize("sampling", [GREEDY, LOOSE], ids=["greedy", "sampled"])
def test_a_copy_with_changes_is_the_same_in_fewer_steps(
    model: Decoder, eager: type[Eager], sampling: Sampling
) -> None:
    ids, talk = copying(model)
    plain = write(runner(model, lookup=False), ids, 200, sampling, talk=talk)
    ids, talk = copying(model)
    run = write(runner(model), ids, 200, sampling, talk=talk)
    assert run.said == plain.said != talk.text[:200]
    assert run.done.usage.steps < 0.8 * plain.done.usage.steps
    assert 50 < run.done.usage.accepted_tokens < run.done.usage.drafted_tokens


def test_a_width_by_the_clock_changes_nothing_but_the_speed(model: Decoder) -> None:
    """As in the product: how many are proposed is measured, so it differs from run to run."""
    ids, talk = copying(model, 1)
    plain = write(runner(model, lookup=False), ids, 300, LOOSE, talk=talk)
    made = runner(model)
    for _ in range(2):
        ids, talk = copying(model, 1)
        assert write(made, ids, 300, LOOSE, talk=talk).said == plain.said


@pytest.mark.parametrize("tokens", [1, 2, 3, 9, 17, 18, 40])
def test_never_more_tokens_than_asked_for(model: Decoder, eager: type[Eager], tokens: int) -> None:
    eager.counts = (15,)
    ids, talk = copying(model)
    talk.free = frozenset()
    run = write(runner(model), ids, tokens, talk=talk)
    assert tuple(run.said) == talk.text[:tokens]
    assert run.done.reason == "length"


def test_the_end_comes_within_a_proposal(model: Decoder, eager: type[Eager]) -> None:
    eager.counts = (15,)
    for at in range(60, 80):
        ids, talk = copying(model)
        talk.free, talk.end = frozenset(), talk.text[at]
        run = write(runner(model), ids, 200, talk=talk)
        assert tuple(run.said) == talk.text[: talk.text.index(talk.text[at]) + 1]
        assert run.done.reason == "stop"


@torch.inference_mode()
def test_cancelled_amid_a_proposal_nothing_more_is_said(model: Decoder, eager: type[Eager]) -> None:
    eager.counts = (15,)
    _, talk = copying(model)
    talk.free, heard = frozenset(), []

    def emit(event: Event) -> None:
        heard.append(event)
        job.is_cancelled = len(talk.said) == 30

    made, prefixes = runner(model), Prefixes(1 << 30)
    job = Job(Request(prompt="x", sampling=GREEDY, max_tokens=200), emit)
    generation = Generation(job, talk, made, prefixes)  # type: ignore[arg-type]
    while not job.is_cancelled:
        generation.step()
    assert len(talk.said) == 30
    assert generation.cache.length == len(generation.tokens) - 1
    generation.end("cancelled")
    prefixes.keep(generation.tokens, generation.cache)
    _, rest = copying(model)
    rest.ids, rest.text, rest.free = generation.tokens, talk.text[30:], frozenset()
    run = write(made, generation.tokens, 20, prefixes=prefixes, talk=rest)
    assert run.done.usage.cached_tokens == len(generation.tokens) - 1
    assert tuple(run.said) == talk.text[30:50]


def test_a_beginning_that_is_used_again_is_looked_up_too(model: Decoder, eager: type[Eager]) -> None:
    eager.counts = (15,)
    made, prefixes = runner(model), Prefixes(1 << 30)
    first = write(made, prompt(8, 150), 30, prefixes=prefixes)
    prefixes.keep(first.generation.tokens, first.generation.cache)
    talk = Copy([*first.generation.tokens, 0])
    talk.text = tuple(first.generation.tokens)
    run = write(made, talk.ids, 120, prefixes=prefixes, talk=talk)
    assert run.done.usage.cached_tokens == 179
    assert tuple(run.said) == talk.text[:120]
    assert run.done.usage.accepted_tokens > 80


def test_where_rows_cost_as_much_each_nothing_is_looked_up(model: Decoder) -> None:
    made = runner(model, Q8)
    assert made.lookup(made.new_cache()) is None
    made = runner(replace(model, fused=None))
    assert made.lookup(made.new_cache()) is None
    made = runner(model, lookup=False)
    assert made.lookup(made.new_cache()) is None


@pytest.mark.parametrize("skill", [1.0, 0.7, 0.0])
@pytest.mark.parametrize("sampling", [GREEDY, LOOSE], ids=["greedy", "sampled"])
def test_a_drafter_proposes_where_nothing_stood_before(
    model: Decoder, eager: type[Eager], skill: float, sampling: Sampling
) -> None:
    ids, talk = copying(model)
    plain = write(runner(model, lookup=False), ids, 200, sampling, talk=talk)
    steps = []
    for looks in (False, True):
        ids, talk = copying(model)
        made = runner(model, drafter=drafters.Knowing(ids + plain.said, skill), lookup=looks)
        run = write(made, ids, 200, sampling, talk=talk)
        assert run.said == plain.said
        steps.append(run.done.usage.steps)
        assert made.costs.plain
    if not skill:
        assert steps[1] < 0.8 * steps[0]


# ---------------------------------------------------------------------------------------------------------
# On a real model.


@pytest.fixture(scope="module")
def engines(smollm2: Path) -> Iterator[tuple[Engine, Engine]]:
    """Without and with it."""
    off = Engine(smollm2, context=2_048, threads=1, packs=True, kv="F16", lookup=False)
    on = Engine(smollm2, context=2_048, threads=1, packs=True, kv="F16")
    with closing(off), closing(on):
        yield off, on


@dataclass
class Heard:
    text: str
    done: Done


def ask(engine: Engine, request: Request) -> Heard:
    events = list(engine.generate(request))
    assert isinstance(events[-1], Done)
    return Heard("".join(event.text for event in events if isinstance(event, Text)), events[-1])


THINGS = ("lamp", "horse", "piano", "ladder", "bucket", "mirror", "violin", "basket")
SENTENCES = "".join(
    f"{number}. The {thing} stood by the door for {number * 7} days, and nobody asked why.\n"
    for number, thing in enumerate(THINGS)
)
TWICE = 2 * SENTENCES + SENTENCES[:40]
REQUESTS = {
    "a copy": Request(prompt=TWICE, max_tokens=120, sampling=GREEDY),
    "a sampled copy": Request(prompt=TWICE, max_tokens=120, sampling=Sampling(seed=3)),
    "a story": Request((Message("user", TELL),), max_tokens=100, sampling=GREEDY),
    "a wild story": Request((Message("user", TELL),), max_tokens=100, sampling=replace(LOOSE, seed=1)),
    "JSON": Request((Message("user", "Fruit, as JSON."),), answer_schema=LIST, sampling=Sampling(seed=2)),
}


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_real_model_says_the_same(
    engines: tuple[Engine, Engine], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    off, on = engines
    plain = ask(off, REQUESTS[kind])
    assert not plain.done.usage.drafted_tokens
    for width in (None, 15):
        if width is not None:
            monkeypatch.setattr(lookup, "Ramp", Eager)
            monkeypatch.setattr(Eager, "counts", (width,))
        found = ask(on, REQUESTS[kind])
        assert (found.text, found.done.reason) == (plain.text, plain.done.reason)
        assert found.done.usage.generated_tokens == plain.done.usage.generated_tokens
        usage = found.done.usage
        print(f"\n{kind}: {usage.generated_tokens} tokens in {usage.steps} steps")
        if "copy" in kind or kind == "JSON":
            assert usage.steps < 0.8 * usage.generated_tokens


@torch.inference_mode()
def test_a_token_is_the_same_to_the_bit_among_sixteen(engines: tuple[Engine, Engine]) -> None:
    made = engines[1]._loaded.runner
    ids = list(range(1_000, 1_316))
    together, alone = made.new_cache(), made.new_cache()
    for cache in (together, alone):
        for start in range(0, 300, 100):
            made.forward(ids[start : start + 100], cache)
    for row, token in zip(made.check(ids[300:], together).rows, ids[300:], strict=True):
        one = made.forward([token], alone)
        assert one is not None and torch.equal(row, one)
