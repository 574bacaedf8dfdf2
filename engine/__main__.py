"""The engine alone: `python -m engine info | generate | tokenize | plan | synth | compile | bench`."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

from engine.api import (
    BadRequest,
    Done,
    EngineError,
    Event,
    Failed,
    Message,
    Prefill,
    Reasoning,
    ReasoningStrength,
    Request,
    Sampling,
    Text,
    Usage,
)

PLAIN = Sampling()
KV = ("f32", "f16", "bf16", "q8")
CONTEXT = 4_096  # tokens, where a file doesn't say


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 2 is a refusal, whose reason is on stderr, and 130 is Ctrl+C."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a console that can't show a sign shows a question mark
    warnings.filterwarnings("ignore", module=r"PIL\.")  # of a damaged picture we say so ourselves
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except EngineError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader has seen enough
        sys.stderr.close()
        return 0
    return 0


def info(options: argparse.Namespace) -> None:
    """Say what a model file holds, without running it."""
    from engine.weights.describe import describe
    from engine.weights.gguf import GgufFile

    with GgufFile(options.file) as file:
        facts = describe(file)
    print(_json(facts.as_dict()) if options.json else facts)


def tokenize(options: argparse.Namespace) -> None:
    """Show a text's tokens."""
    from engine.text.tokenizer import Tokenizer
    from engine.weights.gguf import GgufFile

    with GgufFile(options.file) as file:
        tokenizer = Tokenizer.from_gguf(file)
    ids = tokenizer.encode(options.text, special=options.special, bos=options.special)
    if options.json:
        print(_json({"ids": ids, "count": len(ids)}))
        return
    for token in ids:
        print(f"{token:>8} {tokenizer.token_bytes(token).decode(errors='backslashreplace')!r}")


def generate(options: argparse.Namespace) -> None:
    """Continue a text, or answer a message, as it is made."""
    from engine import Engine

    request = _request(options)
    engine = Engine(
        options.file,
        context=options.context,
        threads=options.threads,
        drafter=options.drafter,
        mmproj=options.mmproj,
        kv=options.kv,
        packs=False if options.decoded else None,
        lookup=options.lookup,
        say=partial(print, file=sys.stderr, flush=True),
    )
    try:
        request = replace(request, sampling=_sampling(options, engine.info.sampling))
        show = _show_json if options.json else _show
        for event in engine.generate(request):
            if isinstance(event, Failed):
                raise event.error
            show(event)
            if isinstance(event, Done) and options.stats:
                print(_stats(event.usage), file=sys.stderr)
    finally:
        engine.close()


def plan(options: argparse.Namespace) -> None:
    """Say what memory a model takes, the longest context that fits, and what to give up if it doesn't."""
    from engine import device
    from engine.plan import plan_memory
    from engine.planning.words import describe_plan, read_bytes

    on_card = options.vram is not None
    memory = options.vram if on_card else options.ram
    made = plan_memory(
        options.file,
        budget=read_bytes(memory) if memory is not None else device.memory_bytes(),
        place="card" if on_card else "memory",
        context=options.context,
        mmproj=options.mmproj,
        drafter=options.drafter,
        kv=options.kv,
        reserve=None if options.reserve is None else read_bytes(options.reserve),
        quant=options.quant,
    )
    print(_json(made.as_dict()) if options.json else describe_plan(made))


def compile_kernels(options: argparse.Namespace) -> None:
    """Compile what models are run with for this processor; otherwise the first to be opened waits for it."""
    from engine import device, kernels
    from engine.kernels import compiled

    if not kernels.can_run():
        print("This processor can't run what would be compiled; models run without it, more slowly.")
        return
    if not compiled.is_ready():
        with device.gentle_start():
            from engine.kernels.warm import warm
        warm(lambda step: print(f"Compiling {step.done + 1} of {step.total}: {step.words}", flush=True))
    print(f"All is compiled, in {compiled.folder()}.")


def synth(options: argparse.Namespace) -> None:
    """Write a model of random weights, for tests, measurements and planning."""
    from engine.planning.subject import check
    from engine.weights.blueprints import draw
    from engine.weights.json_facts import JsonFacts
    from engine.weights.sketch import Sketch
    from engine.weights.synth import Mixture, synthesise

    config = JsonFacts.open(options.config)
    if options.out.exists() and options.out.samefile(options.config):
        raise BadRequest("The file to write (--out) is the configuration itself.")
    check(Sketch(options.config, draw(config, options.part), Mixture.parse(options.quant)))
    size = synthesise(config, options.quant, options.out, seed=options.seed, kind=options.part)
    print(f"{options.out}: {size:,} bytes")


