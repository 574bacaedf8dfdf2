"""Every format in the folder against gguf-py, on whatever bytes there are."""

import subprocess
import sys
import zipfile
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType, quants

import engine.quant
from engine import BadModel
from engine.quant import CHUNK, find_format, format_of, formats

ALL = ["BF16", "F16", "F32", "Q2_K", "Q3_K", "Q4_0", "Q4_1", "Q4_K", "Q5_0", "Q5_1", "Q5_K", "Q6_K", "Q8_0"]


def theirs(raw: np.ndarray, name: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        return quants.dequantize(raw.reshape(1, -1), GGMLQuantizationType[name]).reshape(-1)


def assert_same_bits(ours: np.ndarray, expected: np.ndarray) -> None:
    """Not-a-number has many spellings; all else must agree to the bit, signed zeros too."""
    assert ours.dtype == np.float32 and ours.shape == expected.shape
    same = (ours.view(np.uint32) == expected.view(np.uint32)) | (np.isnan(ours) & np.isnan(expected))
    assert same.all(), f"{(~same).sum()} of {same.size} differ"


def random_blocks(name: str, count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, count * format_of(name).bytes, dtype=np.uint8)


def test_the_folder_holds_what_we_promise():
    assert sorted(formats()) == ALL


@pytest.mark.parametrize("name", ALL)
def test_sizes_are_those_of_ggml(name):
    storage = format_of(name)
    assert (storage.block, storage.bytes) == gguf.GGML_QUANT_SIZES[GGMLQuantizationType[name]]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("count", [1, 2, 3, 17, 1_001])
def test_random_bytes_decode_as_in_gguf_py(name, count):
    raw = random_blocks(name, count, seed=count)
    assert_same_bits(format_of(name).decode(raw), theirs(raw, name))


@pytest.mark.parametrize("name", ALL)
def test_parts_meet_without_a_seam(name):
    storage = format_of(name)
    raw = random_blocks(name, 2 * CHUNK // storage.block + 3)
    assert_same_bits(storage.decode(raw), theirs(raw, name))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("half", [0x0000, 0x8000, 0x0001, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x7C01])
def test_extreme_scales_decode_as_in_gguf_py(name, half):
    """Zeros, the smallest, the largest, infinities and not-a-numbers in every place that can hold a scale."""
    blocks = random_blocks(name, 64).reshape(64, -1)
    pair = np.array([half], "<u2").view(np.uint8)
    for start in range(0, min(4, blocks.shape[1] - 1), 2):
        blocks[::2, start : start + 2] = pair
        blocks[1::2, blocks.shape[1] - 2 - start : blocks.shape[1] - start] = pair
    raw = blocks.reshape(-1)
    assert_same_bits(format_of(name).decode(raw), theirs(raw, name))


@pytest.mark.parametrize("name", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "F16", "BF16"])
def test_what_gguf_py_stored_comes_back(name):
    values = np.random.default_rng(5).normal(0, 0.05, (7, 96)).astype(np.float32)
    raw = quants.quantize(values, GGMLQuantizationType[name]).view(np.uint8)
    back = format_of(name).decode(raw.reshape(-1)).reshape(values.shape)
    assert np.abs(back - values).max() < 0.02
    assert_same_bits(back.reshape(-1), quants.dequantize(raw, GGMLQuantizationType[name]).reshape(-1))


def test_a_golden_block_of_q4_1():
    """Worked out by hand: scale 0.5, minimum -1; 0..15 in the low halves, 15..0 in the high ones."""
    raw = np.frombuffer(
        np.array([0.5, -1.0], "<f2").tobytes() + bytes(low | (15 - low) << 4 for low in range(16)), np.uint8
    )
    rising = np.arange(16, dtype=np.float32) * 0.5 - 1
    assert np.array_equal(format_of("Q4_1").decode(raw), np.concatenate([rising, rising[::-1]]))


def test_unaligned_bytes_decode():
    raw = random_blocks("Q6_K", 5)
    shifted = np.empty(raw.size + 1, np.uint8)
    shifted[1:] = raw
    assert_same_bits(format_of("Q6_K").decode(shifted[1:]), format_of("Q6_K").decode(raw))


def test_an_output_of_the_wrong_size_or_kind_is_refused():
    storage, raw = format_of("Q8_0"), random_blocks("Q8_0", 2)
    for out in (np.empty(32, np.float32), np.empty(64, np.float64), np.empty((64, 2), np.float32)[:, 0]):
        with pytest.raises(ValueError, match=r"fill|float32"):
            storage.decode_into(raw, out)


def test_a_format_we_do_not_have_is_refused_by_name():
    assert find_format("IQ2_XXS") is None
    with pytest.raises(BadModel, match="IQ2_XXS, which Sidelight can't read yet"):
        format_of("IQ2_XXS")


def test_two_files_with_one_name_are_an_error(tmp_path, monkeypatch):
    (tmp_path / "twin.py").write_text(
        'NAMES, BLOCK, BYTES = ("Q4_0",), 32, 18\ndef decode(blocks, out): ...\n'
    )
    monkeypatch.setattr(engine.quant, "__path__", [*engine.quant.__path__, str(tmp_path)])
    formats.cache_clear()
    try:
        with pytest.raises(ValueError, match="two block formats are named Q4_0"):
            formats()
    finally:
        sys.modules.pop("engine.quant.twin", None)
        formats.cache_clear()


def test_the_folder_is_found_inside_an_archive(tmp_path):
    root = Path(engine.quant.__file__).parents[2]
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as packed:
        for file in [
            root / "engine/__init__.py",
            root / "engine/api.py",
            *(root / "engine/quant").glob("*.py"),
        ]:
            packed.write(file, file.relative_to(root))
    code = "import engine.quant as q; print('packed.zip' in q.__file__, *sorted(q.formats()))"
    command = [sys.executable, "-c", code]
    out = subprocess.run(
        command, env={"PYTHONPATH": str(tmp_path / "packed.zip")}, cwd=tmp_path, capture_output=True
    )
    assert out.stdout.decode().split() == ["True", *ALL], out.stderr.decode()
