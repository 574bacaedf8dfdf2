"""The one engine thread: it loads the model, takes requests, steps, and emits events."""

from __future__ import annotations

import atexit
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import ParamSpec, TypeVar

import torch

from engine import device
from engine.api import Done, EngineError, Event, Failed, Memory, ModelInfo, Request, Usage
from engine.loaded import Loaded, load
from engine.scheduler import Scheduler
from engine.sequence import Job, ListenerGone, Sequence

log = logging.getLogger(__name__)
P = ParamSpec("P")
Item = TypeVar("Item")

WAIT = 0.2  # seconds; a wait without an end can't be interrupted by Ctrl+C on Windows
NO_USAGE = Usage(0, 0, 0, 0.0, 0.0)


class Ticket:
    """A submitted request, as its owner holds it."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def cancel(self) -> None:
        """Ask for an early end, from any thread: `Done("cancelled")` comes within a step."""
        self._job.is_cancelled = True


class Engine:
    """A loaded model, answering on a thread of its own. Safe to call from any thread."""

    info: ModelInfo

    def __init__(
        self,
        path: Path,
        *,
        context: int | None = None,
        threads: int | None = None,
        kv: str | None = None,
        drafter: Path | None = None,
        mmproj: Path | None = None,
        packs: bool | None = None,
        lookup: bool = True,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`mmproj`: the model's vision half, a file or a folder. For the rest see `engine.loaded.load`.

        `say` is called on the engine thread.
        """
        self._inbox: SimpleQueue[Job | None] = SimpleQueue()  # None: close
        self._lock, self._is_closed = Lock(), False
        self._scheduler = Scheduler()
        self._loaded: Loaded
        outcome: SimpleQueue[EngineError | None] = SimpleQueue()
        load_it = partial(load, path, context, threads, kv, drafter, mmproj, packs, lookup, say)
        self._thread = Thread(target=self._run, args=(load_it, outcome), name="engine", daemon=True)
        self._thread.start()
        atexit.register(self.close)  # a thread inside torch must not outlive the interpreter
        if (error := _wait(outcome, self._thread)) is not None:
            self.close()
            raise error
        self.info = self._loaded.info

    def submit(self, request: Request, emit: Callable[[Event], None]) -> Ticket:
        """Queue a request; its last event is `Done` or `Failed`, exactly one.

        `emit` is called on the engine thread and must return at once. If it raises, the request ends unheard.
        """
        job = Job(request, emit)
        with self._lock:
            if self._is_closed:
                raise EngineError("The model has been closed.")
            self._inbox.put(job)
        return Ticket(job)

    def generate(self, request: Request) -> Iterator[Event]:
        """The events of a request, one after another. Leaving early cancels."""
        inbox: SimpleQueue[Event] = SimpleQueue()
        ticket = self.submit(request, inbox.put)
        try:
            while not isinstance(event := _wait(inbox, self._thread), Done | Failed):
                yield event
            yield event
        finally:
            ticket.cancel()

    def count(self, text: str) -> int:
        """Tokens of a text, by itself."""
        return self._loaded.count(text)

    def measure(self, request: Request) -> int:
        """Prompt tokens of a request, its template and tools included."""
        return len(self._loaded.dialogue(request).ids)

    def memory(self) -> Memory:
        """Bytes held now."""
        weights = self._loaded.weight_bytes
        at_work = sum(sequence.cache.bytes for sequence in self._scheduler.sequences())
        kv_cache = at_work + self._loaded.prefixes.bytes
        return Memory(weights, kv_cache, max(0, device.resident_bytes() - weights - kv_cache))

    def close(self) -> None:
        """End what runs as cancelled and stop the thread; a second call does nothing."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._inbox.put(None)
        self._thread.join()
        atexit.unregister(self.close)

    def _run(self, load_it: Callable[[], Loaded], outcome: SimpleQueue[EngineError | None]) -> None:
        """The engine thread, from beginning to end."""
        device.yield_to_others()
        try:
            self._loaded = load_it()
        except Exception as error:  # noqa: BLE001 - the caller of Engine() gets it
            outcome.put(_explain(error))
            return
        outcome.put(None)
        with torch.inference_mode():
            while self._receive():
                self._turn()
            self._end_all()

    def _receive(self) -> bool:
        """Queue what has come in, waiting for it if there is nothing to do; False: close."""
        with suppress(Empty):
            while True:
                job = self._inbox.get(block=self._scheduler.is_idle)
                if job is None:
                    return False
                self._scheduler.add(job)
        return True

    def _turn(self) -> None:
        while (job := self._scheduler.next_job()) is not None:
            self._attempt(job, self._begin, job)
        if (sequence := self._scheduler.next_turn()) is not None:
            works = self._attempt(sequence.job, self._step, sequence)
            if not works or sequence.is_over:
                self._loaded.prefixes.keep(sequence.identity, sequence.cache)
                self._scheduler.leave(sequence)

    def _begin(self, job: Job) -> None:
        if job.is_cancelled:
            job.tell(Done("cancelled", NO_USAGE))
        else:
            self._scheduler.begin(self._loaded.sequence(job))

    def _step(self, sequence: Sequence) -> None:
        if sequence.job.is_cancelled:
            sequence.end("cancelled")
        else:
            sequence.step()

    def _end_all(self) -> None:
        """The thread closes: everyone who still waits hears of it."""
        for sequence in self._scheduler.sequences():
            self._attempt(sequence.job, sequence.end, "cancelled")
        for job in self._scheduler.drain():
            self._attempt(job, job.tell, Done("cancelled", NO_USAGE))

    def _attempt(self, job: Job, act: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> bool:
        """Do one thing for a job. What goes wrong is the job's own end, and nobody else's."""
        try:
            act(*args, **kwargs)
            return True
        except ListenerGone as gone:
            log.info("A listener is gone: %r", gone.__cause__)
        except Exception as error:  # noqa: BLE001 - the engine thread's request
            with suppress(ListenerGone):
                job.tell(Failed(_explain(error)))
        return False


def _wait(inbox: SimpleQueue[Item], sender: Thread) -> Item:
    """The next thing in a queue; an error if its sender has died."""
    while True:
        with suppress(Empty):
            return inbox.get(timeout=WAIT)
        if not sender.is_alive() and inbox.empty():
            raise EngineError("The engine has stopped unexpectedly.")


def _explain(error: Exception) -> EngineError:
    """The error as the caller gets it; what isn't a sentence already is logged whole."""
    if isinstance(error, EngineError):
        return error
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        return EngineError("There isn't enough free memory for this.")
    log.error("The engine failed.", exc_info=error)
    return EngineError(f"The engine failed with an internal error ({type(error).__name__}).")
