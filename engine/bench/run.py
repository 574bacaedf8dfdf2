"""All measures of one file, in rounds: what `python -m engine bench` reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.api import BadRequest
from engine.bench import machine
from engine.bench.bandwidth import Memory
from engine.bench.figures import Spread, ratios
from engine.bench.measures import WIDTHS, Plan, chosen
from engine.bench.worker import NAMES, Side, Worker, require_theirs

FEWEST_ROUNDS = 1


@dataclass(frozen=True, slots=True)
class Options:
    """What is asked of a benchmark besides the file."""

    rounds: int
    against_theirs: bool
    say: Callable[[str], None]  # where it is


def bench(file: Path, tokens: Sequence[int], context: int, threads: int, options: Options) -> dict[str, Any]:
    """What both engines, or ours alone, have taken; `tokens` are the text's, `context` is the model's."""
    if options.rounds < FEWEST_ROUNDS:
        raise BadRequest(f"{options.rounds} rounds measure nothing; it takes {FEWEST_ROUNDS} at least.")
    if options.against_theirs:
        require_theirs()
    plan, order = Plan.fitting(tokens, context), sides(options)
    memory, seconds = Memory(threads), {side: dict[str, list[list[float]]]() for side in order}
    read: list[float] = []
    with ExitStack() as stack:
        workers, first = dict[Side, Worker](), dict[Side, float]()
        for side in order:
            workers[side] = stack.enter_context(Worker(side, file, threads, plan))
            first[side] = workers[side].first()
        for number in range(options.rounds):
            options.say(f"round {number + 1} of {options.rounds}")
            read.append(memory.measure())
            for name in chosen(plan):
                for side in order if number % 2 == 0 else order[::-1]:
                    seconds[side].setdefault(name, []).append(workers[side].measure(name))
        found: dict[str, Any] = {
            "file": file.name,
            "file_bytes": file.stat().st_size,
            "threads": threads,
            "rounds": options.rounds,
            "machine": asdict(machine.look()),
            "bandwidth": asdict(Spread.of(read)),
        }
        for side in order:
            found[NAMES[side]] = _engine(workers[side], first[side], seconds[side])
        ours = found[NAMES["ours"]]
        if (size := workers["ours"].bytes_per_token) > 0:
            ours["bytes_per_token"] = size
            ours["share_of_bandwidth"] = size * ours["decode"]["median"] / found["bandwidth"]["median"]
        if options.against_theirs:
            found["ratios"] = _ratios(ours, found[NAMES["theirs"]])
    return found


def sides(options: Options) -> list[Side]:
    """Who is measured."""
    return ["ours", "theirs"] if options.against_theirs else ["ours"]


def _engine(worker: Worker, first: float, seconds: dict[str, list[list[float]]]) -> dict[str, Any]:
    """Tokens a second, and what wider steps cost in steps of one token."""
    out: dict[str, Any] = {
        "version": worker.version,
        "features": worker.features,
        "seconds_to_open": worker.seconds,
        "seconds_from_start_to_first_token": first,
        "peak_bytes": worker.peak(),
    }
    for name, rounds in seconds.items():
        if name == "widths":
            steps = [[each / one for each in more] for one, *more in rounds]
            out["steps"] = {
                str(width): asdict(Spread.of(column))
                for width, column in zip(WIDTHS[1:], zip(*steps, strict=True), strict=True)
            }
        else:
            out[name] = asdict(Spread.of([1 / one for (one,) in rounds]))
    return out


def _ratios(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    return {
        name: asdict(ratios(Spread(**ours[name]), Spread(**theirs[name])))
        for name in ("decode", "prefill", "decode_far")
        if name in ours
    }


def table(found: dict[str, Any]) -> str:
    """The same for people."""
    names = [name for name in NAMES.values() if name in found]
    rows = [["", *names, *(["ratio"] if "ratios" in found else [])]]
    words = {
        "decode": "generating, tokens/s",
        "prefill": "reading a prompt, tokens/s",
        "decode_far": "generating after 4,096, tokens/s",
    }
    for name, label in words.items():
        if name not in found[names[0]]:
            continue
        values = [f"{found[side][name]['median']:,.1f}" for side in names]
        if "ratios" in found:
            values.append(f"{found['ratios'][name]['median']:.2f}")
        rows.append([label, *values])
    rows.extend(
        [f"a step of {width} tokens, in steps of one", *(_steps(found[side], width) for side in names)]
        for width in found[names[0]]["steps"]
    )
    rows.append(["opening, s", *(f"{found[side]['seconds_to_open']:.2f}" for side in names)])
    first = "seconds_from_start_to_first_token"
    rows.append(["start to first token, s", *(f"{found[side][first]:.2f}" for side in names)])
    rows.append(["most memory, MB", *(f"{found[side]['peak_bytes'] / 1e6:,.0f}" for side in names)])
    widest = [max(len(row[at]) for row in rows if at < len(row)) for at in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(widest[at]) if at == 0 else cell.rjust(widest[at]) for at, cell in enumerate(row)
        ).rstrip()
        for row in rows
    ]
    speed = f"memory is read at {found['bandwidth']['median'] / 1e9:.1f} GB/s"
    if "share_of_bandwidth" in found[names[0]]:
        speed += f"; weights alone take {found[names[0]]['share_of_bandwidth']:.0%} of it while generating"
    head = f"{found['file']}, {found['threads']} threads, medians of {found['rounds']} rounds"
    return "\n".join([head, found["machine"]["cpu"], *lines, speed])


def _steps(engine: dict[str, Any], width: str) -> str:
    return f"{engine['steps'][width]['median']:.2f}"
