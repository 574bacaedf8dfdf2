"""What the command line refuses, it refuses in one sentence: what is wrong, and what was expected."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.__main__ import main
from engine.weights.gguf import GgufFile
from engine.weights.json_facts import JsonFacts
from engine.weights.synth import synthesise
from tests.engine.vision.pictures import as_png, picture
from tests.engine.weights import configs

NAN = struct.pack("<e", float("nan"))
Change = Callable[[bytearray, GgufFile], None]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, its vision part and its drafter, made as a person would make them; and those of another."""
    at = tmp_path_factory.mktemp("models")
    narrow = configs.MUSE | {"text_config": configs.MUSE_TEXT | {"hidden_size": 128}}
    wide = configs.DRAFTER | {"hidden_size": 512}
    for name, config, quant, part in (
        ("muse", configs.MUSE, "Q8_0", ()),
        ("mmproj", configs.MUSE, "Q8_0", ("--part", "clip")),
        ("drafter", configs.DRAFTER, "Q8_0", ()),
        ("narrow", narrow, "F16", ("--part", "clip")),
        ("wide", wide, "Q8_0", ()),
    ):
        (at / f"{name}.json").write_text(json.dumps(config))
        command = [
            "synth",
            "--config",
            at / f"{name}.json",
            "--quant",
            quant,
            "--out",
            at / f"{name}.gguf",
            *part,
        ]
        assert main([str(word) for word in command]) == 0
    (at / "picture.png").write_bytes(as_png(picture(90, 60)))
    return at


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    capsys.readouterr()
    assert main([str(word) for word in arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 1
    assert "internal error" not in shown.err
    return shown.err.strip()


def broken(folder: Path, name: str, change: Change) -> Path:
    source, target = folder / name, folder / f"broken-{name}"
    data = bytearray(source.read_bytes())
    with GgufFile(source) as file:
        change(data, file)
    target.write_bytes(data)
    return target


def not_a_number(name: str) -> Change:
    """In a tensor of Q8_0, the scale of its first block."""

    def change(data: bytearray, file: GgufFile) -> None:
        start = file.tensor(name).offset
        data[start : start + 2] = NAN

    return change


def behind(data: bytearray, text: str) -> int:
    """Where what follows a name in the header begins."""
    found = struct.pack("<Q", len(text)) + text.encode()
    assert data.count(found) == 1
    return data.index(found) + len(found)


def renamed(old: str, new: str) -> Change:
    def change(data: bytearray, file: GgufFile) -> None:
        end = behind(data, old)
        data[end - len(old) : end] = new.encode()

    return change


def rows(name: str, count: int) -> Change:
    """Another shape of a matrix."""
    return lambda data, file: struct.pack_into("<Q", data, behind(data, name) + 12, count)


def stored_as(name: str, kind: int) -> Change:
    return lambda data, file: struct.pack_into("<I", data, behind(data, name) + 20, kind)


def cut(share: float) -> Change:
    def change(data: bytearray, file: GgufFile) -> None:
        del data[int(len(data) * share) :]

    return change


BROKEN: dict[str, tuple[str, Change, str]] = {
    "missing": (
        "muse",
        renamed("blk.5.ffn_up.weight", "blk.5.ffn_uq.weight"),
        "the tensor blk.5.ffn_up.weight is missing.",
    ),
    "shape": (
        "muse",
        rows("blk.4.attn_v.weight", 63),
        "the tensor blk.4.attn_v.weight is 63 x 256 and should be 64 x 256.",
    ),
    "scale": (
        "muse",
        not_a_number("blk.3.attn_q.weight"),
        "the tensor blk.3.attn_q.weight holds values that are not numbers; it is damaged.",
    ),
    "type": (
        "muse",
        stored_as("blk.0.ffn_down.weight", 23),
        "the tensor blk.0.ffn_down.weight uses IQ4_XS, which Sidelight can't read yet.",
    ),
    "cut": ("muse", cut(0.5), "; it is damaged or not fully downloaded."),
    "vision, missing": (
        "mmproj",
        renamed("v.blk.1.attn_q.bias", "v.blk.1.attn_q.bia_"),
        "the tensor v.blk.1.attn_q.bias is missing.",
    ),
    "vision, shape": (
        "mmproj",
        rows("v.blk.1.attn_q.weight", 63),
        "the tensor v.blk.1.attn_q.weight is 63 x 64 and should be 64 x 64.",
    ),
    "vision, scale": ("mmproj", not_a_number("mm.1.weight"), "the tensor mm.1.weight holds values that"),
    "vision, type": ("mmproj", stored_as("mm.0.weight", 20), "the tensor mm.0.weight uses IQ4_NL"),
    "vision, cut": ("mmproj", cut(0.7), "; it is damaged or not fully downloaded."),
    "drafter, missing": (
        "drafter",
        renamed("enc.output_norm.weight", "enc.output_nor_.weight"),
        "the tensor enc.output_norm.weight is missing.",
    ),
    "drafter, shape": ("drafter", rows("fc.weight", 200), "the tensor fc.weight is 200 x 768 and should be"),
    "drafter, scale": ("drafter", not_a_number("fc.weight"), "the tensor fc.weight holds values that"),
    "drafter, type": ("drafter", stored_as("fc.weight", 21), "the tensor fc.weight uses IQ3_S"),
    "drafter, cut": ("drafter", cut(0.5), "; it is damaged or not fully downloaded."),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_by_its_tensor(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    which, change, words = BROKEN[name]
    files = {each: folder / f"{each}.gguf" for each in ("muse", "mmproj", "drafter")}
    files[which] = broken(folder, f"{which}.gguf", change)
    command = ["generate", files["muse"], "--mmproj", files["mmproj"], "--drafter", files["drafter"]]
    said = refusal(capsys, *command, "--chat", "Hi", "--threads", 1)
    assert said.startswith(f"broken-{which}.gguf: ") and words in said


def test_a_part_of_another_model_is_refused_when_it_is_loaded_and_when_it_is_planned(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    muse = folder / "muse.gguf"
    load, plan = ("generate", muse, "--chat", "Hi", "--threads", 1), ("plan", muse)
    said = refusal(capsys, *load, "--mmproj", folder / "narrow.gguf")
    assert "the tensor mm.2.weight makes features 128 wide, and should make them 256 wide" in said
    said = refusal(capsys, *load, "--drafter", folder / "wide.gguf")
    assert said == "wide.gguf: the tensor fc.weight is 512 x 1,536 and should be 256 x 768."
    assert "128 wide, and the model is 256" in refusal(capsys, *plan, "--mmproj", folder / "narrow.gguf")
    assert "512 wide, and the model is 256" in refusal(capsys, *plan, "--drafter", folder / "wide.gguf")
    assert "is not a drafter" in refusal(capsys, *plan, "--drafter", folder / "mmproj.gguf")
    assert "not the vision part" in refusal(capsys, *plan, "--mmproj", folder / "drafter.gguf")


def test_all_of_it_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Or what is refused above might be refused for something else."""
    files = ["--mmproj", folder / "mmproj.gguf", "--drafter", folder / "drafter.gguf"]
    shown = ["--image", folder / "picture.png", "--image", folder / "picture.png"]
    command = [
        "generate",
        folder / "muse.gguf",
        *files,
        *shown,
        "--chat",
        "Hi",
        "--max-tokens",
        8,
        "--threads",
        1,
    ]
    assert main([*map(str, command), "--json"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert events[-1]["usage"]["generated_tokens"] > 0
    assert main([*map(str, ["plan", folder / "muse.gguf", *files]), "--json"]) == 0
    parts = {part["name"] for part in json.loads(capsys.readouterr().out)["asked"]["parts"]}
    assert {"vision", "drafter", "kv_drafter"} <= parts


def test_a_cut_picture_is_refused_and_nothing_else_is_said(folder: Path) -> None:
    """Pillow warns of its own on the way; in a process of its own, since pytest keeps warnings."""
    from PIL import Image

    path = folder / "cut.tiff"
    Image.new("RGB", (60, 40), "red").save(path)
    path.write_bytes(path.read_bytes()[:30])
    command = ["generate", folder / "muse.gguf", "--mmproj", folder / "mmproj.gguf", "--chat", "Hi"]
    done = subprocess.run(
        [sys.executable, "-m", "engine", *map(str, command), "--threads", "1", "--image", path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "The picture is damaged or cut off, so it can't be opened.\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--vram", ""], "'' is not an amount of memory"),
        (["--ram", ""], "'' is not an amount of memory"),
        (["--quant", "Q4_K_M"], "a model file has its own"),
        (["--context", "1"], "takes 2 to 4,096"),
    ],
)
def test_what_cannot_be_planned_is_said(
    arguments: list[str], words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in refusal(capsys, "plan", folder / "muse.gguf", *arguments)


def test_a_drafters_configuration_may_be_stored_as_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["plan", folder / "muse.gguf", "--drafter", folder / "drafter.json", "--quant", "Q4_K_M"]
    assert main([str(word) for word in command]) == 0


TEXTS: list[tuple[dict[str, Any], str]] = [
    (
        {"num_hidden_layers": 10**9},
        "num_hidden_layers can't be 1,000,000,000",
    ),  # at once, and not after minutes
    ({"num_hidden_layers": 0}, "num_hidden_layers can't be 0"),
    ({"num_key_value_heads": 3}, "does not divide 8 heads"),
    ({"head_dim": 7}, "its heads are 7 wide"),
    ({"sliding_window": 0}, "sliding_window can't be 0"),
    ({"rms_norm_eps": 0}, "rms_epsilon can't be 0"),
    ({"max_position_embeddings": 0}, "context_length can't be 0"),
    ({"layer_types": ["full_attention"]}, "layer_types does not say of each of 8 layers"),
    ({"layer_types": ["some_attention"] * 8}, "layer_types does not say of each of 8 layers"),
    ({"final_logit_softcapping": -1}, "final_logit_softcapping can't be -1"),
]
DRAFTERS: list[tuple[dict[str, Any], str]] = [
    ({"num_hidden_layers": 10**9}, "num_hidden_layers can't be 1,000,000,000"),
    ({"block_size": 1}, "block_size can't be 1"),
    ({"block_size": 2_000}, "block_size can't be 2,000"),
    ({"mask_token_id": -1}, "the mask token can't be -1"),
    ({"target_layer_ids": [-1]}, "target_layers is not a list of layers"),
    ({"num_key_value_heads": 3}, "3 heads of keys don't divide 8 heads"),
    ({"layer_types": ["some_attention"] * 2}, "layer_types does not say of each of 2 layers"),
]
VISIONS: list[tuple[dict[str, Any], str]] = [
    ({"num_attention_heads": 5}, "5 vision heads don't divide a width of 64"),
    ({"pos_emb_height": 31}, "v.position_embd.weight holds 992 positions, which are not a square"),
    ({"num_hidden_layers": 10**9}, "block_count can't be 1,000,000,000"),
]


@pytest.mark.parametrize(
    ("config", "words", "option"),
    [
        *((configs.MUSE | {"text_config": configs.MUSE_TEXT | each}, words, "") for each, words in TEXTS),
        *((configs.DRAFTER | each, words, "--drafter") for each, words in DRAFTERS),
        *(
            (configs.MUSE | {"vision_config": configs.MUSE_VISION | each}, words, "--mmproj")
            for each, words in VISIONS
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_configuration_that_no_model_can_have_is_neither_written_nor_planned(
    config: dict[str, Any], words: str, option: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = folder / "wrong.json", folder / "wrong.gguf"
    path.write_text(json.dumps(config))
    part = ["--part", "clip"] if option == "--mmproj" else []
    assert words in refusal(capsys, "synth", "--config", path, "--out", out, *part)
    assert not out.exists()
    plan = ["plan", folder / "muse.json", option, path] if option else ["plan", path]
    assert words in refusal(capsys, *plan)


def test_a_drafter_that_reads_after_layers_that_are_not_there_is_not_planned(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "deep.json").write_text(json.dumps(configs.DRAFTER | {"target_layer_ids": [1, 8]}))
    said = refusal(capsys, "plan", folder / "muse.gguf", "--drafter", folder / "deep.json")
    assert "it reads after the model's layer 9, and the model has 8" in said


def test_nothing_is_written_in_place_of_what_is_no_file_or_of_the_configuration(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = folder / "muse.json"
    before = config.read_bytes()
    assert "is the configuration itself" in refusal(capsys, "synth", "--config", config, "--out", config)
    assert config.read_bytes() == before
    assert "can't be written" in refusal(capsys, "synth", "--config", config, "--out", folder)
    assert "can't be negative" in refusal(
        capsys, "synth", "--config", config, "--out", folder / "x.gguf", "--seed", -1
    )


@pytest.mark.skipif(sys.platform == "win32", reason="there are no named pipes in folders")
def test_a_pipe_is_not_replaced_by_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import os

    pipe = folder / "pipe"
    os.mkfifo(pipe)
    said = refusal(capsys, "synth", "--config", folder / "muse.json", "--out", pipe)
    assert said == f"{pipe} can't be written: it is there already, and is not a file."
    assert pipe.is_fifo()


def test_synthesise_itself_refuses_a_negative_seed(folder: Path) -> None:
    from engine import BadRequest

    with pytest.raises(BadRequest, match="can't be negative"):
        synthesise(JsonFacts(configs.MUSE, "config.json"), "Q8_0", folder / "y.gguf", seed=-1)