def bench(options: argparse.Namespace) -> None:
    """Measure how fast a model file runs on this machine, beside llama.cpp if wanted, and say so."""
    from engine import device
    from engine.bench import quality, run
    from engine.text.tokenizer import Tokenizer
    from engine.weights.describe import describe
    from engine.weights.gguf import GgufFile

    with GgufFile(options.file) as file:
        tokens = Tokenizer.from_gguf(file).encode(_prose(options.text), bos=True)
        context = describe(file).context_length or CONTEXT
    wanted = run.Options(
        options.rounds, options.against is not None, lambda said: print(said, file=sys.stderr, flush=True)
    )
    threads = device.cores() if options.threads is None else options.threads
    found = run.bench(options.file, tokens, context, threads, wanted)
    if options.quality:
        found["quality"] = quality.quality(options.file, tokens, context, threads, run.sides(wanted))
    if options.json:
        print(_json(found))
    else:
        print(run.table(found))
        if options.quality:
            print(quality.table(found["quality"]))


def _prose(path: Path | None) -> str:
    """A text; without one, what Python's own help says about its language."""
    if path is None:
        from pydoc_data.topics import topics

        return "\n\n".join(topics.values())
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise BadRequest(f"{path} can't be read as a text: {error}") from None
    if not text.strip():
        raise BadRequest(f"{path} is empty.")
    return text


def _request(options: argparse.Namespace) -> Request:
    sampling = _sampling(options, None)
    if options.prompt is not None:
        if options.system is not None or options.image:
            raise BadRequest(
                "Instructions (--system) and pictures (--image) go with a message (--chat),"
                " not with a text to continue."
            )
        return Request(prompt=options.prompt, sampling=sampling, max_tokens=options.max_tokens)
    system = () if options.system is None else (Message("system", options.system),)
    return Request(
        messages=(*system, Message("user", options.chat, pictures=tuple(map(_picture, options.image)))),
        sampling=sampling,
        max_tokens=options.max_tokens,
        reasoning=options.reasoning,
        reasoning_limit=options.reasoning_limit,
    )


