"""Every part of a model in its place in a machine's memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from engine.cache.kv import SPARE, KvShape
from engine.planning import footprint
from engine.planning.footprint import Kind
from engine.planning.held import Held
from engine.planning.subject import Subject
from engine.runner import chunk_of, looked_up
from engine.weights.source import Stored

Place = Literal["card", "memory"]
TURNS = 8
PREFILL = 512  # tokens that a graphics card takes in at once
CARD_OWN = 512 << 20  # the driver's context, scratch space of matrix products, and recorded graphs
CARD_VALUE = 2  # bytes of a value between layers, on a graphics card
RESERVE: dict[Place, int] = {"card": 1 << 30, "memory": 2 << 30}  # left to the desktop and other programs
LIBRARIES = 278 << 20  # the program itself before a model is loaded: torch, above all, and LLVM
KERNELS = 69 << 20  # numba, and what it compiled
READ: tuple[Kind, ...] = ("f16", "f32")  # as kernels can read keys and values
STARTED, WORKING = 14 << 20, 28 << 20  # its threads and scratch space once it is loaded, and once it has run


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the memory: where, how much, and what for."""

    name: str
    place: Place
    bytes: int
    words: str


@dataclass(frozen=True, slots=True)
class Choices:
    """What can be had for more memory, or less."""

    context: int  # tokens
    kv: Kind
    vision: Literal["resident", "streamed"] = "resident"
    drafter: bool = True
    moved_layers: int = 0  # that the processor runs, though there is a graphics card
    turns: int = TURNS  # whose beginnings are kept
    embedding: Place = "memory"  # where the embedding lies, if it isn't the output matrix too


@dataclass(frozen=True, slots=True)
class Machine:
    """Which memory is scarce, a graphics card's or the machine's own, its bytes, and those left to others."""

    place: Place
    budget: int
    reserve: int
    packs: bool = False  # whether the processor's matrices stay as they are stored


