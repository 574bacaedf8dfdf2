import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest
import torch

from engine import (
    BadModel,
    BadRequest,
    ContextFull,
    Done,
    Engine,
    EngineError,
    Event,
    Failed,
    Message,
    Prefill,
    Request,
    Sampling,
    Text,
)
from tests.engine import tiny

CONTEXT = 400
GREEDY = Sampling(temperature=0)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that never ends its answer by itself."""
    tensors = tiny.weights(tiny.LLAMA)
    tensors["token_embd.weight"][:3] = 0  # the control tokens: always rated 0, and never the best
    return tiny.write(tmp_path_factory.mktemp("model") / "tiny.gguf", tiny.LLAMA, tensors)


@pytest.fixture
def engine(model: Path) -> Iterator[Engine]:
    opened = Engine(model, context=CONTEXT, threads=1)
    opened._loaded.runner.most = opened._loaded.runner.chunk = 16
    yield opened
    opened.close()


def ask(count: int, max_tokens: int | None = 8, sampling: Sampling = GREEDY) -> Request:
    """A prompt of `count` tokens."""
    return Request(prompt=("abcdefg" * count)[:count], max_tokens=max_tokens, sampling=sampling)


def listen(
    engine: Engine, request: Request, then: Callable[[Event], None] = lambda event: None
) -> "Listener":
    return Listener(engine, request, then)


class Listener:
    """Collects a request's events; `then` is called with each, on the engine thread."""

    def __init__(self, engine: Engine, request: Request, then: Callable[[Event], None]) -> None:
        self.events: list[Event] = []
        self.then = then
        self.ended = threading.Event()
        self.ready = threading.Event()
        self.ticket = engine.submit(request, self)
        self.ready.set()

    def __call__(self, event: Event) -> None:
        self.ready.wait(5)
        self.events.append(event)
        if isinstance(event, Done | Failed):
            self.ended.set()
        self.then(event)

    @property
    def end(self) -> Any:
        assert self.ended.wait(20)
        assert sum(isinstance(event, Done | Failed) for event in self.events) == 1
        assert isinstance(self.events[-1], Done | Failed)
        return self.events[-1]

    @property
    def tokens(self) -> int:
        return sum(event.tokens for event in self.events if isinstance(event, Text))


def test_a_request_is_prefilled_in_chunks_answered_and_accounted_for(engine: Engine) -> None:
    events = list(engine.generate(ask(40)))
    assert [event.done for event in events if isinstance(event, Prefill)] == [16, 32, 40]
    assert {(event.total, event.cached) for event in events if isinstance(event, Prefill)} == {(40, 0)}
    done = events[-1]
    assert isinstance(done, Done)
    assert done.reason == "length"
    assert (done.usage.prompt_tokens, done.usage.cached_tokens, done.usage.generated_tokens) == (40, 0, 8)
    assert sum(event.tokens for event in events if isinstance(event, Text)) == 8
    assert done.usage.prefill_seconds > 0
    assert done.usage.decode_seconds > 0


def test_the_answer_is_what_a_plain_forward_would_choose(engine: Engine, model: Path) -> None:
    tensors = tiny.weights(tiny.LLAMA)
    tensors["token_embd.weight"][:3] = 0
    ids = engine._loaded.dialogue(ask(30)).ids
    expected = list(ids)
    for _ in range(12):
        expected.append(int(np.argmax(tiny.forward(tiny.LLAMA, tensors, expected)[-1])))
    text = "".join(event.text for event in engine.generate(ask(30, 12)) if isinstance(event, Text))
    assert text == engine._loaded.tokenizer.decode(expected[30:])


def test_cancelling_ends_within_a_step(engine: Engine) -> None:
    def stop(event: Event) -> None:
        if listener.tokens >= 3:
            listener.ticket.cancel()

    listener = listen(engine, ask(20, max_tokens=None), stop)
    assert listener.end.reason == "cancelled"
    assert listener.end.usage.generated_tokens <= 4
    listener.ticket.cancel()  # too late: nothing


def test_cancelling_while_the_prompt_is_read(engine: Engine) -> None:
    listener = listen(engine, ask(200), lambda event: listener.ticket.cancel())
    assert listener.end.reason == "cancelled"
    assert [type(event) for event in listener.events] == [Prefill, Done]
    assert listener.end.usage.generated_tokens == 0


