"""Tokens that are cut out of a text whole, before the rest of it is tokenised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

HEAD = 3  # characters; vocabularies with thousands of markers have only a few dozen beginnings
MANY = 64  # markers of one beginning that are looked for one by one


class Markers:
    """Finds marker tokens in a text. The longest is cut out first, wherever it stands, as in llama.cpp."""

    def __init__(self, ids: Mapping[str, int]) -> None:
        self.ids = ids
        self._heads: dict[str, list[str]] = {}
        for text in ids:
            self._heads.setdefault(text[:HEAD], []).append(text)

    def found_in(self, text: str) -> list[str]:
        """The markers that occur in `text`, in the order in which they are cut out."""
        found: set[str] = set()
        for head, markers in self._heads.items():
            if head in text:
                found.update(_find(text, head, markers))
        return sorted(found, key=lambda marker: (-len(marker.encode()), self.ids[marker]))

    def split(self, text: str) -> list[str | int]:
        """`text` as plain pieces (never empty) and the ids of the markers between them."""
        pieces: list[str | int] = [text] if text else []
        for marker in self.found_in(text):
            pieces = list(_cut(pieces, marker, self.ids[marker]))
        return pieces


def _find(text: str, head: str, markers: list[str]) -> Iterator[str]:
    if len(markers) <= MANY:
        yield from (marker for marker in markers if marker in text)
        return
    known, lengths = set(markers), {len(marker) for marker in markers}
    at = text.find(head)
    while at >= 0:
        yield from (text[at : at + length] for length in lengths if text[at : at + length] in known)
        at = text.find(head, at + 1)


def _cut(pieces: Iterable[str | int], marker: str, marker_id: int) -> Iterator[str | int]:
    for piece in pieces:
        if isinstance(piece, int) or marker not in piece:
            yield piece
            continue
        for index, plain in enumerate(piece.split(marker)):
            if index:
                yield marker_id
            if plain:
                yield plain
