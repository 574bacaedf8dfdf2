"""Block formats of stored weights. Each file in this folder is one, and names itself."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from engine.api import BadModel

if TYPE_CHECKING:
    from engine.weights.source import WeightFile

CHUNK = 1 << 18  # values decoded at a time: what a core's cache holds, and what bounds the scratch memory


@dataclass(frozen=True, slots=True)
class Format:
    """How values are stored: `bytes` hold a block of `block` values."""

    names: tuple[str, ...]
    block: int
    bytes: int
    decode_blocks: Callable[[np.ndarray, np.ndarray], None]
    layout: np.dtype | None = None  # of a block with scales

    def is_sound(self, raw: np.ndarray) -> bool:
        """Whether every scale in these bytes is a finite number, if blocks have any."""
        if self.layout is None:
            return True
        blocks = raw.reshape(-1, self.bytes).view(self.layout)[:, 0]
        names = (name for name in ("scale", "minimum") if name in (self.layout.names or ()))
        return all(bool(np.isfinite(blocks[name]).all()) for name in names)

    def decode(self, raw: np.ndarray) -> np.ndarray:
        """Bytes (n * bytes,) -> float32 (n * block,)."""
        out = np.empty(raw.size // self.bytes * self.block, np.float32)
        self.decode_into(raw, out)
        return out

    def decode_into(self, raw: np.ndarray, out: np.ndarray) -> None:
        """Decode the blocks of `raw` into `out`, both contiguous and of any shape, part by part."""
        blocks, values = raw.reshape(-1, self.bytes), _flat(out).reshape(-1, self.block)
        if len(blocks) != len(values):
            raise ValueError(f"{len(blocks)} blocks cannot fill {values.size} values")
        step = max(1, CHUNK // self.block)
        # A file may hold infinite or undefined scales; their values are then just that.
        with np.errstate(all="ignore"):
            for start in range(0, len(blocks), step):
                self.decode_blocks(blocks[start : start + step], values[start : start + step])


@cache
def formats() -> Mapping[str, Format]:
    """Every format by each of its names."""
    found: dict[str, Format] = {}
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        if module.name.rpartition(".")[2].startswith("_"):
            continue
        member = import_module(module.name)
        layout = getattr(member, "LAYOUT", None)
        storage = Format(member.NAMES, member.BLOCK, member.BYTES, member.decode, layout)
        for name in storage.names:
            if name in found:
                raise ValueError(f"two block formats are named {name}")
            found[name] = storage
    return MappingProxyType(found)


def find_format(name: str) -> Format | None:
    """The format named `name`, such as "Q4_K", if it can be read."""
    return formats().get(name)


def format_of(name: str) -> Format:
    """The format named `name`; refused with its name if it can't be read."""
    found = find_format(name)
    if found is None:
        raise BadModel(f"The model uses {name}, which Sidelight can't read yet.")
    return found


def dequantise(file: WeightFile, name: str, out: np.ndarray | None = None, threads: int = 2) -> np.ndarray:
    """A whole tensor as float32, in its own shape, or in `out` (contiguous, as many values)."""
    tensor = file.tensor(name)
    out = np.empty(tensor.shape, np.float32) if out is None else out
    storage, raw, values = format_of(tensor.type), file.raw(name), _flat(out)
    if values.size != tensor.elements:
        raise ValueError(f"{name} has {tensor.elements} values, the output {values.size}")
    step = max(1, CHUNK // storage.block)
    parts = [slice(at, at + step) for at in range(0, tensor.elements // storage.block, step)]

    def decode(part: slice) -> None:
        storage.decode_into(
            raw[part.start * storage.bytes : part.stop * storage.bytes],
            values[part.start * storage.block : part.stop * storage.block],
        )

    if threads < 2 or len(parts) < 2:
        for part in parts:
            decode(part)
    else:
        with ThreadPoolExecutor(threads, "dequantise") as pool:
            list(pool.map(decode, parts))
    return out


def dequantise_rows(file: WeightFile, name: str, rows: np.ndarray) -> np.ndarray:
    """Only the given rows (n,) of a matrix: float32 (n, columns)."""
    tensor = file.tensor(name)
    storage = format_of(tensor.type)
    columns = tensor.shape[-1]
    chosen = file.raw(name).reshape(tensor.elements // columns, -1)[rows]
    return storage.decode(chosen).reshape(len(rows), columns)


def _flat(out: np.ndarray) -> np.ndarray:
    """A flat view, to be written through."""
    if out.dtype != np.float32 or not out.flags.c_contiguous:
        raise ValueError("the output must be contiguous float32")
    return out.reshape(-1)
