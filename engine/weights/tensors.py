"""A file's tensors as the parts that models are made of, decoded as they are asked for."""

from __future__ import annotations

from math import isfinite

import torch
from torch import Tensor

from engine.api import BadModel
from engine.kernels.layouts import can_pack
from engine.layers.linear import Linear, Lookup, Matrix
from engine.layers.norm import LayerNorm, RmsNorm
from engine.layers.packed import Packed, Raw, Table, pack
from engine.quant import dequantise, format_of
from engine.weights.safetensors import SafetensorsFolder
from engine.weights.source import WeightFile

# Left by converters in some files; nothing reads them.
IGNORED = (
    ".attn_rot_embd",
    ".rotary_emb.inv_freq",
    ".attention.masked_bias",
    ".attention.rotary_emb.inv_freq",
)


class Tensors:
    """Tensors under a prefix ("blk.0."). Missing or of another shape than expected: `BadModel`, by name.

    `packs`: matrices stay as they are stored if they can, else they are decoded.
    """

    def __init__(
        self,
        file: WeightFile,
        threads: int = 1,
        prefix: str = "",
        used: dict[str, int] | None = None,
        *,
        packs: bool = False,
    ) -> None:
        self._file, self._threads, self._prefix, self._packs = file, threads, prefix, packs
        self._used: dict[str, int] = {} if used is None else used  # name -> bytes in memory

    @property
    def bytes(self) -> int:
        """Bytes in memory of all that was asked for, under whatever prefix."""
        return sum(self._used.values())

    @property
    def is_folder(self) -> bool:
        """Whether they are a model folder's, and named and stored as there."""
        return isinstance(self._file, SafetensorsFolder)

    def under(self, name: str) -> Tensors:
        """Those whose names begin with `name` and a dot."""
        return Tensors(self._file, self._threads, f"{self._prefix}{name}.", self._used, packs=self._packs)

    def has(self, name: str) -> bool:
        """Whether there is a tensor of this name."""
        return f"{self._prefix}{name}" in self._file.tensors

    def tensor(self, name: str, *shape: int) -> Tensor:
        """One tensor, float32."""
        self._check(name, shape)
        out = torch.empty(shape)
        self._read(name, out)
        return out

    def linear(self, columns: int, **rows: int) -> Linear:
        """The matrices of these names, each with its number of rows, stacked into one in this order."""
        for name, count in rows.items():
            self._check(f"{name}.weight", (count, columns))
        weight = torch.empty(sum(rows.values()), columns)
        self._stack("weight", rows, weight)
        if not any(self.has(f"{name}.bias") for name in rows):
            return Linear(weight)
        bias = torch.empty(weight.shape[0])
        self._stack("bias", rows, bias)
        return Linear(weight, bias)

    def matrix(self, columns: int, **rows: int) -> Matrix:
        """The same, held as it is stored if that can be."""
        shapes = [(f"{name}.weight", (count, columns)) for name, count in rows.items()]
        if all(self._stays(name, shape) for name, shape in shapes) and not any(
            self.has(f"{name}.bias") for name in rows
        ):
            return self._pack(shapes)
        return self.linear(columns, **rows)

    def ends(self, columns: int, tokens: int, first: str, last: str | None) -> tuple[Lookup, Matrix]:
        """The embedding and the head; `last` is None if they are one."""
        name, shape = f"{first}.weight", (tokens, columns)
        if self._stays(name, shape):
            self._used[f"{self._prefix}{name}"] = 0  # the table stays in the file
            return Table(self._raw(name, shape)), self.matrix(columns, **{last or first: tokens})
        embedding = self.linear(columns, **{first: tokens})
        return embedding, embedding if last is None else self.matrix(columns, **{last: tokens})

    def norm(self, name: str, width: int, eps: float) -> RmsNorm:
        """The normalisation of this name."""
        return RmsNorm(self.tensor(f"{name}.weight", width), eps)

    def layer_norm(self, name: str, width: int, eps: float) -> LayerNorm:
        """The normalisation of this name, with its bias."""
        return LayerNorm(self.tensor(f"{name}.weight", width), self.tensor(f"{name}.bias", width), eps)

    def finish(self, *prefixes: str) -> None:
        """Refuse a file with tensors that nobody asked for: without a part of it, a model talks nonsense.

        With prefixes: only those whose names begin with one of them; the rest is another model's.
        """
        for name in self._file.tensors:
            if prefixes and not name.startswith(prefixes):
                continue
            if name not in self._used and not name.removesuffix(".weight").endswith(IGNORED):
                raise self._file.refuse(
                    f"it holds the tensor {name}, which Sidelight doesn't know how to use"
                )

    def _stays(self, name: str, shape: tuple[int, int]) -> bool:
        full = f"{self._prefix}{name}"
        return self._packs and full in self._file.tensors and can_pack(self._file.tensor(full).type, shape)

    def _raw(self, name: str, shape: tuple[int, int]) -> Raw:
        self._check(name, shape)
        full = f"{self._prefix}{name}"
        tensor = self._file.tensor(full)
        return Raw(tensor.type, shape, self._file.raw(full))

    def _pack(self, shapes: list[tuple[str, tuple[int, int]]]) -> Packed:
        found = [self._raw(name, shape) for name, shape in shapes]
        for (name, _), raw in zip(shapes, found, strict=True):
            if not format_of(raw.kind).is_sound(raw.bytes):
                raise self._damaged(f"{self._prefix}{name}")
        made = pack(found, self._threads)
        for (name, _), part in zip(shapes, made.parts, strict=True):
            self._used[f"{self._prefix}{name}"] = part.nbytes
            self._file.release(f"{self._prefix}{name}")
        return made

    def _stack(self, kind: str, rows: dict[str, int], out: Tensor) -> None:
        start = 0
        for name, count in rows.items():
            self._read(f"{name}.{kind}", out[start : start + count])
            start += count

    def _check(self, name: str, shape: tuple[int, ...]) -> None:
        """Refuse another shape, before memory is asked for."""
        full = f"{self._prefix}{name}"
        found = self._file.tensor(full).shape
        if found != shape:
            raise self._wrong(full, found, shape)

    def _read(self, name: str, out: Tensor) -> None:
        full = f"{self._prefix}{name}"
        self._check(name, tuple(out.shape))
        dequantise(self._file, full, out.numpy(), self._threads)
        least, most = torch.aminmax(out)  # one undefined value makes both undefined
        if not isfinite(least) or not isfinite(most):
            raise self._damaged(full)
        self._file.release(full)
        self._used[full] = out.nbytes

    def _damaged(self, full: str) -> BadModel:
        return self._file.refuse(f"the tensor {full} holds values that are not numbers; it is damaged")

    def _wrong(self, name: str, found: tuple[int, ...], expected: tuple[int, ...]) -> BadModel:
        texts = (" x ".join(f"{size:,}" for size in shape) for shape in (found, expected))
        return self._file.refuse("the tensor {} is {} and should be {}".format(name, *texts))
