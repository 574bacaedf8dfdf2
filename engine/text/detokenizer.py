"""Tokens to text as they come: never half a character, nothing lost at the end."""

from __future__ import annotations

import codecs

from engine.text.tokenizer import Tokenizer


class Detokenizer:
    """Feeds one text.

    `starts_text`: the tokens begin a text, so that a space the tokenizer put before it is taken off again.
    `visible` are control tokens whose names are wanted in the text all the same.
    """

    def __init__(
        self, tokenizer: Tokenizer, *, starts_text: bool = True, visible: frozenset[int] = frozenset()
    ) -> None:
        self._tokenizer, self._visible = tokenizer, visible
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._drops_space = starts_text and tokenizer.adds_space

    def push(self, token: int) -> str:
        """The text that `token` completes; empty while a character is unfinished."""
        if self._tokenizer.is_control(token) and token not in self._visible:
            return ""
        return self._trimmed(self._decoder.decode(self._tokenizer.token_bytes(token)))

    def finish(self) -> str:
        """What is left of an unfinished character, as U+FFFD."""
        return self._trimmed(self._decoder.decode(b"", final=True))

    def _trimmed(self, text: str) -> str:
        if text and self._drops_space:
            self._drops_space = False
            return text.removeprefix(" ")
        return text
