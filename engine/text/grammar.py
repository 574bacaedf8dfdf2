"""What a model may say next, by a grammar: llguidance over our own vocabulary, opened when first needed."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from engine.api import BadRequest, EngineError

if TYPE_CHECKING:
    import torch
    from llguidance import LLTokenizer

    from engine.text.tokenizer import Tokenizer


OFFERED = "The tools can't be offered to the model"


class _Vocabulary:
    """The shape that llguidance asks for."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.tokens = [tokenizer.token_bytes(token) for token in range(tokenizer.vocab_size)]
        self.special_token_ids = [token for token in range(len(self.tokens)) if tokenizer.is_control(token)]
        self.bos_token_id = tokenizer.bos_id
        self.eos_token_id = tokenizer.eos_id

    def __call__(self, text: bytes | str) -> list[int]:
        return self._tokenizer.encode(text if isinstance(text, str) else text.decode(errors="replace"))


def build_trie(tokenizer: Tokenizer) -> LLTokenizer:
    """The vocabulary as a trie. Built when needed: 0.05 s for 49,152 tokens, 0.5 s for 262,144."""
    if tokenizer.eos_id is None:
        raise BadRequest("The model has no end token, so its answers can't be held to a form.")
    from llguidance import LLTokenizer, TokenizerWrapper

    return LLTokenizer(
        TokenizerWrapper(_Vocabulary(tokenizer)), eos_token=sorted(tokenizer.eos_ids), slices=[]
    )


@lru_cache(maxsize=16)
def check_grammar(grammar: str, problem: str = OFFERED) -> None:
    """Raise `BadRequest` if llguidance cannot use it; `problem` begins the sentence."""
    from llguidance import LLMatcher

    failed, messages = LLMatcher.validate_grammar_with_warnings(grammar)
    if failed:
        raise BadRequest(f"{problem}: {messages[0].strip().splitlines()[0]}.")


def forbid(logits: torch.Tensor | np.ndarray, tokens: Collection[int]) -> None:
    """Set the logits of some tokens to minus infinity, in place."""
    forbidden = np.zeros(len(logits), np.bool_)
    forbidden[list(tokens)] = True
    _put(logits, forbidden)


def _put(logits: torch.Tensor | np.ndarray, forbidden: np.ndarray) -> None:
    if isinstance(logits, np.ndarray):
        np.putmask(logits, forbidden, -np.inf)
        return
    import torch

    if logits.device.type == "cpu" and logits.dtype == torch.float32:
        # The same memory; torch would wake all its threads for a millisecond's work.
        np.putmask(logits.numpy(), forbidden, -np.inf)
    else:
        logits.masked_fill_(torch.from_numpy(forbidden).to(logits.device), -torch.inf)


class Constraint:
    """A grammar and how far an answer has come in it."""

    def __init__(self, tokenizer: Tokenizer, grammar: str) -> None:
        from llguidance import LLMatcher

        self._ends = sorted(tokenizer.eos_ids)
        self._size = tokenizer.vocab_size
        self._matcher = LLMatcher(tokenizer.trie, grammar, log_level=0)
        self._check()

    @property
    def is_done(self) -> bool:
        """Whether nothing but the end may follow."""
        return bool(self._matcher.is_stopped())

    def mask(self, logits: torch.Tensor | np.ndarray) -> None:
        """Set the logits of every token that may not come next to minus infinity, in place."""
        forbidden = np.ones(len(logits), np.bool_)  # what lies beyond the vocabulary is padding
        forbidden[: self._size] = ~self._allowed()
        _put(logits, forbidden)

    def accept(self, token: int) -> bool:
        """Go on by one token; False if it may not come here, and then the constraint is of no more use."""
        if token in self._ends:
            return bool(self._matcher.is_accepting())
        return bool(self._matcher.try_consume_tokens([token]) == 1)

    def _allowed(self) -> np.ndarray:
        """(vocabulary,) of bool."""
        if self._matcher.is_stopped():
            allowed = np.zeros(self._size, np.bool_)
        else:
            bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
            allowed = np.unpackbits(bits, bitorder="little")[: self._size].astype(np.bool_)
        if self._matcher.is_accepting() or self._matcher.is_stopped():
            allowed[self._ends] = True
        self._check()
        return allowed

    def _check(self) -> None:
        if self._matcher.is_error():
            raise EngineError(f"The form of the answer can't be kept: {self._matcher.get_error().strip()}.")
