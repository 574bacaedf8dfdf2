"""What a tool is: a coroutine whose hints are its schema, with a description of each call for the person."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.permissions.action import Action, Offer, Risk, Scope
from app.schema import SchemaError, check, schema_of

if TYPE_CHECKING:
    from app.observe import Observer, Reader

MOST_BYTES = 1 << 20  # of one call's arguments


class ToolError(Exception):
    """A call that cannot be carried out; the model reads the text and may try otherwise."""


class Refused(ToolError):
    """A call that no rule and no answer can allow."""


@dataclass(frozen=True)
class ToolContext:
    """What a call may use. `folder` is the granted one; `private` are our own, closed to every tool."""

    folder: Path | None
    observer: Observer | None
    reader: Reader | None
    conversation_id: str
    private: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Description:
    """One call as the person is shown it; `subject` is what a stored rule must equal."""

    headline: str
    detail: str
    facts: tuple[str, ...]
    risk: Risk
    subject: Mapping[str, Any] = field(default_factory=dict)


Describe = Callable[..., Description]
Offers = Callable[[Action], tuple[Offer, ...]]


@dataclass(frozen=True)
class Tool:
    """A tool as the model, the gate and the person see it. The hints mean what they mean in MCP."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    read_only: bool
    destructive: bool
    open_world: bool
    _function: Callable[..., Awaitable[str]]
    _describe: Describe
    _offers: Offers

    async def run(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        """Carry out a call that was judged; raises ToolError."""
        return await self._function(context, **validate(self, arguments))

    def describe(self, context: ToolContext, arguments: Mapping[str, Any]) -> Action:
        """The call as it is judged, shown, logged and run; raises ToolError, Refused if it never may be."""
        complete = validate(self, arguments)
        said = self._describe(context, **complete)
        return Action(
            tool=self.name,
            arguments=canonical(complete),
            headline=said.headline,
            detail=said.detail,
            facts=said.facts,
            risk=said.risk,
            subject=canonical(said.subject),
        )

    def offers(self, action: Action) -> tuple[Offer, ...]:
        """What the person may grant for this call; always at least once."""
        return self._offers(action)


def only_once(action: Action) -> tuple[Offer, ...]:
    """The offer of a tool that keeps no grants."""
    return (Offer(Scope.ONCE, "this call, once"),)


def tool(
    name: str,
    *,
    describe: Describe,
    offers: Offers = only_once,
    read_only: bool = False,
    destructive: bool = True,
    open_world: bool = True,
) -> Callable[[Callable[..., Awaitable[str]]], Tool]:
    """Make a tool of a coroutine `(context, ...) -> str`; its docstring is what the model is told."""

    def make(function: Callable[..., Awaitable[str]]) -> Tool:
        text = inspect.cleandoc(function.__doc__ or "")
        return Tool(
            name=name,
            description=text,
            parameters=schema_of(function),
            read_only=read_only,
            destructive=destructive and not read_only,
            open_world=open_world,
            _function=function,
            _describe=describe,
            _offers=offers,
        )

    return make


def validate(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, defaults filled in, nothing converted; raises ToolError naming field and schema."""
    try:
        complete = check(tool.parameters, arguments)
    except SchemaError as error:
        schema = json.dumps(tool.parameters, ensure_ascii=False)
        raise ToolError(f"{tool.name} was not run: {error}. Its arguments: {schema}") from error
    if len(canonical(complete).encode()) > MOST_BYTES:
        raise ToolError(f"{tool.name} was not run: its arguments are longer than {MOST_BYTES:,} bytes.")
    return complete


def canonical(value: Mapping[str, Any]) -> str:
    """One spelling for equal values: JSON with sorted keys."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
