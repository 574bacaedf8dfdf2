"""What local layers have let go of, where a sequence may be taken up again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.cache.lane import Rows, copied, size

Spans = list[tuple[int, int]]


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Positions first to end, of every local layer."""

    first: int
    end: int
    layers: tuple[Rows, ...]

    @property
    def bytes(self) -> int:
        """Bytes held."""
        return sum(map(size, self.layers))

    def part(self, first: int, end: int) -> list[Rows]:
        """Each layer's rows of this piece that lie in the span; no copy."""
        start, stop = max(first, self.first) - self.first, min(end, self.end) - self.first
        return [tuple(part[:, :, start:stop] for part in rows) for rows in self.layers]


class Past:
    """Pieces in order, apart from each other, of at most `limit` bytes.

    `marks` are the positions where the sequence may be taken up again: turns begin there. A local layer
    then needs the `reach` positions before. When there is too much, the earliest marks are given up, but for
    the first: what every conversation begins with.
    """

    def __init__(self, reach: int, limit: int) -> None:
        self._reach, self.limit = reach, limit
        self._marks: list[int] = []
        self._pieces: list[Piece] = []

    @property
    def bytes(self) -> int:
        """Bytes held."""
        return sum(piece.bytes for piece in self._pieces)

    @property
    def spans(self) -> Spans:
        """From where to where positions are held, in order."""
        return [(piece.first, piece.end) for piece in self._pieces]

    def mark(self, positions: Sequence[int]) -> None:
        """These marks instead of those before."""
        self._marks = sorted(positions)

    def keep(self, first: int, end: int, rows: Callable[[int, int], list[Rows]]) -> None:
        """Positions first to end are about to go: keep what a mark needs of them."""
        for low, high in _joined([(max(first, low), min(end, high)) for low, high in self._needs()]):
            self._pieces.append(Piece(low, high, tuple(map(copied, rows(low, high)))))
        self._save_bytes()

    def parts(self, first: int, end: int) -> list[list[Rows]]:
        """All that is held of a span, piece after piece: each layer's rows."""
        return [piece.part(first, end) for piece in self._pieces if piece.first < end and piece.end > first]

    def cut(self, end: int) -> None:
        """Let go of the positions from `end` on."""
        whole = [piece for piece in self._pieces if piece.end <= end]
        broken = [piece for piece in self._pieces if piece.first < end < piece.end]
        self._pieces = whole + [
            Piece(piece.first, end, tuple(map(copied, piece.part(piece.first, end)))) for piece in broken
        ]

    def _needs(self) -> Spans:
        return [(mark - self._reach, mark) for mark in self._marks]

    def _save_bytes(self) -> None:
        while self.bytes > self.limit and self._pieces:
            if len(self._marks) > 1:
                del self._marks[1]
            else:
                self._marks.clear()
            needs = self._needs()
            self._pieces = [
                piece
                for piece in self._pieces
                if any(low < piece.end and high > piece.first for low, high in needs)
            ]


def _joined(spans: Spans) -> Spans:
    """Those of the spans, sorted by their ends, that are not empty; as one where they meet or overlap."""
    out: Spans = []
    for low, high in spans:
        if low >= high:
            continue
        if out and low <= out[-1][1]:
            out[-1] = (out[-1][0], max(high, out[-1][1]))
        else:
            out.append((low, high))
    return out