def test_leaving_early_cancels(engine: Engine) -> None:
    for event in engine.generate(ask(20, max_tokens=None)):
        if isinstance(event, Text):
            break
    begun = threading.Event()
    listen(engine, ask(5), lambda event: begun.set())
    assert begun.wait(10)
    deadline = threading.Event()
    while engine._scheduler.sequences() and not deadline.wait(0.01):
        assert len(engine._scheduler.sequences()) <= 2
    assert engine._scheduler.is_idle


def test_two_at_once_take_turns_and_both_finish(engine: Engine) -> None:
    order: list[str] = []
    first = listen(engine, ask(5, 60), lambda event: order.append("first"))
    second = listen(engine, ask(9, 60), lambda event: order.append("second"))
    assert first.end.reason == second.end.reason == "length"
    assert first.tokens == second.tokens == 60
    middle = order[order.index("second") : len(order) - 20]
    runs = max(
        len(run)
        for run in "".join(who[0] for who in middle).replace("sf", "s f").replace("fs", "f s").split()
    )
    assert runs <= 3


def test_a_long_prompt_does_not_keep_a_short_request_waiting(engine: Engine) -> None:
    order: list[str] = []
    long = listen(engine, ask(380, 2), lambda event: order.append("long"))
    short = listen(engine, ask(4, 3), lambda event: order.append("short"))
    assert long.end.reason == short.end.reason == "length"
    assert order[-1] == "long"
    assert order.index("short") < order.index("long") + 12


def test_more_than_there_is_room_for_wait_and_all_finish(engine: Engine) -> None:
    listeners = [listen(engine, ask(10 + number, 12)) for number in range(11)]
    assert [listener.end.reason for listener in listeners] == ["length"] * 11


def test_one_cancelled_while_it_waits_ends_at_once(engine: Engine) -> None:
    busy = [listen(engine, ask(10, None)) for _ in range(4)]
    waiting = listen(engine, ask(10))
    waiting.ticket.cancel()
    assert waiting.end.reason == "cancelled"
    assert waiting.events == [waiting.end]
    for listener in busy:
        listener.ticket.cancel()
        assert listener.end.reason in ("cancelled", "length")


def test_a_listener_that_raises_ends_its_own_request_only(engine: Engine) -> None:
    heard: list[Event] = []

    def fail(event: Event) -> None:
        heard.append(event)
        raise ValueError("no ears")

    engine.submit(ask(30), fail)
    other = listen(engine, ask(10, 30))
    assert other.end.reason == "length"
    assert len(heard) == 1
    assert list(engine.generate(ask(10)))[-1].reason == "length"


def test_a_closed_event_loop_is_just_such_a_listener(engine: Engine) -> None:
    loop, inbox = asyncio.new_event_loop(), SimpleQueue[Event]()
    loop.close()
    engine.submit(ask(30), lambda event: loop.call_soon_threadsafe(inbox.put, event))
    assert list(engine.generate(ask(10)))[-1].reason == "length"
    assert inbox.empty()


def test_closing_ends_what_runs_and_what_waits(model: Path) -> None:
    engine = Engine(model, context=CONTEXT, threads=1)
    started = threading.Event()
    listeners = [listen(engine, ask(20, None), lambda event: started.set()) for _ in range(7)]
    assert started.wait(10)
    engine.close()
    assert not engine._thread.is_alive()
    assert {listener.end.reason for listener in listeners} <= {"cancelled", "length"}
    assert listeners[-1].end.reason == "cancelled"
    engine.close()
    with pytest.raises(EngineError, match="closed"):
        engine.submit(ask(3), print)


def test_a_seed_repeats(engine: Engine) -> None:
    def text(seed: int | None) -> str:
        warm = Sampling(temperature=1.5, top_k=5, seed=seed)
        return "".join(event.text for event in engine.generate(ask(12, 24, warm)) if isinstance(event, Text))

    assert text(11) == text(11)
    assert text(11) != text(12)
    assert text(None) != text(None)


def test_a_prompt_without_room_for_a_reply_is_refused(engine: Engine) -> None:
    (event,) = engine.generate(ask(CONTEXT))
    assert isinstance(event, Failed)
    assert isinstance(event.error, ContextFull)
    assert (event.error.needed, event.error.limit) == (CONTEXT + 1, CONTEXT)


def test_a_full_context_ends_the_reply(engine: Engine) -> None:
    done = list(engine.generate(ask(CONTEXT - 3, max_tokens=None)))[-1]
    assert isinstance(done, Done)
    assert (done.reason, done.usage.generated_tokens) == ("length", 3)


@pytest.mark.parametrize("request_", [ask(5, 0), ask(5, -1), Request(prompt="")])
def test_what_cannot_be_is_refused(engine: Engine, request_: Request) -> None:
    (event,) = engine.generate(request_)
    assert isinstance(event, Failed)
    assert isinstance(event.error, BadRequest)


