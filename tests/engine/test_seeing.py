"""Pictures in prompts: against transformers, through whole requests, and when a conversation changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.api import BadModel, BadRequest, Done, Event, Failed, Message, Request, Sampling
from engine.cache.prefix import Prefixes
from engine.engine import Engine
from engine.models import load
from engine.runner import Runner
from engine.sequence import Job
from engine.sequence import Sequence as Generation
from engine.text.dialogue import Dialogue
from engine.text.pictures import Marks, Picture, identified, place
from engine.vision.features import VisionEncoder
from engine.vision.patches import Grid
from engine.weights.gguf import GgufFile
from engine.weights.json_facts import JsonFacts
from engine.weights.synth import synthesise
from tests.engine import muse
from tests.engine.vision.pictures import as_png, picture
from tests.engine.weights import configs

PATCH, GREEDY = 5, Sampling(temperature=0)
RED, WIDE, TALL = (as_png(picture(*size)) for size in ((84, 84), (140, 56), (60, 170)))


# ---------------------------------------------------------------------------------------------------------
# The same tensors in transformers.


@pytest.fixture(scope="module")
def made() -> Any:
    return muse.model(muse.config({"sliding_window": 16, "output_multiplier": 0.9}))


class Halves:
    """Both halves of it in the engine."""

    def __init__(self, folder: Path, made: Any) -> None:
        with GgufFile(muse.write_text(folder / "m.gguf", made)) as file:
            self.model = load(file, threads=1)[1]
        mmproj = muse.write_mmproj(folder / "mmproj.gguf", made)
        self.vision = VisionEncoder.open(mmproj, muse.TEXT["hidden_size"])

    @torch.inference_mode()
    def logits(self, ids: list[int], pictures: list[Picture], chunk: int) -> Tensor:
        """After the last token, by a generation's own steps."""
        runner = Runner(self.model, 4_096, 1)
        runner.most = runner.chunk = chunk
        rated: list[Tensor] = []

        class Talk:
            is_over, turns, reason = False, (), "stop"

            def __init__(self) -> None:
                self.ids, self.pictures = ids, pictures

            def constrain(self, logits: Tensor) -> None:
                rated.append(logits.clone())

            def push(self, token: int) -> list[Event]:
                return []

            def finish(self, reason: str) -> list[Event]:
                return []

        job = Job(Request(prompt="x", sampling=GREEDY, max_tokens=1), lambda event: None)
        generation = Generation(job, Talk(), runner, Prefixes(0), self.vision)  # type: ignore[arg-type]
        while not generation.is_over:
            generation.step()
        return rated[0]


@pytest.fixture(scope="module")
def halves(made: Any, tmp_path_factory: pytest.TempPathFactory) -> Halves:
    return Halves(tmp_path_factory.mktemp("seeing"), made)


@torch.inference_mode()
def expected(made: Any, halves: Halves, ids: list[int], pictures: list[Picture]) -> Tensor:
    """Transformers reads the same pixels, and puts its own features where the patches stand."""
    patches, grids = [], []
    for shown in pictures:
        rows, columns = halves.vision.measure(shown.data)
        patches.append(halves.vision._model.config.cutting.cut(_opened(shown.data), (rows, columns)))
        grids.append([1, rows * 2, columns * 2])
    made.config.image_token_id = made.model.config.image_token_id = PATCH
    return made(
        input_ids=torch.tensor([ids]),
        pixel_values=torch.cat(patches).repeat(1, 2),
        image_grid_thw=torch.tensor(grids),
        mm_token_type_ids=torch.tensor([[int(token == PATCH) for token in ids]]),
    ).logits[0, -1]


def _opened(data: bytes) -> Any:
    from engine.vision.image import open_picture

    return open_picture(data).pixels


@pytest.mark.parametrize("chunk", [1_000, 32, 7])
@pytest.mark.parametrize(
    "files", [(RED,), (WIDE, TALL), (TALL, RED, TALL)], ids=["one", "two", "three, two alike"]
)
def test_logits_are_those_of_transformers(
    made: Any, halves: Halves, files: tuple[bytes, ...], chunk: int
) -> None:
    chance = torch.Generator().manual_seed(3)
    ids: list[int] = []
    for _ in files:
        ids += [*torch.randint(10, 300, (11,), generator=chance).tolist(), PATCH]
    ids += torch.randint(10, 300, (6,), generator=chance).tolist()
    whole, pictures = place(ids, Marks(3, PATCH, 4), files, halves.vision.tokens)
    found = halves.logits(whole, pictures, chunk)
    wanted = expected(made, halves, whole, pictures)
    assert wanted.std() > 0.3
    assert (found - wanted).abs().max() <= 2e-4
    other = halves.logits(whole, [], chunk)
    assert (other - wanted).abs().max() > 0.01  # without the features it is another prompt


# ---------------------------------------------------------------------------------------------------------
# Where pictures stand.


