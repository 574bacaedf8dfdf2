"""A memory plan in words, and amounts of memory as people write them."""

from __future__ import annotations

import re

from engine.api import BadRequest
from engine.plan import Layout, Plan
from engine.planning.parts import Place

UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
UNITS |= {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
UNITS |= {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}
WHERE: dict[Place, str] = {"card": "a graphics card", "memory": "main memory"}
GIB = 1 << 30


def read_bytes(text: str) -> int:
    """An amount such as "24GiB", "24G" (the same), "25.8GB" or plain bytes."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    unit = found[2].upper() if found else ""
    if not found or unit not in UNITS:
        raise BadRequest(f"{text!r} is not an amount of memory; write it like 24GiB or 800MB.")
    return int(float(found[1]) * UNITS[unit])


def describe_plan(plan: Plan) -> str:
    """The plan as a page of text."""
    asked, settled = plan.asked, plan.settled
    lines = [
        f"{plan.model}, {asked.choices.context:,} tokens of context,"
        f" with {_size(plan.budget)} of {WHERE[plan.place]}",
        "",
        *_table(plan, asked),
        "",
    ]
    if asked.fits:
        return "\n".join([*lines, f"It fits. {_greatest(asked)}"])
    lines += [f"It doesn't fit. {_greatest(asked)}", "What to give up, in this order:"]
    lines += [
        f"  {number}. {step.words} Frees {_size(step.frees)}." for number, step in enumerate(plan.steps, 1)
    ]
    if not plan.steps:
        lines[-1] = "There is nothing that could be given up."
    if not settled.fits:
        return "\n".join([*lines, f"Even then {_size(settled.needed - plan.budget)} are missing."])
    return "\n".join([*lines, "", "Then it fits:", "", *_table(plan, settled), "", _greatest(settled)])


def _table(plan: Plan, layout: Layout) -> list[str]:
    rows = [(part.words, part.bytes) for part in layout.parts if part.place == plan.place]
    free = plan.budget - layout.needed
    rows += [("together", layout.needed), ("free", free) if free >= 0 else ("missing", -free)]
    lines = [f"  {words:<74}{_size(size):>12}" for words, size in rows]
    lines.insert(-2, f"  {'':-<86}")
    aside = [part for part in layout.parts if part.place != plan.place]
    lines += [f"  {'in main memory: ' + part.words:<74}{_size(part.bytes):>12}" for part in aside]
    return lines


def _greatest(layout: Layout) -> str:
    if not layout.greatest_context:
        return "No context at all would fit."
    return f"The longest context that fits is {layout.greatest_context:,} tokens."


def _size(size: int) -> str:
    return f"{size / GIB:,.2f} GiB" if size >= GIB // 10 else f"{size / (1 << 20):,.1f} MiB"
