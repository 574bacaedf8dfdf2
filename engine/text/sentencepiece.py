"""SentencePiece's BPE: the pair that makes the token with the best score is joined first.

Own code, not the `tokenizers` library: that wants merges, and a vocabulary of 262,144 scored tokens gives
about a million of them, which take seconds to find and to load at every start.
"""

from __future__ import annotations

import re
from heapq import heappop, heappush

import numpy as np

from engine.text.vocabulary import BYTE, NORMAL, UNUSED, Vocabulary
from engine.weights.gguf import GgufFile

SPACE = "▁"  # U+2581, how these vocabularies spell a space
CACHED_WORDS = 50_000
LONGEST_TOKEN = 0xFFFF  # characters
CACHED_LENGTH = 40  # characters


class SentencePiece:
    """Plain text to tokens and tokens to bytes for `tokenizer.ggml.model = llama`."""

    add_bos = True  # unless the file says otherwise

    def __init__(self, file: GgufFile, vocabulary: Vocabulary) -> None:
        if vocabulary.scores is None:
            raise file.refuse("its vocabulary has no scores")
        if max(map(len, vocabulary.texts)) > LONGEST_TOKEN:
            raise file.refuse("its vocabulary holds a token of absurd length")
        self._vocabulary = vocabulary
        self._ids = vocabulary.spoken()
        self._ranks: list[int] = np.unique(-vocabulary.scores, return_inverse=True)[
            1
        ].tolist()  # 0 is the best
        self._bytes = [self._byte_token(byte) for byte in range(256)]
        self._border = _find_border(list(self._ids))
        self._cache: dict[str, list[int]] = {}
        prefix = "tokenizer.ggml.add_space_prefix"
        self.adds_space = file.flag(prefix) if file.has(prefix) else True

    def encode(self, pieces: list[str | int]) -> list[int]:
        """Tokens of plain pieces; ids among them stay as they are."""
        ids: list[int] = []
        after_marker = True  # the start counts as one
        for piece in pieces:
            if isinstance(piece, int):
                ids.append(piece)
            else:
                lead = SPACE if self.adds_space and after_marker else ""
                self._encode(lead + piece.replace(" ", SPACE), ids)
            after_marker = isinstance(piece, int)
        return ids

    def token_bytes(self, token: int) -> bytes:
        """The bytes a token stands for."""
        text, kind = self._vocabulary.texts[token], self._vocabulary.kinds[token]
        if kind == BYTE and (byte := re.fullmatch("<0x([0-9A-Fa-f]{2})>", text)):
            return bytes.fromhex(byte[1])
        return (text.replace(SPACE, " ") if kind in (NORMAL, UNUSED) else text).encode()

    def _encode(self, text: str, ids: list[int]) -> None:
        cache = self._cache
        for word in self._border.split(text):
            known = cache.get(word)
            if known is None:
                known = self._merge(word)
                if len(word) <= CACHED_LENGTH:
                    if len(cache) >= CACHED_WORDS:
                        cache.clear()
                    cache[word] = known
            ids += known

    def _merge(self, word: str) -> list[int]:
        """Join neighbours by the best score, the leftmost first among equals, until no pair is a token."""
        ids, ranks, parts, count = self._ids, self._ranks, list(word), len(word)
        before, after = list(range(-1, count - 1)), list(range(1, count + 1))
        # Rank, left place and joined length in one number each: the collector would stop to look at tuples.
        heap: list[int] = []

        def offer(left: int, right: int) -> None:
            if left >= 0 and right < count:
                joined = parts[left] + parts[right]
                token = ids.get(joined)
                if token is not None:
                    heappush(heap, ranks[token] << 64 | left << 16 | len(joined))

        for left in range(count - 1):
            offer(left, left + 1)
        while heap:
            best = heappop(heap)
            left = best >> 16 & 0xFFFF_FFFF_FFFF
            right = after[left]
            if not parts[left] or right >= count or len(parts[left]) + len(parts[right]) != best & 0xFFFF:
                continue  # one of them has been joined to another since
            parts[left] += parts[right]
            parts[right] = ""
            after[left] = after[right]
            if after[right] < count:
                before[after[right]] = left
            offer(before[left], left)
            offer(left, after[left])
        return [token for part in parts if part for token in self._tokens_of(part)]

    def _tokens_of(self, part: str) -> list[int]:
        token = self._ids.get(part)
        return [token] if token is not None else [self._bytes[byte] for byte in part.encode()]

    def _byte_token(self, byte: int) -> int:
        ids = self._vocabulary.ids
        token = ids.get(f"<0x{byte:02X}>", ids.get(chr(byte)))
        if token is None:
            raise self._vocabulary.refuse(f"its vocabulary has no token for the byte 0x{byte:02X}")
        return token


def _find_border(texts: list[str]) -> re.Pattern[str]:
    """Where a text can be cut without changing its tokens: before a space that no token has inside it."""
    spanning = {before[-1:] for before in "\0".join(texts).split(SPACE)[:-1]} - {"", "\0"}
    return re.compile(f"(?<=[^{re.escape(''.join([SPACE, *sorted(spanning)]))}])(?={SPACE})")
