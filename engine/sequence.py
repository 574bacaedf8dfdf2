"""One generation: its tokens, what of them is computed, and the listener who hears of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from time import perf_counter
from typing import TYPE_CHECKING

from torch import Tensor

from engine.api import BadRequest, ContextFull, Done, Event, FinishReason, Prefill, Request, Usage
from engine.cache.prefix import Prefixes
from engine.draft.adapt import Pace
from engine.runner import Runner
from engine.sample import PENALISED, choose, generator
from engine.text.pictures import identified
from engine.vision.seeing import Seeing

if TYPE_CHECKING:
    from engine.text.dialogue import Dialogue
    from engine.vision.features import VisionEncoder

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
    """A job at work. Each `step` is a forward pass: a chunk of the prompt, or a token and proposed ones.

    Or it encodes a little more of a picture, if one comes next.
    """

    def __init__(
        self,
        job: Job,
        dialogue: Dialogue,
        runner: Runner,
        prefixes: Prefixes,
        vision: VisionEncoder | None = None,
    ) -> None:
        self.job, self.is_over = job, False
        self._dialogue, self._runner = dialogue, runner
        self._sampling = job.request.sampling
        self._chance = generator(self._sampling.seed)
        self.tokens = list(dialogue.ids)
        self._prompt = len(self.tokens)
        self._refuse_early()
        self.cache = prefixes.take(self.identity) or runner.new_cache()
        self._cached = self.cache.length
        ahead = [picture for picture in dialogue.pictures if picture.end > self._cached]
        self._seeing = Seeing(vision, ahead)
        self.cache.mark(dialogue.turns)
        self.cache.reserve(self._prompt + min(AHEAD, job.request.max_tokens or AHEAD))
        self._pace = None if runner.drafter is None else Pace(runner.costs, runner.drafter.most)
        self._lookup = runner.lookup(self.cache)
        self._steps = self._drafted = self._accepted = 0
        self._started = perf_counter()
        self._answering: float | None = None  # when the first token of the reply was chosen

    def step(self) -> None:
        """Take in the next tokens; if none are left after them, choose one more, or several."""
        start = self.cache.length
        if self._generated and start == len(self.tokens) - 1:
            self._leap()
        else:
            self._walk(start)

    def _walk(self, start: int) -> None:
        chunk = self.tokens[start : start + self._runner.chunk]
        end = start + len(chunk)
        if self._seeing.step(end):
            return
        is_last, inserts = end == len(self.tokens), self._seeing.inserts(start)
        logits = self._runner.forward(chunk, self.cache, rate=is_last, inserts=inserts)
        if start < self._prompt:
            self.job.tell(Prefill(self.cache.length, self._prompt, self._cached))
        if logits is not None:
            self._answering = self._answering or perf_counter()
            self._steps += 1
            self._extend(self._choose(logits))

    def _leap(self) -> None:
        """Go on by a token, or by several that were proposed: by the context, or else by the drafter."""
        length, accepted, room = len(self.tokens), self._accepted, self._room - 1
        proposed = self._lookup.propose(self.tokens, room, self._pace) if self._lookup else []
        pace = None if proposed else self._pace
        if pace is not None:
            proposed = self._propose(pace.count(room))
        if proposed:
            self._check(proposed)
        else:
            self._walk(length - 1)
        if pace is not None:
            pace.record(len(proposed), self._accepted - accepted)
        if self._lookup is not None:
            self._lookup.learn(self.tokens[length:], is_plain=not proposed)

    def _check(self, proposed: list[int]) -> None:
        """Check tokens that were proposed in one pass, and go as far as they are what was chosen anyway.

        Each token is chosen from the model's own row, as without a proposal; it goes on if the proposal is
        the same. So chance has the same part in it: what is proposed decides how fast, never what.
        """
        length = len(self.tokens)
        checked = self._runner.check([self.tokens[-1], *proposed], self.cache)
        self._steps += 1
        self._drafted += len(proposed)
        try:
            self._follow(proposed, checked.rows)
        finally:  # whatever happens, only the tokens that are part of the answer stay
            self._runner.keep(checked, max(1, len(self.tokens) - length), self.cache)

    def _propose(self, count: int) -> list[int]:
        proposer = self._runner.proposer(self.cache) if count > 0 else None
        return [] if proposer is None else proposer.propose(self.tokens[-1], count)

    def _follow(self, proposed: list[int], rows: Tensor) -> None:
        """Extend the answer row by row, until one goes another way than was proposed, or it is to end."""
        for row, guess in zip_longest(rows, proposed):
            token = self._choose(row)
            self._accepted += token == guess
            self._extend(token)
            if self.is_over or self.job.is_cancelled or token != guess:
                return

    @property
    def identity(self) -> list[int]:
        """The tokens, and in place of a picture's what tells it from others."""
        return identified(self.tokens, self._dialogue.pictures)

    def end(self, reason: FinishReason) -> None:
        """Tell the rest, and that it is over."""
        self.is_over = True
        for event in self._dialogue.finish(reason):
            self.job.tell(event)
        self.job.tell(Done(reason, self._usage()))

    def _choose(self, logits: Tensor) -> int:
        self._dialogue.constrain(logits)
        return choose(logits, self._sampling, self.tokens[-PENALISED:], self._chance)

    def _extend(self, token: int) -> None:
        self.tokens.append(token)
        for event in self._dialogue.push(token):
            self.job.tell(event)
        if self._dialogue.is_over:
            self.end(self._dialogue.reason)
        elif self._room <= 0:
            self.end("length")

    @property
    def _generated(self) -> int:
        return len(self.tokens) - self._prompt

    @property
    def _room(self) -> int:
        """Tokens that may still come."""
        room, limit = self._runner.context - len(self.tokens), self.job.request.max_tokens
        return room if limit is None else min(room, limit - self._generated)

    def _usage(self) -> Usage:
        now = perf_counter()
        answering = self._answering or now
        return Usage(
            prompt_tokens=self._prompt,
            cached_tokens=self._cached,
            generated_tokens=self._generated,
            prefill_seconds=answering - self._started,
            decode_seconds=now - answering,
            steps=self._steps,
            drafted_tokens=self._drafted,
            accepted_tokens=self._accepted,
        )

    def _refuse_early(self) -> None:
        limit = self.job.request.max_tokens
        if limit is not None and limit < 1:
            raise BadRequest(f"max_tokens {limit} is out of range.")
        if not self._prompt:
            raise BadRequest("The prompt is empty.")
        if self._prompt >= self._runner.context:
            raise ContextFull(self._prompt + 1, self._runner.context)
