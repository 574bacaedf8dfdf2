"""The window stays quick while the model in the same process reads and writes."""

import gc

import pytest
from tools.stall import Heartbeat, Lateness

from app.backends.local import LocalBackend
from app.events import SpeedMeasured

TOKENS = 2_000
WORST_MS = 50.0  # fails the build
GOAL_P99_MS = 16.0
ATTEMPTS = 3
REPLY = 250  # tokens an answer may have: the rest of the work is reading
QUESTION = "Go on with this story, at length. " + " ".join(
    f"On day {day} the keeper of the lighthouse counted {day * 7 % 40} ships and wrote it down."
    for day in range(70)
)


def measure(sit, model) -> tuple[Lateness, int]:
    """Chat until enough tokens were computed, with the heart beating."""
    desk = sit(backend=LocalBackend(lambda: model, context=4_096))
    assert desk.window.loader.state == "ready", desk.window.loader.sentence
    desk.services.settings.set("model.reply", REPLY)
    computed = 0

    def count(_, event):
        nonlocal computed
        if isinstance(event, SpeedMeasured):
            computed += event.prompt_tokens - event.cached_tokens + event.generated_tokens

    desk.pane.reported.connect(count)
    gc.collect()
    gc.freeze()  # what earlier tests left behind is not this window's to look through
    with Heartbeat() as beat:
        for number in range(12):
            if computed >= TOKENS:
                break
            desk.do(lambda: desk.window.open(""))
            desk.send(f"{number}. {QUESTION}")
            desk.until(lambda: not desk.window.turns.running(), seconds=600)
    assert computed >= TOKENS
    return beat.lateness(), computed


@pytest.mark.timeout(900)
def test_the_loop_never_stalls_while_the_model_works(sit, smollm2, capsys):
    best: Lateness | None = None
    for attempt in range(1, ATTEMPTS + 1):
        late, computed = measure(sit, smollm2)
        with capsys.disabled():
            print(f"\nQt loop, attempt {attempt}, {computed:,} tokens: {late}")
        if best is None or late.worst < best.worst:
            best = late
        if best.worst <= WORST_MS and best.p99 <= GOAL_P99_MS:
            break
    assert best is not None and best.worst <= WORST_MS, f"the window stood still: {best}"


def test_a_stall_is_noticed(loop):
    import asyncio
    import time

    async def stand_still() -> None:
        await asyncio.sleep(0.1)
        time.sleep(0.08)
        await asyncio.sleep(0.05)

    with Heartbeat() as beat:
        loop.run_until_complete(stand_still())
    assert 60 < beat.lateness().worst < 400
    assert beat.lateness().p50 < 20
