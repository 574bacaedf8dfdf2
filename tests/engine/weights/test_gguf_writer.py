"""What the writer writes, read by gguf-py's reader and by ours."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import gguf
import numpy as np
import pytest

from engine import EngineError
from engine.weights.gguf import GgufFile
from engine.weights.gguf_writer import NewTensor, Writable, write_gguf

METADATA: dict[str, Writable] = {
    "general.architecture": "llama",
    "small": 3,
    "negative": -7,
    "large": 1 << 40,
    "large.negative": -(1 << 40),
    "half": 0.5,
    "yes": True,
    "text": "Ġ ünï \n",
    "texts": ["", "a", "日本"],
    "flags": np.array([True, False, True]),
    "counts": np.array([1, 2, 3], np.int32),
    "fractions": np.array([0.25, -1.5], np.float32),
}
VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)
TENSORS = (NewTensor("a.weight", (2, 3), "F32"), NewTensor("b", (64,), "Q8_0"))


def data(tensor: NewTensor) -> Iterable[np.ndarray]:
    """The first tensor in two pieces, the other as zeros."""
    return [VALUES[:1], VALUES[1:]] if tensor.type == "F32" else [np.zeros(tensor.size, np.uint8)]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "m.gguf"
    assert write_gguf(path, METADATA, TENSORS, data) == path.stat().st_size
    return path


def test_gguf_py_reads_every_value(written: Path):
    reader = gguf.GGUFReader(written)
    found = {key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")}
    expected = {
        key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in METADATA.items()
    }
    assert found == expected


def test_gguf_py_reads_the_tensors(written: Path):
    first, second = gguf.GGUFReader(written).tensors
    assert (first.name, second.name) == ("a.weight", "b")
    np.testing.assert_array_equal(first.data, VALUES)
    assert second.tensor_type == gguf.GGMLQuantizationType.Q8_0
    assert second.data_offset % 32 == 0


def test_our_reader_agrees(written: Path):
    with GgufFile(written) as file:
        for key, value in METADATA.items():
            if isinstance(value, np.ndarray):
                np.testing.assert_array_equal(file.metadata[key], value)
            elif isinstance(value, list):
                assert list(file.strings(key)) == value
            else:
                assert file.metadata[key] == value
        assert file.tensors["a.weight"].shape == (2, 3)
        np.testing.assert_array_equal(file.raw("a.weight").view(np.float32).reshape(2, 3), VALUES)


def test_a_file_that_fails_half_way_leaves_nothing(tmp_path: Path):
    with pytest.raises(ValueError, match="b: 3 bytes were given for 68"):
        write_gguf(
            tmp_path / "m.gguf",
            METADATA,
            TENSORS,
            lambda tensor: data(tensor) if tensor.type == "F32" else [np.zeros(3, np.uint8)],
        )
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_a_sentence(tmp_path: Path):
    with pytest.raises(EngineError, match=r"can't be written: No such file or directory\."):
        write_gguf(tmp_path / "no" / "m.gguf", METADATA, TENSORS, data)


@pytest.mark.parametrize("value", [1 << 64, -(1 << 63) - 1])
def test_a_number_too_large_is_refused(tmp_path: Path, value: int):
    with pytest.raises(ValueError, match="no whole number of the format"):
        write_gguf(tmp_path / "m.gguf", {"key": value}, (), data)


def test_rows_that_blocks_do_not_divide_are_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="rows of 33 values can't be Q8_0"):
        write_gguf(tmp_path / "m.gguf", {}, (NewTensor("a", (2, 33), "Q8_0"),), data)
