"""One generation: its tokens, what of them is computed, and the listener who hears of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from torch import Tensor

from engine.api import BadRequest, ContextFull, Done, Event, FinishReason, Prefill, Request, Usage
from engine.cache.prefix import Prefixes
from engine.runner import Runner
from engine.sample import PENALISED, choose, generator

if TYPE_CHECKING:
    from engine.text.dialogue import Dialogue

AHEAD = 256  # tokens of the reply to make room for at the start


class ListenerGone(Exception):
    """The listener raised: nobody hears this generation any more."""


@dataclass(slots=True, eq=False)
class Job:
    """A request, who listens, and whether they still want it."""

    request: Request
    emit: Callable[[Event], None]
    is_cancelled: bool = False

    def tell(self, event: Event) -> None:
        """Hand an event to the listener."""
        try:
            self.emit(event)
        except Exception as error:  # a stranger's code may raise anything: a closed event loop RuntimeError
            raise ListenerGone from error


class Sequence:
    """A job at work. Each `step` is one forward pass: a chunk of the prompt, or one token."""

    def __init__(self, job: Job, dialogue: Dialogue, runner: Runner, prefixes: Prefixes) -> None:
        self.job, self.is_over = job, False
        self._dialogue, self._runner = dialogue, runner
        self._sampling = job.request.sampling
        self._chance = generator(self._sampling.seed)
        self.tokens = list(dialogue.ids)
        self._prompt = len(self.tokens)
        self._refuse_early()
        self.cache = prefixes.take(self.tokens) or runner.new_cache()
        self._cached = self.cache.length
        self.cache.mark(dialogue.turns)
        self.cache.reserve(self._prompt + min(AHEAD, job.request.max_tokens or AHEAD))
        self._started = perf_counter()
        self._answering: float | None = None  # when the first token of the reply was chosen

    def step(self) -> None:
        """Take in the next tokens; if none are left after them, choose one more."""
        start = self.cache.length
        chunk = self.tokens[start : start + self._runner.chunk]
        is_last = start + len(chunk) == len(self.tokens)
        logits = self._runner.forward(chunk, self.cache, rate=is_last)
        if start < self._prompt:
            self.job.tell(Prefill(self.cache.length, self._prompt, self._cached))
        if logits is not None:
            self._answering = self._answering or perf_counter()
            self._extend(logits)

    def end(self, reason: FinishReason) -> None:
        """Tell the rest, and that it is over."""
        self.is_over = True
        for event in self._dialogue.finish(reason):
            self.job.tell(event)
        self.job.tell(Done(reason, self._usage()))

    def _extend(self, logits: Tensor) -> None:
        self._dialogue.constrain(logits)
        token = choose(logits, self._sampling, self.tokens[-PENALISED:], self._chance)
        self.tokens.append(token)
        for event in self._dialogue.push(token):
            self.job.tell(event)
        if self._dialogue.is_over:
            self.end(self._dialogue.reason)
        elif self._generated == self.job.request.max_tokens or len(self.tokens) >= self._runner.context:
            self.end("length")

    @property
    def _generated(self) -> int:
        return len(self.tokens) - self._prompt

    def _usage(self) -> Usage:
        now = perf_counter()
        answering = self._answering or now
        return Usage(self._prompt, self._cached, self._generated, answering - self._started, now - answering)

    def _refuse_early(self) -> None:
        limit = self.job.request.max_tokens
        if limit is not None and limit < 1:
            raise BadRequest(f"max_tokens {limit} is out of range.")
        if not self._prompt:
            raise BadRequest("The prompt is empty.")
        if self._prompt >= self._runner.context:
            raise ContextFull(self._prompt + 1, self._runner.context)
