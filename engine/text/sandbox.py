"""Chat templates come with model files, so they run fenced in: no reach, no endless loop, no huge text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, NoReturn, TypeVar

from jinja2 import Template, nodes
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

STEPS_LIMIT = 200_000  # turns of loops and calls of macros, in one rendering
SIZE_LIMIT = 32_000_000  # characters, or entries of a list
WIDTH_LIMIT = 100_000  # of any count that a template hands to a function
UNNEEDED = (
    "center",
    "format",
    "pprint",
    "urlize",
    "wordwrap",
    "xmlattr",
    "batch",
    "slice",
)  # can grow a text


T = TypeVar("T")
Loop = TypeVar("Loop", nodes.For, nodes.Macro, nodes.CallBlock)


class Refused(TemplateError):
    """What `raise_exception` says: this conversation cannot be written with this template."""


class Fence(Extension):
    """Counts steps. Also reads the `generation` block, which only marks answers for training."""

    tags = {"generation"}  # noqa: RUF012

    def __init__(self, environment: ImmutableSandboxedEnvironment) -> None:
        super().__init__(environment)
        self.steps = 0

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Read a `generation` block as its contents."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def step(self) -> str:
        """Count one turn of a loop."""
        self.steps += 1
        if self.steps > STEPS_LIMIT:
            raise SecurityError("it does not come to an end")
        return ""

    def join(self, *parts: object) -> str:
        """The `~` operator."""
        return _check_size("".join(map(str, parts)))

    def fence(self, tree: nodes.Template) -> nodes.Template:
        """Put a step into every loop and macro."""
        return _Fencing(self).visit(tree)


class _Fencing(NodeTransformer):
    def __init__(self, extension: Fence) -> None:
        self.extension = extension

    def _call(self, name: str, arguments: list[nodes.Expr], line: int) -> nodes.Call:
        return nodes.Call(self.extension.attr(name), arguments, [], None, None, lineno=line)

    def visit_For(self, node: nodes.For) -> nodes.For:
        return self._counted(node)

    def visit_Macro(self, node: nodes.Macro) -> nodes.Macro:
        return self._counted(node)

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.CallBlock:
        return self._counted(node)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Call:
        self.generic_visit(node)
        return self._call("join", node.nodes, node.lineno)

    def _counted(self, node: Loop) -> Loop:
        self.generic_visit(node)
        node.body.insert(0, nodes.ExprStmt(self._call("step", [], node.lineno), lineno=node.lineno))
        return node


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment that the field's chat templates expect."""

    intercepted_binops = frozenset(["+", "*", "%", "**"])

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Fence])
        for name in UNNEEDED:
            del self.filters[name]
        self.filters["tojson"] = to_json
        self.filters["indent"] = _bounded(self.filters["indent"])
        self.filters["replace"] = lambda text, *arguments: self.call(None, str(text).replace, *arguments)
        self.filters["join"] = _join
        del self.globals["lipsum"]
        self.globals |= {
            "raise_exception": _refuse,
            "strftime_now": _now,
        }

    @property
    def fence(self) -> Fence:
        """The extension that counts."""
        extension = self.extensions[Fence.identifier]
        assert isinstance(extension, Fence)
        return extension

    def build(self, source: str) -> Template:
        """The template, fenced."""
        return self.from_string(self.fence.fence(self.parse(source)))

    def run(self, template: Template, values: dict[str, Any]) -> str:
        """Render it within the limits."""
        self.fence.steps = 0
        parts, size = [], 0
        for part in template.generate(values):
            parts.append(part)
            size += len(part)
            if size > SIZE_LIMIT:
                raise SecurityError("its text grows without end")
        return "".join(parts)

    def unsafe_undefined(self, obj: Any, attribute: str) -> Undefined:
        """Refuse at once; Jinja would go on with nothing in its place."""
        raise SecurityError(f"it reaches for {attribute!r}")

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """An operator, if its result cannot be huge."""
        if operator == "*":
            _check_product(left, right)
        elif operator == "**" and not (abs(left) <= 1_000 and abs(right) <= 10):
            raise SecurityError("it computes a huge number")
        elif operator == "%" and isinstance(left, str):
            raise SecurityError("it formats text in a way that is not allowed")
        return _check_size(super().call_binop(context, operator, left, right))

    def call(self, context: Context | None, obj: Any, /, *arguments: Any, **named: Any) -> Any:
        """A function, if its result cannot be huge."""
        for argument in (*arguments, *named.values()):
            if isinstance(argument, int) and abs(argument) > WIDTH_LIMIT:
                raise SecurityError("it asks for a huge text")
        owner, name = getattr(obj, "__self__", None), getattr(obj, "__name__", "")
        if isinstance(owner, str) and name == "replace" and len(arguments) >= 2:
            _check_count(len(owner) + owner.count(str(arguments[0])) * len(str(arguments[1])))
        if isinstance(owner, str) and name == "join" and arguments:
            return _join(arguments[0], owner)
        if isinstance(owner, str) and name == "expandtabs":
            raise SecurityError("it widens text in a way that is not allowed")
        result = super().call(context, obj, *arguments, **named) if context else obj(*arguments, **named)
        return _check_size(result)


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as chat templates want it: nothing escaped for HTML."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _now(form: str) -> str:
    return datetime.now().strftime(form)


def _refuse(message: object) -> NoReturn:
    raise Refused(str(message))


def _bounded(function: Callable[..., str]) -> Callable[..., str]:
    def bounded(text: str, width: int | str = 4, *arguments: bool) -> str:
        if isinstance(width, int) and width > 1_000:
            raise SecurityError("it asks for a huge text")
        return _check_size(function(text, width, *arguments))

    return bounded


def _join(values: Iterable[object], separator: str = "", attribute: str | None = None) -> str:
    if attribute is not None:
        raise SecurityError("it joins in a way that is not allowed")
    texts = [str(value) for value in values]
    _check_count(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


def _check_product(left: Any, right: Any) -> None:
    for some, times in ((left, right), (right, left)):
        if isinstance(some, str | list | tuple) and isinstance(times, int):
            _check_count(len(some) * times)
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() + right.bit_length() > 256:
        raise SecurityError("it computes a huge number")


def _check_size(value: T) -> T:
    if isinstance(value, str | list | tuple | dict):
        _check_count(len(value))
    return value


def _check_count(count: int) -> None:
    if count > SIZE_LIMIT:
        raise SecurityError("its text grows without end")
