"""A conversation that goes on, or changes: what of it is computed again, and that the outcome is right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from engine import Done, Engine, Request, Sampling
from engine.cache.kv import PAST_BYTES, Kv
from engine.cache.prefix import Prefixes
from engine.cache.storage import F32, Q8, Storage
from engine.layers.decoder import Decoder
from engine.models import load
from engine.weights.gguf import GgufFile
from tests.engine import muse, tiny

CLOSE = 2e-4
CHUNK = 64


class Chat:
    """A Muse Glimmer model, and prompts that it is given one after another."""

    def __init__(self, model: Decoder, storage: Storage = F32, past_bytes: int = PAST_BYTES) -> None:
        self.model, self.storage, self.past_bytes = model, storage, past_bytes
        self.prefixes = Prefixes(1 << 30)
        self.computed = 0

    def answer(self, turns: list[list[int]]) -> Tensor:
        """Logits after the last token; `computed` is how many tokens passed the model for it."""
        tokens = [token for turn in turns for token in turn]
        kv = self.prefixes.take(tokens) or self.fresh()
        self.computed = len(tokens) - kv.length
        kv.mark(np.cumsum([len(turn) for turn in turns]).tolist())
        logits = self.run(tokens, kv)
        self.prefixes.keep(tokens, kv)
        return logits

    def fresh(self) -> Kv:
        return Kv(self.model.cache, 10_000, self.storage, past_bytes=self.past_bytes)

    @torch.no_grad()
    def run(self, tokens: list[int], kv: Kv) -> Tensor:
        for start in range(kv.length, len(tokens), CHUNK):
            hidden = self.model.hidden(torch.tensor(tokens[start : start + CHUNK]), kv)
        return self.model.rate(hidden[-1])

    def check(self, turns: list[list[int]], computed: int, close: float = CLOSE) -> None:
        """The answer is that of a fresh run, though only so much was computed."""
        found = self.answer(turns)
        assert self.computed == computed
        wanted = self.run([token for turn in turns for token in turn], self.fresh())
        assert (found - wanted).abs().max() < close


def make(folder: Path, window: int) -> Decoder:
    changes = {"sliding_window": window, "output_multiplier": 0.9, "num_hidden_layers": 5}
    made = muse.model(muse.config(changes, {"num_hidden_layers": 1}))
    with GgufFile(muse.write_text(folder / "m.gguf", made)) as file:
        return load(file, threads=1)[1]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    """Its window is about as long as a turn, as that of the real one."""
    return make(tmp_path_factory.mktemp("wide"), 200)


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    return make(tmp_path_factory.mktemp("narrow"), 16)


def turn(length: int, seed: int) -> list[int]:
    return np.random.default_rng(seed).integers(2, 300, length).tolist()


def chat(*lengths: int) -> list[list[int]]:
    return [turn(length, seed) for seed, length in enumerate(lengths)]


TURNS = (150, 190, 70, 180, 120, 195, 160, 185, 175, 190, 110, 195, 180, 190, 140, 180, 190, 200)


def test_a_changed_last_message_is_computed_from_the_change_on(model: Decoder) -> None:
    turns, talk = chat(*TURNS), Chat(model)
    assert sum(TURNS) == 3_000
    talk.answer(turns)
    assert talk.computed == 3_000
    changed = [*turns[:-1], [*turns[-1][:70], 1, *turns[-1][71:]]]
    talk.check(changed, computed=130)
    talk.check([*turns[:-1], turn(90, 77)], computed=90)


def test_a_chat_that_goes_on_computes_only_what_is_new(model: Decoder) -> None:
    turns, talk = chat(*TURNS), Chat(model)
    talk.answer(turns)
    talk.check([*turns, turn(40, 50)], computed=40)
    talk.check([*turns, turn(40, 50), turn(300, 51)], computed=300)


def test_a_screenshot_that_expires_is_where_computing_begins(model: Decoder) -> None:
    """Three of them; the first, then the second makes way for a short notice."""
    system, first, ask, second, do, third, act = chat(300, 700, 60, 650, 50, 720, 40)
    talk, gone = Chat(model), turn(5, 99)
    before = [system, first, ask, second, do, third, act]
    talk.answer(before)
    after = [system, gone, ask, second, do, third, act]
    talk.check(after, computed=sum(map(len, after)) - len(system))
    later = [system, gone, ask, gone, do, third, act, turn(30, 60)]
    talk.check(later, computed=sum(map(len, later[3:])))


@pytest.mark.parametrize("change", [0, 1, 25, 99])
def test_with_a_short_window_computing_begins_at_the_turn(narrow: Decoder, change: int) -> None:
    turns, talk = chat(*[100] * 12), Chat(narrow)
    talk.answer(turns)
    message = turns[3]
    changed = [*turns[:3], [*message[:change], 1, *message[change + 1 :]], *turns[4:]]
    talk.check(changed, computed=900)


def test_what_marks_take_is_a_window_each(narrow: Decoder) -> None:
    turns, talk = chat(*[100] * 12), Chat(narrow)
    kv = talk.fresh()
    kv.reserve(1_200)
    room = kv.bytes
    assert room == narrow.cache.bytes(1_200)
    kv.mark(range(100, 1_200, 100))
    talk.run([token for turn in turns for token in turn], kv)
    local = narrow.cache.row_bytes(F32) * sum(narrow.cache.local)
    assert 8 * 15 * local <= kv.bytes - room <= 11 * 15 * local


def test_when_there_is_no_memory_for_the_past_the_first_turn_still_serves(narrow: Decoder) -> None:
    local = narrow.cache.row_bytes(F32) * sum(narrow.cache.local)
    turns, talk = chat(*[300] * 8), Chat(narrow, past_bytes=local * 40)
    talk.answer(turns)
    talk.check([turns[0], *turns[2:]], computed=1_800)


def test_eight_bits_are_taken_up_again_as_they_were(model: Decoder) -> None:
    turns, talk = chat(*TURNS), Chat(model, Q8)
    talk.answer(turns)
    close = 0.1  # cut into other chunks, a value on the edge is rounded to its other side
    talk.check([*turns[:6], turn(90, 77)], computed=90, close=close)


def test_two_conversations_with_one_beginning_share_it(model: Decoder) -> None:
    system, one, other = chat(400, 900, 350)
    talk = Chat(model)
    talk.answer([system, one])
    talk.check([system, other], computed=350)
    talk.check([system, one, other], computed=350)


def usage(engine: Engine, prompt: str) -> tuple[int, int]:
    """Prompt tokens, and those of them that were not computed."""
    done = list(engine.generate(Request(prompt=prompt, max_tokens=1, sampling=Sampling(temperature=0))))[-1]
    assert isinstance(done, Done)
    return done.usage.prompt_tokens, done.usage.cached_tokens


def test_the_engine_marks_where_control_tokens_stand(tmp_path: Path) -> None:
    shape = replace(tiny.GEMMA3, context=4_096)
    engine = Engine(tiny.write(tmp_path / "m.gguf", shape), context=4_096, threads=1)
    turns = ["abcdefg"[i % 7] * 200 + "<eos>" for i in range(15)]
    total, cached = usage(engine, "".join(turns))
    assert (total, cached) == (1 + 15 * 201, 0)
    total, cached = usage(engine, "".join([*turns[:8], "z" * 200 + "<eos>", *turns[9:]]))
    assert (total, cached) == (1 + 15 * 201, 8 * 201)  # from the control token before the change on
    engine.close()
