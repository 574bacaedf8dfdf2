"""Turns model files and tokens into tokens. No Qt, no asyncio, no settings, no network.

Importing this costs nothing: `Engine` brings torch in only when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.api import (
    BadModel,
    BadRequest,
    Called,
    ContextFull,
    Done,
    EngineError,
    Event,
    Failed,
    Malformed,
    Memory,
    Message,
    ModelInfo,
    Prefill,
    Reasoning,
    Request,
    Sampling,
    Text,
    ToolCall,
    ToolSpec,
    Usage,
)

if TYPE_CHECKING:
    from engine.engine import Engine, Ticket
    from engine.plan import Plan, plan_memory

__all__ = [
    "BadModel",
    "BadRequest",
    "Called",
    "ContextFull",
    "Done",
    "Engine",
    "EngineError",
    "Event",
    "Failed",
    "Malformed",
    "Memory",
    "Message",
    "ModelInfo",
    "Plan",
    "Prefill",
    "Reasoning",
    "Request",
    "Sampling",
    "Text",
    "Ticket",
    "ToolCall",
    "ToolSpec",
    "Usage",
    "plan_memory",
]


def __getattr__(name: str) -> Any:
    if name in ("Engine", "Ticket"):
        from engine import device

        with device.gentle_start():
            from engine import engine

        return getattr(engine, name)
    if name in ("Plan", "plan_memory"):
        from engine import device

        with device.gentle_start():
            from engine import plan

        return getattr(plan, name)
    raise AttributeError(f"module 'engine' has no attribute {name!r}")
