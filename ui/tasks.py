"""The only way a widget starts a coroutine."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from PySide6.QtCore import QObject

from app.errors import UserError

_log = logging.getLogger(__name__)
_running: set[asyncio.Task[Any]] = set()  # asyncio's own references are weak

UNEXPECTED = "Something went wrong inside the program. The details are in the log."


def spawn(
    coroutine: Coroutine[Any, Any, Any], *, owner: QObject, on_error: Callable[[str], None]
) -> asyncio.Task[None]:
    """Run the coroutine while `owner` lives. A failure becomes a sentence for `on_error`."""
    task = asyncio.get_running_loop().create_task(_guarded(coroutine, on_error))
    _running.add(task)
    cancel = _canceller(task)
    connection = owner.destroyed.connect(cancel)

    def forget(done: asyncio.Task[None]) -> None:
        _running.discard(done)
        coroutine.close()  # a task cancelled before its first step never entered it
        with suppress(RuntimeError):  # the owner has gone already
            QObject.disconnect(connection)

    task.add_done_callback(forget)
    return task


async def cancel_all() -> None:
    """Cancel every coroutine that still runs and wait until each has ended."""
    tasks = [task for task in _running if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _guarded(coroutine: Coroutine[Any, Any, Any], on_error: Callable[[str], None]) -> None:
    try:
        await coroutine
    except Exception as error:  # noqa: BLE001 - one of the three places that catch everything
        on_error(_sentence(error))


def _sentence(error: Exception) -> str:
    if isinstance(error, UserError) or _is_engine_error(error):
        return str(error)
    _log.error("A task failed", exc_info=error)
    return UNEXPECTED


def _is_engine_error(error: Exception) -> bool:
    # By name: this room does not import the engine.
    return any(kind.__name__ == "EngineError" for kind in type(error).__mro__)


def _canceller(task: asyncio.Task[None]) -> Callable[[], None]:
    def cancel() -> None:
        if not task.done() and not task.get_loop().is_closed():
            task.cancel()

    return cancel
