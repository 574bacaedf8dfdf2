"""Pictures in a prompt: each stands there as a run of tokens, whose embeddings its features replace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from engine.api import BadRequest
from engine.text.tokenizer import Tokenizer

Measure = Callable[[bytes], int]  # how many tokens a picture file's bytes take


class Marks(NamedTuple):
    """Control tokens: what comes before a picture, each of its own tokens, and what comes after it."""

    start: int
    patch: int
    end: int

    @classmethod
    def find(cls, tokenizer: Tokenizer, names: Sequence[str]) -> Marks | None:
        """By their names; None if the model hasn't all of them."""
        ids = [found for name in names if (found := tokenizer.find(name)) is not None]
        return cls(*ids) if len(ids) == len(cls._fields) else None


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A picture's place in a prompt: `count` tokens from `start` on."""

    start: int
    count: int
    data: bytes  # of its file

    @property
    def end(self) -> int:
        """The first token after it."""
        return self.start + self.count

    @property
    def identity(self) -> int:
        """Stands for its tokens when prompts are compared: no token's number, and each picture's own."""
        return -1 - int.from_bytes(sha256(self.data).digest()[:8])


def place(
    ids: Sequence[int], marks: Marks, files: Sequence[bytes], measure: Measure
) -> tuple[list[int], list[Picture]]:
    """A prompt with one token for each picture, as templates write it -> the whole prompt, and places."""
    if ids.count(marks.patch) != len(files):
        raise BadRequest("The model's chat template has no place for pictures.")
    whole, pictures, waiting = list[int](), list[Picture](), iter(files)
    for at, token in enumerate(ids):
        if token != marks.patch:
            whole.append(token)
            continue
        data = next(waiting)
        if whole[-1:] != [marks.start]:
            whole.append(marks.start)
        pictures.append(Picture(len(whole), measure(data), data))
        whole += [marks.patch] * pictures[-1].count
        if ids[at + 1 : at + 2] != [marks.end]:
            whole.append(marks.end)
    return whole, pictures


def identified(tokens: Sequence[int], pictures: Sequence[Picture]) -> list[int]:
    """Tokens by which a sequence is known: pictures that differ, differ here too."""
    known = list(tokens)
    for picture in pictures:
        known[picture.start : picture.end] = [picture.identity] * picture.count
    return known
