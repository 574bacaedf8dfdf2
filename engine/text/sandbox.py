"""Chat templates come with model files, so they run fenced in: no reach, no endless loop, no huge text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import Template
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import loopcontrols
from jinja2.filters import do_indent
from jinja2.runtime import Context, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from engine.text.fence import Fence, check_size, weigh

WIDTH_LIMIT = 100_000  # of any count that a template hands to a function
INDENT_LIMIT = 64
# Filters that no chat template needs and that can make much of little.
UNNEEDED = ("center", "format", "pprint", "urlize", "wordwrap", "xmlattr", "batch", "slice", "filesizeformat")
FORBIDDEN_METHODS = ("expandtabs", "translate")
WIDE_FORMAT = re.compile(r"\d{4,}|:[^}]*\{")


class Refused(TemplateError):
    """What `raise_exception` says: this conversation cannot be written with this template."""


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment that the field's chat templates expect."""

    intercepted_binops = frozenset(["+", "*", "%", "**"])

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Fence])
        for name in UNNEEDED:
            del self.filters[name]
        del self.globals["lipsum"]
        self.filters |= {
            "tojson": to_json,
            "indent": _indent,
            "replace": _replace,
            "join": _join,
            "string": _string,
        }
        self.globals |= {"raise_exception": _refuse, "strftime_now": _now}

    def build(self, source: str) -> Template:
        """The template, fenced in."""
        return self.from_string(self._fence.enclose(self.parse(source)))

    def run(self, template: Template, values: dict[str, Any]) -> str:
        """Render it within the limits."""
        self._fence.reset()
        return "".join(template.generate(values))

    @property
    def _fence(self) -> Fence:
        extension = self.extensions[Fence.identifier]
        assert isinstance(extension, Fence)
        return extension

    def unsafe_undefined(self, obj: Any, attribute: str) -> Undefined:
        """Refuse at once; Jinja would go on with nothing in its place."""
        raise SecurityError(f"it reaches for {attribute!r}")

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Refuse formats that make a text wide."""
        function = super().wrap_str_format(value)
        if function is not None and WIDE_FORMAT.search(value.__self__):
            raise SecurityError("it formats text in a way that is not allowed")
        return function

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """An operator, if its result cannot be huge."""
        if operator == "*":
            _check_product(left, right)
        elif operator == "**" and not (abs(left) <= 1_000 and abs(right) <= 10):
            raise SecurityError("it computes a huge number")
        elif operator == "%" and isinstance(left, str | bytes):
            raise SecurityError("it formats text in a way that is not allowed")
        result = super().call_binop(context, operator, left, right)
        if isinstance(result, str | bytes | list | tuple):
            check_size(len(result))
        return result

    def call(self, context: Context, obj: Any, /, *arguments: Any, **named: Any) -> Any:
        """A function, if its result cannot be huge."""
        for argument in (*arguments, *named.values()):
            if isinstance(argument, int) and abs(argument) > WIDTH_LIMIT:
                raise SecurityError("it asks for a huge text")
        owner, name = getattr(obj, "__self__", None), getattr(obj, "__name__", "")
        if isinstance(owner, str | bytes):
            if name in FORBIDDEN_METHODS:
                raise SecurityError(f"it calls {name!r}")
            if name == "replace" and len(arguments) >= 2:
                _check_replacement(owner, arguments[0], arguments[1])
            if name == "join" and isinstance(owner, str) and arguments:
                return _join(arguments[0], owner)
        result = super().call(context, obj, *arguments, **named)
        if isinstance(result, str | bytes | list | tuple):
            check_size(len(result))
        return result


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as chat templates want it: nothing escaped for HTML."""
    weigh(value)
    if (isinstance(indent, int) and indent > INDENT_LIMIT) or isinstance(indent, str):
        raise SecurityError("it asks for a huge text")
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _now(form: str) -> str:
    return datetime.now().strftime(form)


def _refuse(message: object) -> NoReturn:
    raise Refused(str(message))


def _indent(text: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    if (isinstance(width, int) and width > INDENT_LIMIT) or (
        isinstance(width, str) and len(width) > INDENT_LIMIT
    ):
        raise SecurityError("it asks for a huge text")
    return do_indent(text, width, first, blank)


def _replace(text: object, old: str, new: str, count: int | None = None) -> str:
    weigh(text)
    whole = str(text)
    _check_replacement(whole, old, new)
    return whole.replace(old, new, -1 if count is None else count)


def _string(value: object) -> str:
    weigh(value)
    return str(value)


def _join(values: Iterable[object], separator: str = "", attribute: str | None = None) -> str:
    if attribute is not None:
        values = (value[attribute] for value in values if isinstance(value, dict))
    texts: list[str] = []
    size = 0
    for value in values:
        size += weigh(value) + len(separator)
        check_size(size)
        texts.append(str(value))
    return separator.join(texts)


def _check_replacement(text: str | bytes, old: Any, new: Any) -> None:
    check_size(len(text) + text.count(old) * len(new))


def _check_product(left: Any, right: Any) -> None:
    for some, times in ((left, right), (right, left)):
        if isinstance(some, str | bytes | list | tuple) and isinstance(times, int):
            check_size(len(some) * times)
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() + right.bit_length() > 256:
        raise SecurityError("it computes a huge number")
