"""The engine's contract: the frozen values that cross its border. Imports nothing of ours, and no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]
ToolChoice = Literal["auto", "none", "required"]
ReasoningStrength = Literal["low", "medium", "high", "xhigh"]
PastReasoning = Literal["none", "turn", "all"]
FinishReason = Literal["stop", "length", "cancelled", "tool_calls"]


class EngineError(Exception):
    """What the engine refuses or fails at; its text is a sentence for the person."""


class BadModel(EngineError):
    """A model file that cannot be used: missing, damaged, or of a kind we cannot run."""


class BadRequest(EngineError):
    """A request that cannot be carried out as it stands."""


class ContextFull(BadRequest):
    """The prompt, with room for a reply, is longer than the context."""

    def __init__(self, needed: int, limit: int) -> None:
        super().__init__(f"The conversation needs {needed:,} tokens, and the context holds {limit:,}.")
        self.needed, self.limit = needed, limit


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model is told of it: `parameters` is a JSON schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A complete, well-formed call the model made."""

    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation, before the chat template."""

    role: Role
    text: str
    calls: tuple[ToolCall, ...] = ()  # an assistant's
    call_id: str = ""  # a tool's: which call this answers
    name: str = ""  # a tool's: its name
    reasoning: str = ""  # an assistant's, before its text and calls
    pictures: tuple[bytes, ...] = ()  # a user's: image files (PNG, JPEG and so on), shown before the text


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is chosen. Temperature 0 is greedy; top_k 0, top_p 1, min_p 0, penalty 1 switch one off."""

    temperature: float = 0.7
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repetition_penalty: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        for name, ok in (
            ("temperature", 0 <= self.temperature <= 10),
            ("top_k", self.top_k >= 0),
            ("top_p", 0 < self.top_p <= 1),
            ("min_p", 0 <= self.min_p < 1),
            ("repetition_penalty", 0 < self.repetition_penalty <= 10),
        ):
            if not ok:
                raise BadRequest(f"{name} {getattr(self, name)} is out of range.")


@dataclass(frozen=True, slots=True)
class Request:
    """A conversation to continue. `prompt` instead of messages: raw text, no chat template."""

    messages: tuple[Message, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = "auto"
    sampling: Sampling = field(default_factory=Sampling)
    max_tokens: int | None = None  # None: until the context is full
    prompt: str | None = None
    answer_schema: Mapping[str, Any] | None = None  # a JSON schema the answer, not the reasoning, is held to
    reasoning: ReasoningStrength | None = None  # None: as the model's template has it
    reasoning_limit: int | None = None  # tokens, after which the reasoning is closed; None: no limit
    past_reasoning: PastReasoning = "turn"  # which messages' reasoning the model reads again: of this turn

    def __post_init__(self) -> None:
        if self.reasoning_limit is not None and self.reasoning_limit < 0:
            raise BadRequest(f"reasoning_limit {self.reasoning_limit} is out of range.")


@dataclass(frozen=True, slots=True)
class Prefill:
    """Prompt tokens ready so far, of how many; `cached` of them were re-used, not computed."""

    done: int
    total: int
    cached: int


@dataclass(frozen=True, slots=True)
class Text:
    """More of the answer. `tokens` made it; never half a character, never markup of a call."""

    text: str
    tokens: int = 1


@dataclass(frozen=True, slots=True)
class Reasoning:
    """More of the model's reasoning."""

    text: str
    tokens: int = 1


@dataclass(frozen=True, slots=True)
class Called:
    """The model finished a call of a tool."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class Malformed:
    """What the model wrote for a call, though it is none: it must not run. `reason` is for the model."""

    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class Usage:
    """What a generation cost. Seconds are wall time."""

    prompt_tokens: int
    cached_tokens: int
    generated_tokens: int
    prefill_seconds: float
    decode_seconds: float
    steps: int = 0  # passes that made the generated tokens: as many as those, but for what proposals spared
    drafted_tokens: int = 0  # what was proposed, by a drafter or from the context
    accepted_tokens: int = 0  # of those, what the model would have said itself


@dataclass(frozen=True, slots=True)
class Done:
    """The generation ended; the last event of every successful or cancelled one."""

    reason: FinishReason
    usage: Usage


@dataclass(frozen=True, slots=True)
class Failed:
    """The generation ended by an error; the last event of a failed one."""

    error: EngineError


Event = Prefill | Text | Reasoning | Called | Malformed | Done | Failed


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What is known of a loaded model."""

    name: str
    architecture: str
    parameters: int
    file_bytes: int
    quantisation: str  # e.g. "Q4_1, Q8_0": storage types by bytes, largest first
    context_length: int  # tokens the model was trained for
    context: int  # tokens this engine will hold
    device: str  # "CPU, 2 threads"
    knows_tools: bool = False  # whether its chat template was made for tools
    sampling: Sampling | None = None  # what its makers advise
    sees: bool = False  # whether messages may hold pictures


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes held: `weights` and `kv_cache` by the model, `other` the rest of the process (resident)."""

    weights: int
    kv_cache: int
    other: int
