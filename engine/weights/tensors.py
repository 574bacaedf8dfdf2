"""A file's tensors as the parts that models are made of, decoded as they are asked for."""

from __future__ import annotations

from math import isfinite

import torch
from torch import Tensor

from engine.api import BadModel
from engine.layers.linear import Linear
from engine.layers.norm import LayerNorm, RmsNorm
from engine.quant import dequantise
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
    """Tensors under a prefix ("blk.0."). Missing or of another shape than expected: `BadModel`, by name."""

    def __init__(
        self, file: WeightFile, threads: int = 1, prefix: str = "", used: dict[str, int] | None = None
    ) -> None:
        self._file, self._threads, self._prefix = file, threads, prefix
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
        return Tensors(self._file, self._threads, f"{self._prefix}{name}.", self._used)

    def has(self, name: str) -> bool:
        """Whether there is a tensor of this name."""
        return f"{self._prefix}{name}" in self._file.tensors

    def tensor(self, name: str, *shape: int) -> Tensor:
        """One tensor, float32."""
        out = torch.empty(shape)
        self._read(name, out)
        return out

    def linear(self, columns: int, **rows: int) -> Linear:
        """The matrices of these names, each with its number of rows, stacked into one in this order."""
        weight = torch.empty(sum(rows.values()), columns)
        self._stack("weight", rows, weight)
        if not any(self.has(f"{name}.bias") for name in rows):
            return Linear(weight)
        bias = torch.empty(weight.shape[0])
        self._stack("bias", rows, bias)
        return Linear(weight, bias)

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

    def _stack(self, kind: str, rows: dict[str, int], out: Tensor) -> None:
        start = 0
        for name, count in rows.items():
            self._read(f"{name}.{kind}", out[start : start + count])
            start += count

    def _read(self, name: str, out: Tensor) -> None:
        full = f"{self._prefix}{name}"
        found = self._file.tensor(full).shape
        if found != tuple(out.shape):
            raise self._wrong(full, found, tuple(out.shape))
        dequantise(self._file, full, out.numpy(), self._threads)
        least, most = torch.aminmax(out)  # one undefined value makes both undefined
        if not isfinite(least) or not isfinite(most):
            raise self._file.refuse(f"the tensor {full} holds values that are not numbers; it is damaged")
        self._used[full] = out.nbytes

    def _wrong(self, name: str, found: tuple[int, ...], expected: tuple[int, ...]) -> BadModel:
        texts = (" x ".join(f"{size:,}" for size in shape) for shape in (found, expected))
        return self._file.refuse("the tensor {} is {} and should be {}".format(name, *texts))
