"""What can be said of a model file without running it, also if we could not run it."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from engine.weights.gguf import GgufFile
from engine.weights.header import shown


@dataclass(frozen=True, slots=True)
class Description:
    """A model file in a few facts; `str` of it is for people. None: the file doesn't say."""

    name: str
    architecture: str
    parameters: int
    file_bytes: int
    types: dict[str, int]  # bytes by storage type, most first
    layers: int | None
    context_length: int | None  # tokens
    tokenizer: str | None
    tokens: int | None
    has_template: bool

    @property
    def quantisation(self) -> str:
        """Storage types, the one with most bytes first: "Q4_1, Q8_0"."""
        return ", ".join(self.types)

    def as_dict(self) -> dict[str, Any]:
        """The facts as JSON can hold them."""
        return asdict(self)

    def __str__(self) -> str:
        rows = [
            ("Name", shown(self.name)),
            ("Architecture", shown(self.architecture)),
            ("Parameters", f"{_rounded(self.parameters)} ({self.parameters:,})"),
            ("File", f"{self.file_bytes / 1e6:,.1f} MB"),
            (
                "Storage",
                ", ".join(f"{name} {size / 1e6:,.1f} MB" for name, size in self.types.items())
                or "no tensors",
            ),
            ("Layers", _or_unknown(self.layers)),
            ("Context", f"{_or_unknown(self.context_length)} tokens"),
            ("Tokenizer", f"{shown(self.tokenizer or 'unknown')}, {_or_unknown(self.tokens)} tokens"),
            ("Chat template", "yes" if self.has_template else "no"),
        ]
        return "\n".join(f"{label:<14} {value}" for label, value in rows)


def describe(file: GgufFile) -> Description:
    """Sum a model file up."""
    architecture = file.text("general.architecture")
    tensors = file.tensors.values()
    return Description(
        name=file.text("general.name") if file.has("general.name") else file.path.stem,
        architecture=architecture,
        parameters=sum(tensor.elements for tensor in tensors),
        file_bytes=file.file_bytes,
        types=_bytes_by_type(file),
        layers=_integer(file, f"{architecture}.block_count"),
        context_length=_integer(file, f"{architecture}.context_length"),
        tokenizer=file.text("tokenizer.ggml.model") if file.has("tokenizer.ggml.model") else None,
        tokens=len(file.strings("tokenizer.ggml.tokens")) if file.has("tokenizer.ggml.tokens") else None,
        has_template=file.has("tokenizer.chat_template"),
    )


def _bytes_by_type(file: GgufFile) -> dict[str, int]:
    sizes: Counter[str] = Counter()
    for tensor in file.tensors.values():
        sizes[tensor.type] += tensor.size
    return dict(sizes.most_common())


def _integer(file: GgufFile, key: str) -> int | None:
    return file.integer(key) if file.has(key) else None


def _or_unknown(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"


def _rounded(count: int) -> str:
    return f"{count / 1e9:.1f} billion" if count >= 1e9 else f"{count / 1e6:.0f} million"