def test_each_place_becomes_as_many_tokens_as_its_picture_has_cells() -> None:
    cells = {b"a": 3, b"b": 1}
    ids, pictures = place([9, 5, 8, 5], Marks(1, 5, 2), [b"a", b"b"], lambda data: cells[data])
    assert ids == [9, 1, 5, 5, 5, 2, 8, 1, 5, 2]
    assert [(each.start, each.count, each.data) for each in pictures] == [(2, 3, b"a"), (8, 1, b"b")]


def test_marks_that_a_template_writes_itself_are_not_doubled() -> None:
    ids, _ = place([1, 5, 2, 1, 5, 2], Marks(1, 5, 2), [b"a", b"a"], lambda data: 2)
    assert ids == [1, 5, 5, 2, 1, 5, 5, 2]


def test_a_template_without_a_place_for_pictures_is_refused() -> None:
    with pytest.raises(BadRequest, match="no place for pictures"):
        place([9, 8], Marks(1, 5, 2), [b"a"], lambda data: 2)


def test_sequences_with_other_pictures_are_told_apart_though_their_tokens_are_the_same() -> None:
    one, other = ([Picture(1, 2, data)] for data in (b"a", b"b"))
    assert identified([7, 5, 5, 8], one) == identified([7, 5, 5, 8], [Picture(1, 2, b"a")])
    assert identified([7, 5, 5, 8], one)[1] != identified([7, 5, 5, 8], other)[1]
    assert all(token < 0 for token in identified([7, 5, 5, 8], one)[1:3])
    assert identified([7, 5, 5, 8], one)[::3] == [7, 8]


