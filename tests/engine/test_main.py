import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from engine.__main__ import main
from tests.engine import tiny


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    tensors = tiny.weights(tiny.LLAMA)
    tensors["token_embd.weight"][:3] = 0  # it never ends its answer by itself
    shape = replace(tiny.LLAMA, context=100_000)
    return str(tiny.write(tmp_path_factory.mktemp("model") / "tiny.gguf", shape, tensors))


def test_info_says_what_the_file_holds(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", model]) == 0
    assert "llama" in capsys.readouterr().out
    assert main(["info", model, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["architecture"], facts["layers"], facts["context_length"]) == ("llama", 2, 100_000)


def test_tokens_are_shown(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tokenize", model, "a<|im_end|>", "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["count"] == len(plain["ids"]) == 11
    assert main(["tokenize", model, "a<|im_end|>", "--special"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[1].split() == ["2", "'<|im_end|>'"]


def test_a_text_is_continued_and_a_seed_repeats_it(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["generate", model, "--prompt", "Once upon a time", "--max-tokens", "12", "--threads", "1"]
    texts = []
    for seed in ("4", "4", "5"):
        assert main([*command, "--temperature", "2", "--seed", seed]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != texts[2]


def test_a_message_is_answered_as_events_and_accounted_for(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["generate", model, "--chat", "Hello", "--system", "Be kind.", "--max-tokens", "5"]
    assert main([*command, "--temperature", "0", "--threads", "1", "--json", "--stats"]) == 0
    shown = capsys.readouterr()
    events = [json.loads(line) for line in shown.out.splitlines()]
    assert {event["event"] for event in events} == {"prefill", "text", "done"}
    assert events[-1]["reason"] == "length"
    assert events[-1]["usage"]["generated_tokens"] == sum(event.get("tokens", 0) for event in events) == 5
    assert "reply: 5 tokens" in shown.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--prompt", "a", "--temperature", "99"], "temperature 99.0 is out of range"),
        (["--prompt", "a" * 600, "--context", "600"], "needs 601 tokens"),
        (["--prompt", "a", "--context", "999999"], "doesn't fit"),
        (["--prompt", "a", "--system", "Be kind."], "--chat"),
    ],
)
def test_a_refusal_is_one_sentence(
    model: str, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", model, *arguments, "--threads", "1"]) == 2
    shown = capsys.readouterr()
    assert words in shown.err
    assert len(shown.err.splitlines()) == 1
    assert shown.out == ""


@pytest.mark.parametrize("command", ["info", "generate", "tokenize"])
def test_a_file_that_is_no_model_is_one_sentence(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = tmp_path / "notes.gguf"
    notes.write_text("Buy milk.")
    rest = {"info": [], "generate": ["--prompt", "a"], "tokenize": ["a"]}[command]
    for file in (notes, tmp_path / "missing.gguf", tmp_path):
        assert main([command, str(file), *rest]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_what_needs_no_model_in_memory_does_not_load_torch(model: str) -> None:
    code = (
        "import sys; from engine.__main__ import main\n"
        f"assert main(['info', {model!r}]) == 0 and main(['tokenize', {model!r}, 'x']) == 0\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends Ctrl+C to a console, not to a process")
def test_ctrl_c_ends_cleanly(model: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "engine", "generate", model, "--prompt", "a", "--threads", "1"]
    with (
        (tmp_path / "out").open("wb") as out,
        subprocess.Popen(
            [*command, "--temperature", "2", "--context", "99999", "--json"],
            stdout=out,
            stderr=subprocess.PIPE,
        ) as process,
    ):
        try:
            deadline = time.monotonic() + 60
            while b"text" not in (tmp_path / "out").read_bytes() and time.monotonic() < deadline:
                time.sleep(0.005)
            os.kill(process.pid, signal.SIGINT)
            _, errors = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 130
    assert errors == b""
