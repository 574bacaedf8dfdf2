import asyncio
import gc
import logging

import pytest
from PySide6.QtCore import QObject

from app.errors import UserError
from engine import EngineError
from ui import tasks
from ui.tasks import cancel_all, spawn


@pytest.fixture
def owner(qapp):
    return QObject()


async def test_a_coroutine_runs_though_nobody_keeps_its_task(owner):
    done = asyncio.Event()

    async def work():
        await asyncio.sleep(0)
        gc.collect()
        await asyncio.sleep(0)
        done.set()

    spawn(work(), owner=owner, on_error=pytest.fail)
    await asyncio.wait_for(done.wait(), 2)
    await asyncio.sleep(0)
    assert not tasks._running


@pytest.mark.parametrize("error", [UserError("No room left."), EngineError("No room left.")])
async def test_an_error_for_people_is_shown_as_it_is(owner, error, caplog):
    said = []

    async def work():
        raise error

    await spawn(work(), owner=owner, on_error=said.append)
    assert said == ["No room left."]
    assert not caplog.records


async def test_anything_else_is_logged_and_said_in_general(owner, caplog):
    said = []

    async def work():
        return 1 / 0

    with caplog.at_level(logging.ERROR):
        await spawn(work(), owner=owner, on_error=said.append)
    assert said == [tasks.UNEXPECTED]
    assert "ZeroDivisionError" in caplog.text


async def test_it_ends_with_its_owner(owner):
    cancelled = []

    async def work():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(1)
            raise

    task = spawn(work(), owner=owner, on_error=pytest.fail)
    await asyncio.sleep(0)
    import shiboken6

    shiboken6.delete(owner)
    await asyncio.wait([task], timeout=2)
    assert cancelled == [1]


async def test_at_the_end_all_are_cancelled_and_waited_for(owner):
    ended = []

    async def work():
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            ended.append(1)

    for _ in range(3):
        spawn(work(), owner=owner, on_error=pytest.fail)
    await asyncio.sleep(0)
    await cancel_all()
    assert ended == [1, 1, 1]
    assert not tasks._running


async def test_one_cancelled_before_it_began_leaves_no_warning(owner, recwarn):
    async def work():
        pytest.fail("ran")

    spawn(work(), owner=owner, on_error=pytest.fail).cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    gc.collect()
    assert not [warning for warning in recwarn if "never awaited" in str(warning.message)]