def test_a_second_turn_computes_only_what_is_new_and_rates_the_same(engine: Engine, model: Path) -> None:
    first = Request(
        messages=(Message("user", "Tell me of the sea, please."),), max_tokens=20, sampling=GREEDY
    )
    answer = "".join(event.text for event in engine.generate(first) if isinstance(event, Text))
    messages = (*first.messages, Message("assistant", answer), Message("user", "And of the moon?"))
    second = Request(messages=messages, max_tokens=20, sampling=GREEDY)
    warm = list(engine.generate(second))
    asked = engine.measure(first)
    done = warm[-1]
    assert isinstance(done, Done)
    assert asked <= done.usage.cached_tokens < done.usage.prompt_tokens
    with closing(Engine(model, context=CONTEXT, threads=1)) as other:
        fresh = list(other.generate(second))
    assert fresh[-1].usage.cached_tokens == 0
    assert [event for event in warm if isinstance(event, Text)] == [e for e in fresh if isinstance(e, Text)]


def test_a_reused_beginning_gives_the_logits_of_a_fresh_run(engine: Engine) -> None:
    loaded = engine._loaded
    ids = loaded.dialogue(ask(90)).ids
    other = [*ids[:50], *reversed(ids[:30])]
    with torch.inference_mode():
        cache = loaded.runner.new_cache()
        loaded.runner.forward(other, cache)
        loaded.prefixes.keep(other, cache)
        taken = loaded.prefixes.take(ids)
        assert taken is not None
        assert 50 <= taken.length < 90
        warm = loaded.runner.forward(ids[taken.length :], taken)
    assert warm is not None
    assert (warm - loaded.runner.logits(ids)[-1]).abs().max() < 1e-4


def test_the_same_again_computes_one_token(engine: Engine) -> None:
    list(engine.generate(ask(40)))
    done = list(engine.generate(ask(40)))[-1]
    assert isinstance(done, Done)
    assert done.usage.cached_tokens == 39


def test_a_fault_of_ours_fails_its_request_is_logged_and_the_engine_goes_on(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
        patch.setattr(engine._loaded.runner, "forward", broken)
        (event,) = engine.generate(ask(10))
    assert isinstance(event, Failed)
    assert "internal error" in str(event.error)
    assert "a bug" in caplog.text
    assert list(engine.generate(ask(10)))[-1].reason == "length"


def test_memory_counts_weights_and_cache(engine: Engine) -> None:
    before = engine.memory()
    assert before.weights == sum(tensor.nbytes for tensor in tiny.weights(tiny.LLAMA).values())
    assert before.kv_cache == 0
    assert before.other > 10_000_000
    list(engine.generate(ask(40)))
    assert engine.memory().kv_cache >= 48 * engine._loaded.runner.model.cache.token_bytes


def test_tokens_are_counted_as_the_prompt_has_them(engine: Engine) -> None:
    assert engine.count("abcdefg") == 7
    request = Request(messages=(Message("user", "Hello there"),), max_tokens=2, sampling=GREEDY)
    done = list(engine.generate(request))[-1]
    assert engine.measure(request) == done.usage.prompt_tokens > engine.count("Hello there")


def test_the_model_is_described(engine: Engine, model: Path) -> None:
    info = engine.info
    assert (info.name, info.architecture, info.quantisation) == ("Tiny", "llama", "F32")
    assert info.parameters == sum(tensor.size for tensor in tiny.weights(tiny.LLAMA).values())
    assert (info.context, info.context_length, info.device) == (CONTEXT, 512, "CPU, 1 thread")
    assert info.file_bytes == model.stat().st_size


@pytest.mark.parametrize(("sizes", "words"), [({"context": 513}, "2 to 512"), ({"threads": 0}, "0 threads")])
def test_sizes_that_cannot_be_are_refused(model: Path, sizes: dict[str, int], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        Engine(model, **sizes)


def test_a_file_that_is_no_model_is_refused_and_no_thread_is_left(tmp_path: Path) -> None:
    (tmp_path / "notes.gguf").write_text("Buy milk.")
    with pytest.raises(BadModel, match="not a GGUF"):
        Engine(tmp_path / "notes.gguf")
    assert "engine" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps a priority for each thread")
def test_the_engine_thread_stands_behind_the_window(engine: Engine) -> None:
    assert engine._thread.native_id is not None
    mine = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    assert os.getpriority(os.PRIO_PROCESS, engine._thread.native_id) > mine