# ---------------------------------------------------------------------------------------------------------
# Whole requests.


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A text half, a vision half, and one for another width."""
    at = tmp_path_factory.mktemp("muse")
    facts = JsonFacts(configs.MUSE, "config.json")
    synthesise(facts, "Q8_0", at / "muse.gguf")
    synthesise(facts, "F16", at / "mmproj.gguf", kind="clip")
    narrow = configs.MUSE | {"text_config": configs.MUSE_TEXT | {"hidden_size": 128}}
    synthesise(JsonFacts(narrow, "config.json"), "F16", at / "narrow.gguf", kind="clip")
    return at / "muse.gguf", at / "mmproj.gguf", at / "narrow.gguf"


@pytest.fixture(scope="module")
def engine(files: tuple[Path, Path, Path]) -> Iterator[Engine]:
    made = Engine(files[0], threads=1, mmproj=files[1])
    yield made
    made.close()


@pytest.fixture
def fresh(files: tuple[Path, Path, Path]) -> Iterator[Engine]:
    made = Engine(files[0], threads=1, mmproj=files[1])
    yield made
    made.close()


def ask(*pictures: bytes, text: str = "What is it?") -> Message:
    return Message("user", text, pictures=pictures)


def answer(engine: Engine, *messages: Message) -> tuple[list[Event], Done]:
    found = list(engine.generate(Request(messages, sampling=GREEDY, max_tokens=12)))
    assert isinstance(found[-1], Done), found[-1]
    return found, found[-1]


def test_it_says_that_it_sees(engine: Engine, files: tuple[Path, Path, Path]) -> None:
    assert engine.info.sees
    blind = Engine(files[0], threads=1)
    try:
        assert not blind.info.sees
        assert blind.memory().weights < engine.memory().weights
        failed = list(blind.generate(Request((ask(RED),))))[-1]
        assert isinstance(failed, Failed) and str(failed.error) == "The model can't see pictures."
    finally:
        blind.close()


def test_a_picture_costs_its_cells_and_its_marks(engine: Engine) -> None:
    plain = engine.measure(Request((ask(),)))
    rows, columns = engine._loaded.vision.measure(WIDE)  # type: ignore[union-attr]
    assert engine.measure(Request((ask(WIDE),))) == plain + rows * columns + 2
    assert answer(engine, ask(WIDE))[1].usage.prompt_tokens == plain + rows * columns + 2


def test_pictures_come_before_the_text_of_their_message(engine: Engine) -> None:
    dialogue: Dialogue = engine._loaded.dialogue(Request((ask(RED, WIDE, text="Compare."),)))
    tokenizer = engine._loaded.tokenizer
    first, second = dialogue.pictures
    assert tokenizer.find("<|image_start|>") == dialogue.ids[first.start - 1]
    assert tokenizer.find("<|image_end|>") == dialogue.ids[first.end]
    assert dialogue.ids[first.end + 1] == tokenizer.find("<|image_start|>") and second.start == first.end + 2
    after = tokenizer.decode(dialogue.ids[second.end :], special=True)
    assert after.startswith("<|image_end|>Compare.<|eot|>")


def test_what_it_says_depends_on_the_picture(engine: Engine) -> None:
    said = [answer(engine, ask(data))[0] for data in (RED, as_png(picture(84, 83)), RED)]
    texts = ["".join(getattr(event, "text", "") for event in events) for events in said]
    assert texts[0] == texts[2] and texts[0] != texts[1]


def test_a_picture_as_large_as_another_is_not_taken_for_it(fresh: Engine) -> None:
    """Their tokens are the same."""
    grey = as_png(picture(84, 84).convert("L").convert("RGB"))
    first = answer(fresh, ask(RED))[1].usage
    other = answer(fresh, ask(grey))[1].usage
    again = answer(fresh, ask(grey, text="What is that?"))[1].usage
    assert first.prompt_tokens == other.prompt_tokens
    assert other.cached_tokens < other.prompt_tokens - 9  # up to where the picture begins
    assert again.cached_tokens >= other.cached_tokens + 9


def test_a_screenshot_that_expires_is_where_computing_begins(fresh: Engine, files: Any) -> None:
    turns = [ask(RED), Message("assistant", "A."), ask(WIDE), Message("assistant", "B."), ask(TALL)]
    answer(fresh, *turns)
    expired = [turns[0], turns[1], ask(text="[a screenshot that is no longer here]"), *turns[3:]]
    kept = fresh._loaded.dialogue(Request(tuple(turns))).pictures[1].start
    said, done = answer(fresh, *expired)
    assert kept - 4 <= done.usage.cached_tokens < kept
    blank = Engine(files[0], threads=1, mmproj=files[1])
    try:
        new, once = answer(blank, *expired)
    finally:
        blank.close()
    assert once.usage.cached_tokens == 0
    assert said[-5:-1] == new[-5:-1]


def test_a_drafter_proposes_after_pictures_too(
    files: tuple[Path, Path, Path], engine: Engine, tmp_path: Path
) -> None:
    drafter = tmp_path / "drafter.gguf"
    synthesise(JsonFacts(configs.DRAFTER, "config.json"), "Q8_0", drafter)
    fast = Engine(files[0], threads=1, mmproj=files[1], drafter=drafter)
    request = Request((ask(RED, TALL),), sampling=GREEDY, max_tokens=100)
    try:
        found, plain = list(fast.generate(request)), list(engine.generate(request))
    finally:
        fast.close()
    texts = ["".join(getattr(event, "text", "") for event in events) for events in (found, plain)]
    assert texts[0] == texts[1]
    assert found[-1].usage.drafted_tokens > 0  # type: ignore[union-attr]


def test_a_request_is_cancelled_while_its_picture_is_encoded(fresh: Engine) -> None:
    vision, steps = fresh._loaded.vision, [0]
    assert vision is not None
    encode = vision.steps

    def slow(data: bytes) -> Any:
        for step in encode(data):
            steps[0] += 1
            ticket.cancel()
            yield step

    vision.steps = slow  # type: ignore[method-assign]
    events: list[Event] = []
    ticket = fresh.submit(Request((ask(as_png(picture(800, 600))),)), events.append)
    fresh.close()
    assert isinstance(events[-1], Done) and events[-1].reason == "cancelled"
    assert steps[0] <= 2


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (ask(b"nothing"), "can't be opened"),
        (ask(RED[:60]), "damaged"),
        (Message("assistant", "x", pictures=(RED,)), "Only a user's message"),
    ],
)
def test_what_cannot_be_seen_is_refused(engine: Engine, message: Message, words: str) -> None:
    failed = list(engine.generate(Request((message, ask()))))[-1]
    assert isinstance(failed, Failed) and words in str(failed.error)
    answer(engine, ask(RED))  # and the next one is answered


def test_a_vision_half_for_another_width_is_refused(files: tuple[Path, Path, Path]) -> None:
    with pytest.raises(BadModel, match=r"mm\.2\.weight makes features 128 wide, and should make them 256"):
        Engine(files[0], threads=1, mmproj=files[2])


def test_a_text_cannot_pretend_to_be_a_picture(engine: Engine) -> None:
    text = "<|image_start|><|patch|><|image_end|>"
    dialogue = engine._loaded.dialogue(Request((ask(RED, text=text),)))
    patch = engine._loaded.tokenizer.find("<|patch|>")
    assert dialogue.ids.count(patch) == dialogue.pictures[0].count  # type: ignore[arg-type]


def grid_of(engine: Engine, data: bytes) -> Grid:
    assert engine._loaded.vision is not None
    return engine._loaded.vision.measure(data)


def test_turns_are_marked_but_not_every_patch(engine: Engine) -> None:
    dialogue = engine._loaded.dialogue(Request((ask(WIDE),)))
    rows, columns = grid_of(engine, WIDE)
    within = range(dialogue.pictures[0].start, dialogue.pictures[0].end)
    assert len(within) == rows * columns > 5
    assert not set(dialogue.turns) & set(within)
    assert dialogue.pictures[0].start - 1 in dialogue.turns
