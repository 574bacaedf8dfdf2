"""Files that are in order: the two real ones, and all that gguf-py can write."""

import gc
import time

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, quants

from engine import BadModel
from engine.weights.ggml_types import TYPE_NAMES
from engine.weights.gguf import GgufFile, StringArray


@pytest.fixture
def written(tmp_path):
    """A file with a value of every kind and tensors of several shapes."""
    path = tmp_path / "all kinds.gguf"
    writer = GGUFWriter(path, "llama")
    writer.add_uint8("a.u8", 255)
    writer.add_int8("a.i8", -128)
    writer.add_uint16("a.u16", 65_535)
    writer.add_int16("a.i16", -32_768)
    writer.add_uint32("a.u32", 2**32 - 1)
    writer.add_int32("a.i32", -(2**31))
    writer.add_uint64("a.u64", 2**64 - 1)
    writer.add_int64("a.i64", -(2**63))
    writer.add_float32("a.f32", 0.1)
    writer.add_float64("a.f64", 0.1)
    writer.add_float32("a.nan", float("nan"))
    writer.add_bool("a.yes", True)
    writer.add_bool("a.no", False)
    writer.add_string("a.text", "naïve 🙂")
    writer.add_array("a.texts", ["", "a", "ünï", "x" * 300, "🙂"])
    writer.add_array("a.ints", [1, -2, 3])
    writer.add_array("a.floats", [0.5, -1.5])
    writer.add_array("a.flags", [True, False])
    writer.add_array("a.bytes", b"\x00\xff\x80")
    writer.add_tensor("vector", np.arange(5, dtype=np.float32))
    writer.add_tensor("matrix", np.arange(6, dtype=np.float16).reshape(2, 3))
    writer.add_tensor("cube", np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    blocks = quants.quantize(
        np.linspace(-1, 1, 128, dtype=np.float32).reshape(2, 64), GGMLQuantizationType.Q8_0
    )
    writer.add_tensor("blocks", blocks, raw_dtype=GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def assert_equals_gguf_py(path, theirs):
    with GgufFile(path) as ours:
        assert list(ours.metadata) == [key for key in theirs.fields if not key.startswith("GGUF.")]
        for key, value in ours.metadata.items():
            expected = theirs.fields[key].contents()
            if isinstance(value, StringArray):
                assert list(value) == expected
                assert value.to_bytes() == [text.encode() for text in expected]
            elif isinstance(value, np.ndarray):
                assert value.tolist() == expected
            else:
                assert (value == expected or value != value) and type(value) is type(expected), key
        assert list(ours.tensors) == [tensor.name for tensor in theirs.tensors]
        for tensor in theirs.tensors:
            info = ours.tensors[tensor.name]
            assert info.shape == tuple(int(size) for size in reversed(tensor.shape))
            assert info.type == tensor.tensor_type.name
            assert (info.offset, info.size, info.elements) == (
                tensor.data_offset,
                tensor.n_bytes,
                tensor.n_elements,
            )
            assert np.array_equal(ours.raw(tensor.name), tensor.data.reshape(-1).view(np.uint8))


@pytest.mark.parametrize("model", ["smollm2", "gemma3", "written"])
def test_all_that_a_file_holds_equals_gguf_py(model, request, gguf_py):
    path = request.getfixturevalue(model)
    assert_equals_gguf_py(path, gguf_py(path))


@pytest.mark.parametrize("alignment", [8, 64, 4_096])
def test_other_alignments(tmp_path, alignment):
    path = tmp_path / "aligned.gguf"
    writer = GGUFWriter(path, "llama")
    writer.add_custom_alignment(alignment)
    writer.add_tensor("a", np.ones(3, np.float32))
    writer.add_tensor("b", np.zeros(3, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert_equals_gguf_py(path, GGUFReader(path))


def test_version_2_reads_the_same(written):
    data = bytearray(written.read_bytes())
    data[4] = 2
    written.write_bytes(data)
    assert_equals_gguf_py(written, GGUFReader(written))


def test_type_numbers_are_those_of_ggml():
    assert {member.value: member.name for member in GGMLQuantizationType} == TYPE_NAMES


def test_strings_behave_as_a_list(written):
    with GgufFile(written) as file:
        texts = file.strings("a.texts")
        plain = ["", "a", "ünï", "x" * 300, "🙂"]
        assert len(texts) == 5 and list(texts) == plain and [texts[at] for at in range(5)] == plain
        assert texts[-1] == "🙂" and texts[1:4] == plain[1:4] and texts[::-2] == plain[::-2]
        assert "ünï" in texts and texts.index("a") == 1
        for outside in (5, -6):
            with pytest.raises(IndexError):
                texts[outside]


def test_typed_access(written):
    with GgufFile(written) as file:
        assert file.integer("a.u64") == 2**64 - 1 and file.integer("a.i64") == -(2**63)
        assert file.number("a.f64") == 0.1 and file.number("a.u8") == 255.0
        assert file.text("a.text") == "naïve 🙂"
        assert file.flag("a.yes") is True and file.flag("a.no") is False
        assert file.numbers("a.bytes").tolist() == [0, 255, 128]
        assert file.has("a.text") and not file.has("a.other")


@pytest.mark.parametrize(
    ("ask", "key", "problem"),
    [
        ("number", "a.gone", "a.gone is missing"),
        ("number", "a.text", "a.text is not a number"),
        ("number", "a.yes", "a.yes is not a number"),
        ("number", "a.nan", "a.nan is not a number"),
        ("integer", "a.f32", "a.f32 is not a whole number"),
        ("integer", "a.no", "a.no is not a whole number"),
        ("integer", "a.ints", "a.ints is not a whole number"),
        ("text", "a.u8", "a.u8 is not a text"),
        ("text", "a.texts", "a.texts is not a text"),
        ("flag", "a.u8", "a.u8 is neither true nor false"),
        ("strings", "a.ints", "a.ints is not a list of texts"),
        ("strings", "a.text", "a.text is not a list of texts"),
        ("numbers", "a.texts", "a.texts is not a list of numbers"),
        ("tensor", "a.text", "the tensor a.text is missing"),
        ("raw", "gone", "the tensor gone is missing"),
    ],
)
def test_what_is_not_there_is_named(written, ask, key, problem):
    with GgufFile(written) as file, pytest.raises(BadModel) as caught:
        getattr(file, ask)(key)
    assert str(caught.value) == f"all kinds.gguf: {problem}."


def test_nothing_can_be_written(written):
    with GgufFile(written) as file:
        with pytest.raises(ValueError, match="read-only"):
            file.raw("vector")[0] = 1
        with pytest.raises(ValueError, match="read-only"):
            file.numbers("a.ints")[0] = 1
        with pytest.raises(TypeError):
            file.metadata["a.u8"] = 1
        with pytest.raises(TypeError):
            file.tensors["a"] = None


def test_arrays_and_metadata_outlive_the_file(written):
    file = GgufFile(written)
    vector, texts, numbers = file.raw("vector"), file.strings("a.texts"), file.numbers("a.ints")
    file.close()
    file.close()
    del file
    gc.collect()
    assert vector.view("<f4").tolist() == [0, 1, 2, 3, 4]
    assert texts[4] == "🙂" and numbers.tolist() == [1, -2, 3]


def test_closing_lets_the_file_go(written):
    with GgufFile(written) as file:
        file.raw("vector")
    with pytest.raises(ValueError, match="closed"):
        file.raw("vector")


def test_raw_copies_nothing(smollm2):
    with GgufFile(smollm2) as file:
        first, second = file.raw("token_embd.weight"), file.raw("token_embd.weight")
        assert np.shares_memory(first, second)
        assert first.ctypes.data % 32 == 0


def test_a_large_vocabulary_opens_at_once(gemma3):
    """0.06 s to open and as much to list on an idle core; the limit is what a person may wait."""
    GgufFile(gemma3).close()
    started = time.perf_counter()
    with GgufFile(gemma3) as file:
        tokens = list(file.strings("tokenizer.ggml.tokens"))
    assert len(tokens) == 262_144
    assert time.perf_counter() - started < 0.6