class Inventory:
    """What a model takes on a machine, for any choices. Pure: nothing is read or allocated."""

    def __init__(self, subject: Subject, machine: Machine) -> None:
        self.subject, self.machine, self.place = subject, machine, machine.place
        parameters = sum(tensor.elements for tensor in subject.tensors) - looked_up(subject.config)
        self._held = Held(subject.tensors, subject.config, machine.packs)
        self._chunk = PREFILL if self.place == "card" else chunk_of(parameters, self._held.is_fused)

    @property
    def usual_kv(self) -> Kind:
        """How keys and values are held unless somebody asks for another way."""
        if self.place == "card":
            return "bf16"
        return "f16" if self._held.is_fused else "f32"

    def needed(self, choices: Choices) -> int:
        """Bytes of the scarce memory."""
        return sum(part.bytes for part in self.parts(choices) if part.place == self.place)

    def fits(self, choices: Choices) -> bool:
        """Whether there is that much."""
        return self.needed(choices) <= self.machine.budget

    def parts(self, choices: Choices) -> list[Part]:
        """Everything, part by part; some may be empty."""
        return [
            *self._weights(choices),
            *self._cache(choices),
            *self._vision(choices),
            *self._draft(choices),
            Part("activations", self.place, self._activations(choices), "values between layers"),
            *self._own(),
            Part("reserve", self.place, self.machine.reserve, "left to the desktop and other programs"),
        ]

    def loading(self, choices: Choices) -> int:
        """Main memory while the model is loaded: a tensor's part of the file is let go once it is read."""
        own = sum(part.bytes for part in self._own() if part.place == "memory" and part.name != "working")
        parts = zip(self.subject.tensors, self.tensors(choices), strict=True)
        at_hand = [(tensor, part.bytes) for tensor, part in parts if part.place == "memory"]
        most, held = 0, 0
        for tensor, size in sorted(at_hand, key=lambda pair: footprint.layer_of(pair[0].name) is not None):
            held += size
            most = max(most, held + tensor.size)
        return own + STARTED + most

    def _weights(self, choices: Choices) -> list[Part]:
        tensors = self.tensors(choices)
        at_hand = sum(part.bytes for part in tensors if part.place == self.place)
        elsewhere = sum(part.bytes for part in tensors if part.place != self.place)
        return [
            Part("weights", self.place, at_hand, "the model's weights"),
            Part("weights_in_memory", "memory", elsewhere, "weights that stay in main memory"),
        ]

    def tensors(self, choices: Choices) -> list[Part]:
        """The text model's tensors: the embedding is only looked up, so it may stay in main memory."""
        is_tied = self.subject.config.tied
        out = []
        for tensor in self.subject.tensors:
            layer, place = footprint.layer_of(tensor.name), self.place
            if tensor.name == footprint.EMBEDDING and not is_tied and self.place == "card":
                place = choices.embedding
            if layer is not None and layer < choices.moved_layers:
                place = "memory"
            size = tensor.size if self.place == "card" else self._held.bytes(tensor)
            out.append(Part(tensor.name, place, size, tensor.type))
        return out

    def _decoded(self, tensor: Stored) -> int:
        """Bytes of what the processor holds in float32 always: a vision part's tensors, and a drafter's."""
        return tensor.size if self.place == "card" else 4 * tensor.elements

    def _cache(self, choices: Choices) -> list[Part]:
        shape = footprint.cache_shape(self.subject.config)
        layers = range(choices.moved_layers, shape.layers)
        far = self._kv(shape, choices, (layer for layer in layers if not shape.is_local(layer)))
        near = self._kv(shape, choices, filter(shape.is_local, layers))
        moved = self._kv(shape, choices, range(choices.moved_layers))
        turns = footprint.turn_bytes(shape, choices.kv, choices.turns)
        return [
            Part("kv_global", self.place, far, "keys and values of layers that see the whole context"),
            Part(
                "kv_local",
                self.place,
                near,
                f"keys and values of layers that see {shape.window or 0:,} tokens",
            ),
            Part("kv_in_memory", "memory", moved, "keys and values of layers that the processor runs"),
            Part("kv_turns", "memory", turns, "beginnings of turns, to go on from there"),
        ]

    def _kv(self, shape: KvShape, choices: Choices, layers: Iterable[int]) -> int:
        return footprint.kv_bytes(shape, choices.kv, choices.context, self._spare, layers)

    @property
    def _spare(self) -> int:
        """Tokens that a ring has room for beyond its window, and beyond what may be taken back."""
        return self._chunk if self.place == "card" else max(SPARE, self._chunk)

    def _vision(self, choices: Choices) -> list[Part]:
        tensors = self.subject.vision_tensors
        total = sum(map(self._decoded, tensors))
        if choices.vision == "resident" or self.place != "card":
            return [Part("vision", self.place, total, "the vision part's weights")]
        blocks: dict[str, int] = {}
        for tensor in tensors:
            block = ".".join(tensor.name.split(".")[:3])
            blocks[block] = blocks.get(block, 0) + tensor.size
        window = 2 * max(blocks.values())  # one at work, and the next on its way
        return [
            Part("vision", self.place, window, "room for two of the vision part's blocks"),
            Part(
                "vision_in_memory",
                "memory",
                total,
                "the vision part's weights, brought over for each picture",
            ),
        ]

    def _draft(self, choices: Choices) -> list[Part]:
        drafter = self.subject.drafter
        if drafter is None or not choices.drafter:
            return []
        weights = sum(map(self._decoded, self.subject.drafter_tensors))
        cache = self._kv(drafter.shape, choices, range(drafter.shape.layers))
        return [
            Part("drafter", self.place, weights, "the drafter's weights"),
            Part("kv_drafter", self.place, cache, "the drafter's keys and values"),
        ]

    def _activations(self, choices: Choices) -> int:
        """A picture is encoded before the text is read, so the two share the room."""
        config, size = self.subject.config, CARD_VALUE if self.place == "card" else 4
        rated = self.subject.drafter.block if self.subject.drafter and choices.drafter else 1
        tokens = min(self._chunk, choices.context)
        if self._runs_kernels(choices):
            text = footprint.kernel_activations(config, tokens, choices.context, rated)
        else:
            text = footprint.text_activations(config, tokens, size, rated)
        if self.place == "memory" and not self._runs_kernels(
            choices
        ):  # a card's kernels read what is kept as it is, and need no masks
            text += footprint.attention_activations(config, choices.kv, tokens, choices.context)
        if self.subject.vision is None:
            return text
        return max(text, footprint.vision_activations(self.subject.vision, size))

    def _runs_kernels(self, choices: Choices) -> bool:
        return self.place == "memory" and self._held.is_fused and choices.kv in READ

    def _own(self) -> list[Part]:
        if self.place == "card":
            return [Part("workspace", "card", CARD_OWN, "the driver, scratch space and recorded graphs")]
        words = footprint.tokenizer_bytes(self.subject.config.vocab_size, self.subject.merges)
        return [
            Part("tokenizer", "memory", words, "the vocabulary"),
            Part("program", "memory", LIBRARIES, "the program itself"),
            Part("kernels", "memory", KERNELS if self._held.is_packed else 0, "what runs stored weights"),
            Part("working", "memory", WORKING, "threads and scratch space"),
        ]
