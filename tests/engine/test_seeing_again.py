"""Conversations with pictures that change, again and again: each answer is that of a fresh run."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.api import Event, Request, Sampling
from engine.cache.kv import NEAR
from engine.cache.prefix import Prefixes
from engine.cache.storage import F32, Q8, Storage
from engine.draft.dflash import DFlash
from engine.models import dflash, load
from engine.runner import Runner
from engine.sequence import Job
from engine.sequence import Sequence as Generation
from engine.text.pictures import Marks, Picture, place
from engine.vision.features import VisionEncoder
from engine.weights.gguf import GgufFile
from tests.engine import drafters, muse
from tests.engine.test_speculation import Fixed
from tests.engine.vision.pictures import as_png, picture

START, PATCH, END, TURN = 3, 5, 4, 6
WINDOW = 16  # most pictures are longer, so it lies within them
CONTEXT, TOKENS = 2_048, 24
CLOSE, EIGHT_BITS = 2e-4, 0.1  # in other chunks, a value on the edge is rounded to its other side
# Two of a size: only what they show tells them apart. Their cells: 9, 9, 10, 12, 35, 1.
FILES = [
    as_png(picture(84, 84)),
    as_png(picture(84, 84).convert("L").convert("RGB")),
    as_png(picture(140, 56)),
    as_png(picture(60, 170)),
    as_png(picture(200, 130)),
    as_png(picture(1, 1)),
]
Turn = tuple[tuple[int, ...], tuple[bytes, ...]]  # tokens, and the pictures before them


class Talk:
    """Stands for a `Dialogue`: logits are heard, nothing is said."""

    is_over, reason = False, "stop"

    def __init__(self, ids: list[int], pictures: list[Picture]) -> None:
        self.ids, self.pictures = ids, pictures
        within = {at for each in pictures for at in range(each.start, each.end)}
        marks = {START, END, TURN}
        self.turns = [at for at, token in enumerate(ids) if token in marks and at not in within]
        self.rated: list[Tensor] = []

    def constrain(self, logits: Tensor) -> None:
        self.rated.append(logits.clone())

    def push(self, token: int) -> list[Event]:
        return []

    def finish(self, reason: str) -> list[Event]:
        return []


@dataclass
class Answer:
    """`rated` are logits for each token of `said`."""

    rated: list[Tensor]
    said: list[int]
    cached: int
    drafted: int


class World:
    """A model that sees, a drafter for it, and what is kept of its conversations."""

    def __init__(self, folder: Path) -> None:
        text = {"sliding_window": WINDOW, "output_multiplier": 2.5}
        made = muse.model(muse.config(text), seed=1)
        with GgufFile(muse.write_text(folder / "m.gguf", made)) as file:
            self.model = load(file, threads=1)[1]
        self.vision = VisionEncoder.open(muse.write_mmproj(folder / "v.gguf", made), muse.TEXT["hidden_size"])
        path = drafters.write(folder / "d.gguf", drafters.drafter(gain=4, sliding_window=WINDOW))
        with GgufFile(path) as file:
            self.draft = dflash.load(file, 1, self.model)[0]

    def runner(self, storage: Storage, is_drafted: bool, chunk: int) -> Runner:
        drafter = DFlash(self.draft, CONTEXT, storage) if is_drafted else None
        runner = Runner(self.model, CONTEXT, 1, storage, drafter)
        runner.most = runner.chunk = chunk
        return runner

    def prompt(self, turns: list[Turn]) -> tuple[list[int], list[Picture]]:
        ids: list[int] = []
        for tokens, files in turns:
            ids += [TURN, *[PATCH] * len(files), *tokens]
        shown = [file for _, files in turns for file in files]
        return place(ids, Marks(START, PATCH, END), shown, self.vision.tokens)

    @torch.inference_mode()
    def answer(
        self, turns: list[Turn], runner: Runner, prefixes: Prefixes, cancel_after: int | None = None
    ) -> Answer:
        """By a generation's own steps; cut off after some of them, or to the end. Then it is kept."""
        talk, steps = Talk(*self.prompt(turns)), 0
        job = Job(Request("x", sampling=Sampling(temperature=0), max_tokens=TOKENS), lambda event: None)
        generation = Generation(job, talk, runner, prefixes, self.vision)  # type: ignore[arg-type]
        while not generation.is_over:
            if steps == cancel_after:
                generation.end("cancelled")
                break
            generation.step()
            steps += 1
        prefixes.keep(generation.identity, generation.cache)
        usage = generation._usage()
        said = generation.tokens[usage.prompt_tokens :]
        return Answer(talk.rated, said, usage.cached_tokens, usage.drafted_tokens)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("again"))


def a_turn(dice: random.Random) -> Turn:
    tokens = tuple(dice.choices(range(10, 300), k=dice.choice([1, 5, 14, 15, 16, 17, 40])))
    return tokens, tuple(dice.choices(FILES, k=dice.choice([0, 1, 1, 2])))


def changed(turns: list[Turn], dice: random.Random) -> list[Turn]:
    """The conversation goes on, or something of what was is another now."""
    turns, at = list(turns), dice.randrange(len(turns))
    tokens, files = turns[at]
    match dice.randrange(8):
        case 0 | 1:
            turns.append(a_turn(dice))
        case 2:  # a screenshot expires
            turns[at] = (tokens, files[:-1])
        case 3:  # another picture
            turns[at] = (tokens, tuple(dice.choice(FILES) for _ in files))
        case 4:
            turns[at] = (tokens, tuple(reversed(files)))
        case 5:  # turns change places
            other = dice.randrange(len(turns))
            turns[at], turns[other] = turns[other], turns[at]
        case 6:
            turns[at] = ((*tokens[:-1], dice.randrange(10, 300)), files)
        case _:
            turns = turns[: at + 1]
    return turns if len(turns) < 8 else turns[:2]


