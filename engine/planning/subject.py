"""A model as the memory planner sees it: sizes and tensors, from files or from configurations alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from engine import models
from engine.cache.kv import KvShape
from engine.planning.footprint import Drafter
from engine.weights.config import LAYERS_LIMIT, Config, Keys
from engine.weights.gguf import GgufFile
from engine.weights.sketch import TOKENS, Sketch, open_or_sketch
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
    with open_or_sketch(model, quant) as file:
        subject = _text(file)
    if mmproj is not None:
        with open_or_sketch(mmproj, quant, "clip") as file:
            subject = _with_vision(subject, file)
    if drafter is not None:
        with open_or_sketch(drafter, quant) as file:
            subject = _with_drafter(subject, file)
    return subject


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
    keys = Keys(file, file.text("general.architecture"))
    if not keys.has("block_size"):
        raise file.refuse("it is not a drafter (a dflash file)")
    if (width := keys.count("embedding_length")) != subject.config.width:
        raise file.refuse(
            f"it is {width:,} wide, and the model is {subject.config.width:,} wide;"
            " this drafter is for another model"
        )
    layers = keys.count("block_count", limit=LAYERS_LIMIT)
    shape = KvShape(
        layers,
        keys.count("attention.head_count_kv"),
        keys.count("attention.key_length"),
        keys.count("attention.sliding_window"),
        (True,) * layers,
    )
    drafter = Drafter(shape, keys.count("block_size"))
    return replace(subject, drafter=drafter, drafter_tensors=tuple(file.tensors.values()))
