"""Byte-level BPE: every byte of a text has a printable letter, and merges join letters into tokens."""

from __future__ import annotations

import re

from tokenizers import Regex
from tokenizers import Tokenizer as Pipeline
from tokenizers import pre_tokenizers as steps
from tokenizers.models import BPE

from engine.text.pretokens import PRETOKENS, Pretokens
from engine.text.vocabulary import BYTE, NORMAL, UNUSED, Vocabulary
from engine.weights.gguf import GgufFile

_PRINTABLE = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))


def _byte_letters() -> list[str]:
    """The letter that stands for each byte: itself where printable, else the next one from U+0100."""
    letters = {byte: chr(byte) for byte in _PRINTABLE}
    rest = [byte for byte in range(256) if byte not in letters]
    letters |= {byte: chr(0x100 + index) for index, byte in enumerate(rest)}
    return [letters[byte] for byte in range(256)]


BYTE_LETTERS = _byte_letters()
LETTER_BYTES = {letter: byte for byte, letter in enumerate(BYTE_LETTERS)}


class ByteLevel:
    """Plain text to tokens and tokens to bytes for `tokenizer.ggml.model = gpt2`."""

    def __init__(self, file: GgufFile, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        pretokens = find_pretokens(file)
        self.add_bos = pretokens.add_bos
        spoken = vocabulary.spoken()
        pairs = (merge.partition(" ") for merge in file.strings("tokenizer.ggml.merges"))
        merges = [
            (left, right)
            for left, space, right in pairs
            if left in spoken and right in spoken and left + right in spoken and space
        ]
        self._pipeline = Pipeline(BPE(spoken, merges, ignore_merges=pretokens.whole_words))
        self._pipeline.pre_tokenizer = _cutter(pretokens, [c for c in BYTE_LETTERS if c not in spoken])

    def encode(self, pieces: list[str | int]) -> list[int]:
        """Tokens of plain pieces; ids among them stay as they are."""
        texts = [piece for piece in pieces if isinstance(piece, str)]
        # The batch call, unlike the single one, lets other threads run meanwhile.
        encoded = iter(self._pipeline.encode_batch_fast(texts, add_special_tokens=False))
        if len(pieces) == 1 and texts:
            return next(encoded).ids
        ids: list[int] = []
        for piece in pieces:
            if isinstance(piece, int):
                ids.append(piece)
            else:
                ids.extend(next(encoded).ids)
        return ids

    def token_bytes(self, token: int) -> bytes:
        """The bytes a token stands for."""
        text, kind = self._vocabulary.texts[token], self._vocabulary.kinds[token]
        if kind == BYTE and (byte := re.fullmatch("<0x([0-9A-Fa-f]{2})>", text)):
            return bytes.fromhex(byte[1])
        if kind not in (NORMAL, UNUSED) or not all(letter in LETTER_BYTES for letter in text):
            return text.encode()
        return bytes(LETTER_BYTES[letter] for letter in text)


def find_pretokens(file: GgufFile) -> Pretokens:
    """How the file says that text is cut into words."""
    name = file.text("tokenizer.ggml.pre") if file.has("tokenizer.ggml.pre") else "default"
    if name not in PRETOKENS:
        raise file.refuse(f"its pre-tokenizer is {name!r}, which Sidelight doesn't know yet")
    return PRETOKENS[name]


def _cutter(pretokens: Pretokens, missing: list[str]) -> steps.PreTokenizer:
    cuts: list[steps.PreTokenizer]
    cuts = [steps.Split(Regex(pattern), "isolated") for pattern in pretokens.patterns]
    cuts.append(steps.ByteLevel(add_prefix_space=False, use_regex=False))
    if missing:
        # Bytes without a token say nothing, but what stands around them must not be merged across.
        cuts.append(steps.Split(Regex(f"[{re.escape(''.join(missing))}]"), "removed"))
    return steps.Sequence(cuts)
