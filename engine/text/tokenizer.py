"""Text to tokens and back, from a model file's own vocabulary."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Self

from engine.api import BadRequest
from engine.text.bytelevel import ByteLevel
from engine.text.grammar import build_trie
from engine.text.sentencepiece import SentencePiece
from engine.text.shield import Shield
from engine.text.vocabulary import Vocabulary
from engine.weights.gguf import GgufFile

if TYPE_CHECKING:
    from llguidance import LLTokenizer

KINDS: dict[str, type[ByteLevel] | type[SentencePiece]] = {"gpt2": ByteLevel, "llama": SentencePiece}


class Tokenizer:
    """A model's tokenizer. Token ids are those that llama.cpp gives for the same file."""

    def __init__(self, vocabulary: Vocabulary, coder: ByteLevel | SentencePiece, add_bos: bool) -> None:
        self._vocabulary, self._coder = vocabulary, coder
        self.vocab_size = len(vocabulary.texts)
        self.bos_id = vocabulary.bos_id
        self.eos_id, self.eos_ids = vocabulary.eos_id, vocabulary.eos_ids
        self.add_bos = add_bos and self.bos_id is not None

    @classmethod
    def from_gguf(cls, file: GgufFile) -> Self:
        """The tokenizer that `file` describes; `BadModel` if it is of a kind we don't know."""
        model = file.text("tokenizer.ggml.model")
        if model not in KINDS:
            raise file.refuse(f"its tokenizer is of the kind {model!r}, which Sidelight doesn't know yet")
        vocabulary = Vocabulary(file)
        coder = KINDS[model](file, vocabulary)
        key = "tokenizer.ggml.add_bos_token"
        return cls(vocabulary, coder, file.flag(key) if file.has(key) else coder.add_bos)

    def encode(self, text: str, *, special: bool = False, bos: bool = False) -> list[int]:
        """Tokens of `text`. `special`: text like `<|im_end|>` becomes a control token, else it stays text.

        `bos`: the token that begins a text comes first, if the model wants one.
        """
        _check(text)
        markers = self._vocabulary.all_markers if special else self._vocabulary.user_defined
        ids = self._coder.encode(markers.split(text))
        return [self.bos_id, *ids] if bos and self.add_bos and self.bos_id is not None else ids

    @cached_property
    def trie(self) -> LLTokenizer:
        """The vocabulary as grammars want it."""
        return build_trie(self)

    @cached_property
    def shield(self) -> Shield:
        """Keeps contents from becoming control tokens."""
        return Shield(self._vocabulary.control)

    def count(self, text: str) -> int:
        """How many tokens `text` has."""
        return len(self.encode(text))

    def decode(self, ids: Iterable[int], special: bool = False) -> str:
        """The text of whole tokens; control tokens are left out unless `special`."""
        kept = (token for token in ids if special or not self.is_control(token))
        text = b"".join(map(self.token_bytes, kept)).decode(errors="replace")
        return text[1:] if self.adds_space and text.startswith(" ") else text

    def token_bytes(self, token: int) -> bytes:
        """The bytes one token stands for; of a control token, its name."""
        if not 0 <= token < self.vocab_size:
            raise BadRequest(f"There is no token {token}; the vocabulary has {self.vocab_size:,}.")
        return self._coder.token_bytes(token)

    def is_control(self, token: int) -> bool:
        """Whether a token steers the conversation and is no part of its text."""
        return self._vocabulary.is_hidden(token)

    def find(self, text: str) -> int | None:
        """The token whose name is exactly `text`, if there is one."""
        return self._vocabulary.ids.get(text)

    @cached_property
    def adds_space(self) -> bool:
        """Whether a text is tokenised as if a space stood before it."""
        return isinstance(self._coder, SentencePiece) and self._coder.adds_space


def _check(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        raise BadRequest(
            f"The text holds half a character, U+{code:04X}, at place {error.start + 1}; it can't be read."
        ) from None