def check(world: World, seed: int, rounds: int, storage: Storage, is_drafted: bool) -> dict[str, float]:
    """Every answer against a fresh run's; counts of what happened on the way, so that it can be asserted."""
    dice, prefixes = random.Random(seed), Prefixes(1 << 30)
    turns, found = [a_turn(dice)], {"cached": 0, "drafted": 0, "within": 0, "cancelled": 0, "worst": 0.0}
    for _ in range(rounds):
        runner = world.runner(storage, is_drafted, dice.choice([7, 32, 64, 500]))
        cancel_after = dice.choice([None, None, dice.randrange(1, 60)])
        one = world.answer(turns, runner, prefixes, cancel_after)
        fresh = world.answer(turns, world.runner(storage, False, runner.chunk), Prefixes(0))
        if one.rated:
            assert fresh.rated[0].std() > 0.3
            worst = float((one.rated[0] - fresh.rated[0]).abs().max())
            found["worst"] = max(found["worst"], worst)
            if storage is F32:
                assert one.said == fresh.said[: len(one.said)]
        pictures = world.prompt(turns)[1]
        found["cached"] += one.cached
        found["drafted"] += one.drafted
        found["within"] += any(each.start < one.cached < each.end for each in pictures)
        found["cancelled"] += len(one.said) < TOKENS
        turns = changed(turns, dice)
    return found


CASES = [
    pytest.param(F32, False, id="plain"),
    pytest.param(F32, True, id="drafted"),
    pytest.param(Q8, False, id="8-bit"),
    pytest.param(Q8, True, id="drafted, 8-bit"),
]


@pytest.mark.parametrize(("storage", "is_drafted"), CASES)
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("rounds", [12, pytest.param(60, marks=pytest.mark.slow)])
def test_whatever_changed_the_answer_is_that_of_a_fresh_run(
    world: World, monkeypatch: pytest.MonkeyPatch, rounds: int, storage: Storage, is_drafted: bool
) -> None:
    monkeypatch.setattr("engine.sequence.Pace", Fixed)
    monkeypatch.setattr(Fixed, "counts", (15, 3, 0, 8))
    found: dict[str, float] = {}
    for seed in range(3):
        for name, value in check(world, seed, rounds, storage, is_drafted).items():
            found[name] = max(found.get(name, 0), value) if name == "worst" else found.get(name, 0) + value
    print(f"\n{storage.name}, drafted {is_drafted}: {found}")
    assert found["worst"] < (CLOSE if storage is F32 else EIGHT_BITS)
    assert found["cached"] > 20 * rounds and found["cancelled"] > 0
    assert (found["drafted"] > 100) == is_drafted


def test_a_picture_that_was_cancelled_within_is_taken_up_within(world: World) -> None:
    """Its features are put where the rest of it stands."""
    turns: list[Turn] = [((11, 12, 13), (FILES[4],)), ((14,) * 5, ())]
    whole = world.answer(turns, world.runner(F32, False, 500), Prefixes(0))
    count, seen = len(world.prompt(turns)[0]), 0
    for steps in range(1, 60):
        prefixes = Prefixes(1 << 30)
        world.answer(turns, world.runner(F32, False, 7), prefixes, cancel_after=steps)
        again = world.answer(turns, world.runner(F32, False, 32), prefixes)
        seen += 2 < again.cached < 2 + 35
        assert again.cached < count
        assert (again.rated[0] - whole.rated[0]).abs().max() < CLOSE
        assert again.said == whole.said
    assert seen > 3


def test_a_picture_of_another_size_in_its_place_is_another_prompt(world: World) -> None:
    prefixes, runner = Prefixes(1 << 30), world.runner(F32, False, 64)
    for file in (FILES[0], FILES[1], FILES[4], FILES[0], FILES[5]):
        turns: list[Turn] = [((11,) * 30, ()), ((12,) * 3, (file, FILES[0]))]
        one = world.answer(turns, runner, prefixes)
        fresh = world.answer(turns, runner, Prefixes(0))
        assert (one.rated[0] - fresh.rated[0]).abs().max() < CLOSE and one.said == fresh.said


@pytest.mark.parametrize("expired", [0, 1, 2])
@pytest.mark.parametrize("storage", [F32, Q8], ids=lambda storage: storage.name)
def test_a_screenshot_that_expires_is_where_computing_begins(
    world: World, storage: Storage, expired: int
) -> None:
    """One of three; what stands before it is not computed again, to the token."""
    turns: list[Turn] = [((11 + at,) * 60, (FILES[4],)) for at in range(3)]
    prefixes, runner = Prefixes(1 << 30), world.runner(storage, False, 64)
    world.answer(turns, runner, prefixes)
    start = world.prompt(turns)[1][expired].start - 1  # of its mark
    turns[expired] = (turns[expired][0], ())
    one, fresh = (world.answer(turns, runner, which) for which in (prefixes, Prefixes(0)))
    assert (one.cached, fresh.cached) == (start if start > NEAR else 0, 0)
    assert (one.rated[0] - fresh.rated[0]).abs().max() < (CLOSE if storage is F32 else EIGHT_BITS)
    assert one.said == fresh.said
