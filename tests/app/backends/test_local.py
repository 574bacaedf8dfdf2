"""The bridge between the engine's thread and asyncio, with the real engine and the small model."""

import asyncio
import subprocess
import sys
import threading
import time
from contextlib import aclosing

import pytest

from app.backends.local import LocalBackend, next_events
from app.errors import UserError
from engine import Done, EngineError, Message, Prefill, Reasoning, Request, Sampling, Text

GREEDY = Sampling(temperature=0)


def asking(text, most=24):
    return Request(messages=(Message("user", text),), sampling=GREEDY, max_tokens=most)


@pytest.fixture(scope="module")
def backend(smollm2):
    backend = LocalBackend(lambda: smollm2, context=1_024)
    yield backend
    asyncio.run(backend.close())


async def collect(backend, request):
    async with aclosing(backend.stream(request)) as events:
        return [event async for event in events]


def text_of(events):
    return "".join(event.text for event in events if isinstance(event, Text))


async def test_a_request_streams_and_ends_with_done(backend):
    events = await collect(backend, asking("Say hello."))
    assert isinstance(events[0], Prefill) and isinstance(events[-1], Done)
    assert "hello" in text_of(events).lower()
    assert events[-1].usage.generated_tokens <= 24
    assert backend.info.architecture == "llama" and backend.info.context == 1_024
    assert backend.memory().weights > 50_000_000


async def test_concurrent_callers_share_one_load(smollm2):
    calls = []

    def model():
        calls.append(1)
        return smollm2

    backend = LocalBackend(model, context=512)
    first, second, count = await asyncio.gather(backend.load(), backend.load(), backend.count(["hello", ""]))
    assert first is second and calls == [1]
    assert count[0] >= 1 and count[1] == 0
    await backend.close()
    with pytest.raises(EngineError):
        await backend.load()


async def test_one_who_stops_waiting_does_not_stop_the_load(smollm2):
    backend = LocalBackend(lambda: smollm2, context=512)
    waiting = asyncio.ensure_future(backend.load())
    await asyncio.sleep(0)
    waiting.cancel()
    assert (await backend.load()).name
    await backend.close()


async def test_a_failed_load_is_tried_again(smollm2, tmp_path):
    paths = [tmp_path / "missing.gguf", smollm2]
    backend = LocalBackend(lambda: paths.pop(0), context=512)
    with pytest.raises(EngineError, match="missing"):
        await backend.load()
    assert backend.info is None and backend.memory() is None
    assert (await backend.load()).name
    await backend.close()


async def test_everybody_who_waits_hears_what_takes_long(monkeypatch, tmp_path):
    goes_on, heard = threading.Event(), []

    class Slow:
        info = "a model"

        def __init__(self, path, *, say, **rest):
            say("Preparing…")
            goes_on.wait(20)

        def close(self):
            pass

    monkeypatch.setattr("engine.Engine", Slow, raising=False)
    backend = LocalBackend(lambda: tmp_path)
    first = asyncio.ensure_future(backend.load(heard.append))
    while not heard:
        await asyncio.sleep(0.01)
    second = asyncio.ensure_future(backend.load(heard.append))
    await asyncio.sleep(0.05)
    assert heard == ["Preparing…"] * 2
    goes_on.set()
    await asyncio.gather(first, second)
    assert await backend.load(heard.append) == "a model" and len(heard) == 2
    await backend.close()


async def test_no_model_at_all_is_an_engine_error():
    def model():
        raise UserError("No model is installed.")

    backend = LocalBackend(model)
    with pytest.raises(EngineError, match="No model is installed"):
        await backend.load()
    await backend.close()


async def test_measure_counts_what_is_prefilled(backend):
    request = asking("How long is this?", most=1)
    events = await collect(backend, request)
    assert await backend.measure(request) == events[-1].usage.prompt_tokens


async def test_a_failure_is_raised(backend):
    with pytest.raises(EngineError, match=r"context holds 1,024"):
        await collect(backend, asking("word " * 3_000))


async def test_leaving_early_cancels_within_a_step(backend):
    async with aclosing(backend.stream(asking("Write a very long story.", most=900))) as events:
        async for event in events:
            if isinstance(event, Text):
                break
    started = time.monotonic()
    assert (await collect(backend, asking("Say hello.", most=2)))[-1].reason == "length"
    assert time.monotonic() - started < 5  # it did not wait for 900 tokens


async def test_two_requests_are_answered_side_by_side(backend):
    one, two = await asyncio.gather(
        collect(backend, asking("Say hello.")), collect(backend, asking("Count to five."))
    )
    assert text_of(one) == text_of(await collect(backend, asking("Say hello.")))
    assert isinstance(two[-1], Done)


async def test_the_loop_goes_on_while_the_model_works(backend):
    gaps, stop = [], asyncio.Event()

    async def tick():
        last = time.perf_counter()
        while not stop.is_set():
            await asyncio.sleep(0.005)
            gaps.append(time.perf_counter() - last)
            last = time.perf_counter()

    ticking = asyncio.ensure_future(tick())
    await collect(backend, asking("word " * 300, most=16))
    stop.set()
    await ticking
    gaps.sort()
    assert gaps[len(gaps) * 95 // 100] < 0.1


def test_a_loop_that_was_closed_does_not_kill_the_engine(backend):
    async def begin():
        stream = backend.stream(asking("Write a very long story.", most=200))
        await anext(stream)
        return stream  # kept: nobody closes it

    loop = asyncio.new_event_loop()
    abandoned = loop.run_until_complete(begin())
    loop.close()
    time.sleep(0.3)  # the engine meets the closed loop
    events = asyncio.run(collect(backend, asking("Say hello.")))
    assert isinstance(events[-1], Done)
    assert any(thread.name == "engine" for thread in threading.enumerate())
    del abandoned


async def test_closing_waits_for_a_load_under_way(smollm2):
    backend = LocalBackend(lambda: smollm2, context=512)
    loading = asyncio.ensure_future(backend.load())
    await asyncio.sleep(0.01)
    await backend.close()
    await asyncio.wait([loading])
    assert backend.info is None or loading.exception() is None


async def test_pieces_that_waited_together_are_joined():
    inbox = asyncio.Queue()
    for event in (Prefill(1, 1, 0), Text("a"), Text("b", 2), Reasoning("c"), Reasoning("d"), Text("e")):
        inbox.put_nowait(event)
    assert await next_events(inbox) == [Prefill(1, 1, 0), Text("ab", 3), Reasoning("cd", 2), Text("e")]


STALL = """
import sys, threading, time
from app.backends.preload import preload
print(preload(), "torch" in sys.modules)
import torch
print(torch.ones(2).sum().item(), preload())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the libraries are named otherwise")
def test_libraries_are_there_before_the_import():
    done = subprocess.run([sys.executable, "-c", STALL], capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert "libtorch_cpu.so" in first and first.endswith("False")
    assert second == "2.0 []"


def test_nothing_is_loaded_where_the_package_is_missing():
    from app.backends.preload import preload

    assert preload("no_such_package_here") == []
    assert preload("json") == []
