"""A model as the memory planner sees it: sizes and tensors, from files or from configurations alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from engine import models
from engine.api import BadRequest
from engine.cache.kv import KvShape
from engine.planning.footprint import Drafter
from engine.weights.config import Config
from engine.weights.dflash import from_gguf as read_drafter
from engine.weights.gguf import GgufFile
from engine.weights.sketch import TOKENS, Sketch, is_sketched, open_or_sketch
from engine.weights.source import Stored
from engine.weights.vision import VisionConfig
from engine.weights.vision import from_gguf as read_vision

MERGES = "tokenizer.ggml.merges"


@dataclass(frozen=True, slots=True)
class Subject:
    """A model as the planner sees it."""

    name: str
    config: Config
    tensors: tuple[Stored, ...]
    file_bytes: int
    merges: int  # of the tokenizer
    vision: VisionConfig | None = None
    vision_tensors: tuple[Stored, ...] = ()
    drafter: Drafter | None = None
    drafter_tensors: tuple[Stored, ...] = ()


def read(model: Path, mmproj: Path | None, drafter: Path | None, quant: str | None) -> Subject:
    """What the planner needs to know of the files."""
    if quant is not None and not any(map(is_sketched, filter(None, (model, mmproj, drafter)))):
        raise BadRequest("A storage type (--quant) goes with a config.json; a model file has its own.")
    with open_or_sketch(model, quant) as file:
        subject = _text(file)
    if mmproj is not None:
        with open_or_sketch(mmproj, quant, "clip") as file:
            subject = _with_vision(subject, file)
    if drafter is not None:
        with open_or_sketch(drafter, quant) as file:
            subject = _with_drafter(subject, file)
    return subject


def check(file: Sketch) -> None:
    """Refuse a configuration if its file would be refused."""
    match file.text("general.architecture"):
        case "clip":
            read_vision(cast(GgufFile, file))
        case "dflash":
            read_drafter(cast(GgufFile, file))
        case _:
            models.configure(cast(GgufFile, file))


def _text(file: GgufFile | Sketch) -> Subject:
    return Subject(
        name=file.text("general.name") if file.has("general.name") else file.path.stem,
        config=models.configure(cast(GgufFile, file)),
        tensors=tuple(file.tensors.values()),
        file_bytes=file.file_bytes,
        merges=_merges(file),
    )


def _merges(file: GgufFile | Sketch) -> int:
    """Merges of the tokenizer; a configuration says nothing of them, and most have about one a token."""
    if isinstance(file, Sketch):
        return len(file.strings(TOKENS))
    return len(file.strings(MERGES)) if file.has(MERGES) else 0


def _with_vision(subject: Subject, file: GgufFile | Sketch) -> Subject:
    config = read_vision(cast(GgufFile, file))
    if config.width_out != subject.config.width:
        raise file.refuse(
            f"it makes features {config.width_out:,} wide, and the model is {subject.config.width:,} wide;"
            " this vision part is for another model"
        )
    return replace(subject, vision=config, vision_tensors=tuple(file.tensors.values()))


def _with_drafter(subject: Subject, file: GgufFile | Sketch) -> Subject:
    config, of = read_drafter(cast(GgufFile, file)), subject.config
    if config.width != of.width:
        raise file.refuse(
            f"it is {config.width:,} wide, and the model is {of.width:,} wide;"
            " this drafter is for another model"
        )
    if (last := max(config.targets)) >= of.layers:
        raise file.refuse(
            f"it reads after the model's layer {last + 1}, and the model has {of.layers};"
            " this drafter is for another model"
        )
    shape = KvShape(config.layers, config.kv_heads, config.head_dim, config.window, config.local)
    drafter = Drafter(shape, config.block)
    return replace(subject, drafter=drafter, drafter_tensors=tuple(file.tensors.values()))
