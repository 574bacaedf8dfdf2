"""Keeps a chat template from running for ever and from growing without end, by rewriting its syntax tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from jinja2 import Environment, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.visitor import NodeTransformer

STEPS_LIMIT = 200_000  # turns of loops and calls of macros, in one rendering
SIZE_LIMIT = 32_000_000  # characters, of any value and of all that is written

Loop = TypeVar("Loop", nodes.For, nodes.Macro, nodes.CallBlock)


def check_size(size: int) -> None:
    """Refuse a value of that many characters or entries."""
    if size > SIZE_LIMIT:
        raise SecurityError("its text grows without end")


def weigh(value: object, limit: int = SIZE_LIMIT) -> int:
    """About how many characters `value` has when written out; refuses what has more than `limit`."""
    weight, left = 0, [value]
    while left:
        some = left.pop()
        weight += 1
        if isinstance(some, str | bytes):
            weight += len(some)
        elif isinstance(some, dict):
            left += [*some.keys(), *some.values()]
        elif isinstance(some, list | tuple | set | frozenset):
            left += some
        if weight + len(left) > limit:
            raise SecurityError("its text grows without end")
    return weight


class Fence(Extension):
    """Counts what a template does; reads `generation` blocks too, which only mark answers for training."""

    tags = {"generation"}  # noqa: RUF012

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.steps = self.written = 0

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Read a `generation` block as its contents."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def reset(self) -> None:
        """Begin to count anew."""
        self.steps = self.written = 0

    def step(self) -> str:
        """Count one turn of a loop."""
        self.steps += 1
        if self.steps > STEPS_LIMIT:
            raise SecurityError("it does not come to an end")
        return ""

    def write(self, value: Any) -> Any:
        """Count what is written into the text, or kept to be written later."""
        self.written += weigh(value)
        check_size(self.written)
        return value

    def keep(self, value: Any) -> Any:
        """Check what a filter made; if it makes it piece by piece, every piece."""
        if isinstance(value, Iterator):
            return self._pieces(value)
        weigh(value)
        return value

    def join(self, *parts: object) -> str:
        """The `~` operator."""
        weigh(parts)
        return "".join(map(str, parts))

    def _pieces(self, values: Iterator[Any]) -> Iterator[Any]:
        total = 0
        for value in values:
            self.step()
            total += weigh(value)
            check_size(total)
            yield value

    def enclose(self, tree: nodes.Template) -> nodes.Template:
        """Put the counting into a template."""
        enclosed: nodes.Template = _Enclosing(self).visit(tree)
        return enclosed


class _Enclosing(NodeTransformer):
    def __init__(self, fence: Fence) -> None:
        self._fence = fence

    def visit_For(self, node: nodes.For) -> nodes.For:
        return self._counted(node)

    def visit_Macro(self, node: nodes.Macro) -> nodes.Macro:
        return self._counted(node)

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.CallBlock:
        return self._counted(node)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Call:
        self.generic_visit(node)
        return self._call("join", node.nodes, node)

    def visit_Filter(self, node: nodes.Filter) -> nodes.Node:
        self.generic_visit(node)
        # A filter without a value belongs to a block, whose text `write` has counted.
        return node if node.node is None else self._call("keep", [node], node)

    def visit_Output(self, node: nodes.Output) -> nodes.Output:
        self.generic_visit(node)
        node.nodes = [self._call("write", [_expression(part)], node) for part in node.nodes]
        return node

    def _counted(self, node: Loop) -> Loop:
        self.generic_visit(node)
        node.body.insert(0, nodes.ExprStmt(self._call("step", [], node), lineno=node.lineno))
        return node

    def _call(self, name: str, arguments: list[nodes.Expr], at: nodes.Node) -> nodes.Call:
        return nodes.Call(self._fence.attr(name), arguments, [], None, None, lineno=at.lineno)


def _expression(part: nodes.Expr) -> nodes.Expr:
    return nodes.Const(part.data, lineno=part.lineno) if isinstance(part, nodes.TemplateData) else part