def _picture(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadRequest(f"The picture {path} can't be read: {error.strerror}.") from None


def _sampling(options: argparse.Namespace, advised: Sampling | None) -> Sampling:
    """What was asked for; for the rest what the model's makers advise."""
    asked = {name: getattr(options, name) for name in Sampling.__dataclass_fields__}
    chosen = {name: value for name, value in asked.items() if value is not None}
    return replace(advised or Sampling(), **chosen)


def _show(event: Event) -> None:
    if isinstance(event, Text | Reasoning):
        print(event.text, end="", flush=True)
    elif isinstance(event, Done):
        print()


def _show_json(event: Event) -> None:
    """One event a line."""
    values: dict[str, Any] = {"event": type(event).__name__.lower()}
    match event:
        case Text() | Reasoning():
            values |= {"text": event.text, "tokens": event.tokens}
        case Prefill():
            values |= {"done": event.done, "total": event.total, "cached": event.cached}
        case Done():
            usage = {name: getattr(event.usage, name) for name in Usage.__dataclass_fields__}
            values |= {"reason": event.reason, "usage": usage}
    print(_json(values), flush=True)


def _stats(usage: Usage) -> str:
    fresh = usage.prompt_tokens - usage.cached_tokens
    drafts = (
        f"; in {usage.steps:,} steps, with {usage.drafted_tokens:,} tokens drafted and"
        f" {usage.accepted_tokens:,} of them accepted"
    )
    return (
        f"prompt: {usage.prompt_tokens:,} tokens, {usage.cached_tokens:,} of them cached, "
        f"{_pace(fresh, usage.prefill_seconds)}; reply: {usage.generated_tokens:,} tokens, "
        f"{_pace(usage.generated_tokens, usage.decode_seconds)}{drafts if usage.drafted_tokens else ''}"
    )


def _pace(tokens: int, seconds: float) -> str:
    return f"{seconds:.2f} s, {tokens / max(seconds, 1e-9):,.1f} a second"


def _json(values: dict[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m engine", description="Run a model file (GGUF) on this machine."
    )
    commands = parser.add_subparsers(title="commands", required=True)
    about = _command(commands, "info", info, "say what a model file holds")
    _add_json(about, "print one JSON object")
    _add_generate(_command(commands, "generate", generate, "continue a text or answer a message"))
    tokens = _command(commands, "tokenize", tokenize, "show a text's tokens")
    tokens.add_argument("text", help="the text")
    tokens.add_argument("--special", action="store_true", help="read control tokens in the text as such")
    _add_json(tokens, "print one JSON object")
    _add_plan(_command(commands, "plan", plan, "say what memory a model takes"))
    _add_synth(commands)
    words = "compile what models are run with for this processor"
    once = commands.add_parser("compile", help=words, description=compile_kernels.__doc__)
    once.set_defaults(run=compile_kernels)
    _add_bench(_command(commands, "bench", bench, "measure how fast a model runs"))
    return parser


def _command(commands: Any, name: str, run: Any, words: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=words, description=run.__doc__)
    command.add_argument("file", type=Path, help="the model file")
    command.set_defaults(run=run)
    return command


def _add_bench(command: argparse.ArgumentParser) -> None:
    command.add_argument("--against", choices=["llama.cpp"], help="run this in turns on the same tokens")
    command.add_argument("--rounds", type=int, default=5, help="how often all is measured (default: 5)")
    command.add_argument("--threads", type=int, help="of the processor (default: one for each core)")
    command.add_argument("--quality", action="store_true", help="measure perplexity, too; takes minutes")
    command.add_argument("--text", type=Path, help="what the tokens come from (default: Python's own help)")
    _add_json(command, "print one JSON object")


def _add_plan(command: argparse.ArgumentParser) -> None:
    command.epilog = (
        "Instead of a model file, a config.json will do. Amounts are written like 24GiB or 800MB."
    )
    where = command.add_mutually_exclusive_group()
    where.add_argument(
        "--vram", help="plan for a graphics card with this much memory, which holds weights as stored"
    )
    where.add_argument(
        "--ram", help="plan for the processor, with this much memory (default: this machine's)"
    )
    command.add_argument("--context", type=int, help="tokens (default: all that the model was trained for)")
    command.add_argument("--mmproj", type=Path, help="its vision part: a file, or the config.json")
    command.add_argument("--drafter", type=Path, help="its drafter: a file, or a config.json")
    command.add_argument("--kv", choices=KV, help="how keys and values are held")
    command.add_argument("--reserve", help="memory left to the desktop and other programs")
    command.add_argument("--quant", help="how a config.json's model would be stored, such as Q4_K_M")
    _add_json(command, "print one JSON object, with every tensor")


def _add_synth(commands: Any) -> None:
    words = "write a model of random weights"
    command = commands.add_parser("synth", help=words, description=synth.__doc__)
    command.add_argument(
        "--config", type=Path, required=True, help="a config.json, or a JSON object of GGUF keys"
    )
    command.add_argument(
        "--quant", default="Q4_K_M", help="storage, such as Q8_0 or Q4_K+Q6_K (default: Q4_K_M)"
    )
    command.add_argument("--out", type=Path, required=True, help="the file to write")
    command.add_argument("--part", help='which of several models of a config.json: "clip" is the vision part')
    command.add_argument("--seed", type=int, default=0, help="makes other weights (default: 0)")
    command.set_defaults(run=synth)


def _add_json(command: argparse.ArgumentParser, words: str) -> None:
    command.add_argument("--json", action="store_true", help=words)


def _add_generate(command: argparse.ArgumentParser) -> None:
    start = command.add_mutually_exclusive_group(required=True)
    start.add_argument("--prompt", help="text to continue as it stands")
    start.add_argument("--chat", help="a message to answer, through the model's chat template")
    command.add_argument("--system", help="instructions for the answer, with --chat")
    command.add_argument(
        "--image", type=Path, action="append", default=[], help="a picture to show, with --chat; several may"
    )
    command.add_argument("--mmproj", type=Path, help="the model's vision part: a file, or a folder")
    command.add_argument(
        "--max-tokens", type=int, help="the longest reply (default: until the context is full)"
    )
    for name, kind, words in (
        ("temperature", float, "0 always takes the likeliest token"),
        ("top-k", int, "choose among this many tokens; 0: all"),
        ("top-p", float, "choose among the likeliest tokens that make up this share; 1: all"),
        ("min-p", float, "leave out tokens below this share of the likeliest one's chance; 0: none"),
        ("repetition-penalty", float, "above 1, recent tokens become less likely"),
    ):
        default = getattr(PLAIN, name.replace("-", "_"))
        command.add_argument(f"--{name}", type=kind, help=f"{words} (default: the model's, else {default})")
    command.add_argument(
        "--reasoning", choices=get_args(ReasoningStrength), help="how hard to think, with --chat"
    )
    command.add_argument("--reasoning-limit", type=int, help="tokens after which the thinking is ended")
    command.add_argument("--seed", type=int, help="makes the reply repeatable")
    command.add_argument("--context", type=int, help="tokens that prompt and reply may have together")
    command.add_argument(
        "--drafter", type=Path, help="its drafter: a file, or a folder; the text is the same, but sooner"
    )
    command.add_argument("--threads", type=int, help="processor threads (default: one for each core)")
    command.add_argument(
        "--decoded", action="store_true", help="decode all weights: exact, but slower, and more memory"
    )
    command.add_argument("--kv", choices=KV, help="how keys and values are held (default: f16; decoded: f32)")
    command.add_argument(
        "--no-lookup",
        dest="lookup",
        action="store_false",
        help="don't propose what stands in the context; the text is the same, but later",
    )
    command.add_argument("--stats", action="store_true", help="say at the end what it took, on stderr")
    _add_json(command, "print one JSON object for each event")


if __name__ == "__main__":
    sys.exit(main())
