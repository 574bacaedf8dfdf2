"""A model ready to answer: what the engine thread brings into memory, once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch

from engine import device, kernels, models
from engine.api import BadRequest, ModelInfo, Request
from engine.cache.prefix import Prefixes
from engine.cache.storage import STORAGES, Storage, usual
from engine.draft.dflash import DFlash
from engine.kernels import compiled, warm
from engine.kernels.layouts import can_pack
from engine.layers.decoder import Decoder
from engine.models import dflash
from engine.runner import Runner, looked_up
from engine.sequence import Job, Sequence
from engine.text.dialogue import Dialogue
from engine.text.template import Template
from engine.text.tokenizer import Tokenizer
from engine.vision.features import VisionEncoder
from engine.weights.config import Config
from engine.weights.describe import Description, describe
from engine.weights.gguf import GgufFile
from engine.weights.safetensors import SafetensorsFolder

CONTEXT = 8_192  # tokens, unless asked for otherwise or the model was trained for fewer
KEPT_BYTES = 1 << 30  # of finished sequences' keys and values, and at most
MOST_THREADS = 256
KEPT_SHARE = 1 / 8  # of the machine's memory


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """A model, its tokenizer and template, and what it remembers of earlier requests."""

    info: ModelInfo
    weight_bytes: int
    runner: Runner
    tokenizer: Tokenizer
    template: Template
    prefixes: Prefixes
    vision: VisionEncoder | None = None

    def count(self, text: str) -> int:
        """Tokens of a text by itself."""
        return self.tokenizer.count(text)

    def dialogue(self, request: Request) -> Dialogue:
        """The request as tokens, and the reader of its answer."""
        measure = None if self.vision is None else self.vision.tokens
        return Dialogue(self.tokenizer, self.template, request, measure)

    def sequence(self, job: Job) -> Sequence:
        """A job, ready for its first step."""
        return Sequence(job, self.dialogue(job.request), self.runner, self.prefixes, self.vision)


def load(
    path: Path,
    context: int | None,
    threads: int | None,
    kv: str | None = None,
    drafter: Path | None = None,
    mmproj: Path | None = None,
    packs: bool | None = None,
    lookup: bool = True,
    say: Callable[[str], None] = lambda _: None,
) -> Loaded:
    """Read a model file, on the thread that will run it: torch's own threads belong to their caller.

    `kv` is how keys and values are kept: see `engine.cache.storage`. `drafter`, and `mmproj`, what
    the model sees with: a file, or a folder. `packs`: whether matrices stay as they are stored; None: if the
    processor can run that. `lookup`: see `Runner`. `say` is told in a sentence what takes long, if anything.
    """
    if kv is not None and kv.upper() not in STORAGES:
        known = ", ".join(name.lower() for name in STORAGES)
        raise BadRequest(f"Keys and values can't be kept as {kv}; it can be one of {known}.")
    threads = device.cores() if threads is None else threads
    if not 1 <= threads <= MOST_THREADS:
        raise BadRequest(f"{threads} threads can't be; it takes 1 to {MOST_THREADS}.")
    torch.set_num_threads(threads)
    with GgufFile(path) as file, torch.inference_mode(), ThreadPoolExecutor(1, "words") as aside:
        words = aside.submit(lambda: (Tokenizer.from_gguf(file), Template.from_gguf(file)))
        context, packs = _context(models.configure(file), context), kernels.chosen(packs)
        if packs and any(can_pack(tensor.type, tensor.shape) for tensor in file.tensors.values()):
            _prepare(say)
        config, model, weight_bytes = models.load(file, threads, packs=packs)
        facts = describe(file)
        tokenizer, template = words.result()
    storage = usual(model.fused is not None) if kv is None else STORAGES[kv.upper()]
    helper, helper_bytes = (None, 0)
    if drafter is not None:
        helper, helper_bytes = _drafter(drafter, threads, model, context, storage)
    vision = None if mmproj is None else VisionEncoder.open(mmproj, config.width, threads)
    return Loaded(
        info=_info(facts, config, context, threads, template.shows_tools, vision is not None),
        weight_bytes=weight_bytes + helper_bytes + (0 if vision is None else vision.weight_bytes),
        runner=Runner(model, context, facts.parameters - looked_up(config), storage, helper, lookup),
        tokenizer=tokenizer,
        template=template,
        prefixes=Prefixes(min(KEPT_BYTES, int(psutil.virtual_memory().total * KEPT_SHARE))),
        vision=vision,
    )


def _prepare(say: Callable[[str], None]) -> None:
    """Compile the kernels, if that hasn't been done yet."""
    if not compiled.is_ready():
        say(warm.NOTICE)
        warm.warm()


def _drafter(path: Path, threads: int, model: Decoder, context: int, storage: Storage) -> tuple[DFlash, int]:
    """What proposes tokens to the model, and how many bytes its weights take."""
    with SafetensorsFolder(path) if path.is_dir() else GgufFile(path) as file, torch.inference_mode():
        made, size = dflash.load(file, threads, model)
    return DFlash(made, context, storage), size


def _context(config: Config, wanted: int | None) -> int:
    if wanted is None:
        return min(config.context_length, CONTEXT)
    if not 2 <= wanted <= config.context_length:
        raise BadRequest(
            f"A context of {wanted:,} tokens doesn't fit; the model takes 2 to {config.context_length:,}."
        )
    return wanted


def _info(
    facts: Description, config: Config, context: int, threads: int, knows_tools: bool, sees: bool
) -> ModelInfo:
    return ModelInfo(
        name=facts.name,
        architecture=config.architecture,
        parameters=facts.parameters,
        file_bytes=facts.file_bytes,
        quantisation=facts.quantisation,
        context_length=config.context_length,
        context=context,
        device=device.describe(threads),
        knows_tools=knows_tools,
        sampling=models.advised(config.architecture),
        sees=sees,
    )
