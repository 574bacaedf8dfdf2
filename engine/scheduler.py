"""Whose turn it is: jobs wait in order, and those at work take turns, one step each."""

from __future__ import annotations

from collections import deque

from engine.sequence import Job, Sequence

AT_WORK = 4  # sequences that take turns; each holds a cache, so more wait


class Scheduler:
    """The queue. The engine thread's alone."""

    def __init__(self, at_work: int = AT_WORK) -> None:
        self._most = at_work
        self._waiting: deque[Job] = deque()
        self._working: deque[Sequence] = deque()

    @property
    def is_idle(self) -> bool:
        """Nothing to do."""
        return not self._waiting and not self._working

    def add(self, job: Job) -> None:
        """Put a job at the end of the queue."""
        self._waiting.append(job)

    def next_job(self) -> Job | None:
        """A job to begin now: the oldest if a place is free, or one that is cancelled and only has to end."""
        if self._waiting and len(self._working) < self._most:
            return self._waiting.popleft()
        for job in self._waiting:
            if job.is_cancelled:
                self._waiting.remove(job)
                return job
        return None

    def begin(self, sequence: Sequence) -> None:
        """Give a sequence its place; it is the next to have a turn."""
        self._working.appendleft(sequence)

    def next_turn(self) -> Sequence | None:
        """The sequence whose turn it is; its next comes after everyone else's."""
        if not self._working:
            return None
        self._working.rotate(-1)
        return self._working[-1]

    def leave(self, sequence: Sequence) -> None:
        """A sequence is over."""
        self._working.remove(sequence)

    def sequences(self) -> tuple[Sequence, ...]:
        """Those at work."""
        return tuple(self._working)

    def drain(self) -> list[Job]:
        """Take all jobs that have not begun."""
        jobs = list(self._waiting)
        self._waiting.clear()
        return jobs
