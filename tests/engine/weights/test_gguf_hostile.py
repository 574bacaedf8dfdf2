"""Files that are not in order: each gives one sentence that names file and fault, at little cost."""

import os
import shutil
import struct
import time
import tracemalloc
from contextlib import contextmanager

import numpy as np
import pytest

from engine import BadModel
from engine.quant import dequantise
from engine.weights.config import llama
from engine.weights.describe import describe
from engine.weights.gguf import GgufFile, StringArray

U8, U32, BOOL, STRING, ARRAY, U64 = 0, 4, 7, 8, 9, 10
F32, Q4_K = 0, 12


def u32(value):
    return struct.pack("<I", value)


def u64(value):
    return struct.pack("<Q", value)


def text(value):
    data = value if isinstance(value, bytes) else value.encode()
    return u64(len(data)) + data


def key(name, kind, value):
    return text(name) + u32(kind) + value


def array(name, kind, count, data):
    return key(name, ARRAY, u32(kind) + u64(count) + data)


def tensor(name="t", shape=(8,), kind=F32, offset=0, dimensions=None):
    sizes = b"".join(u64(size) for size in shape)
    return (
        text(name) + u32(len(shape) if dimensions is None else dimensions) + sizes + u32(kind) + u64(offset)
    )


def file_of(keys=(), tensors=(), data=b"", *, start=b"GGUF", version=u32(3), counts=None):
    tensor_count, key_count = counts or (len(tensors), len(keys))
    head = start + version + u64(tensor_count) + u64(key_count) + b"".join(keys) + b"".join(tensors)
    return head + b"\0" * (-len(head) % 32 if tensors else 0) + data


ARCHITECTURE = key("general.architecture", STRING, text("llama"))
DATA = bytes(64)

HOSTILE = {
    "text": (b"# Model card\nThis is a fine model.", "it is not a GGUF model file"),
    "two bytes": (b"GG", "it is not a GGUF model file"),
    "magic only": (b"GGUF", "the file ends inside its version; it is damaged or not fully downloaded"),
    "big-endian": (file_of(version=struct.pack(">I", 3)), "big-endian GGUF file, which Sidelight can't read"),
    "version 1": (file_of(version=u32(1)), "it is GGUF version 1; Sidelight reads versions 2 and 3"),
    "version 4": (file_of(version=u32(4)), "it is GGUF version 4"),
    "no counts": (file_of()[:12], "ends inside its count of tensors"),
    "2^60 tensors": (
        file_of([ARCHITECTURE], counts=(2**60, 1)),
        "1,152,921,504,606,846,976 tensors, which can't be",
    ),
    "2^60 keys": (
        file_of([ARCHITECTURE], counts=(0, 2**60)),
        "1,152,921,504,606,846,976 keys, which can't be",
    ),
    "2^64 - 1 keys": (file_of(counts=(0, 2**64 - 1)), "18,446,744,073,709,551,615 keys, which can't be"),
    "more keys than there are": (
        file_of([ARCHITECTURE, key("a", U32, u32(1))], counts=(0, 3)),
        "keys, which can't be|ends inside the name of key 3",
    ),
    "string of 2^40 bytes": (
        file_of([key("a.text", STRING, u64(2**40) + bytes(40))]),
        "a.text says it is 1,099,511,627,776 bytes long",
    ),
    "string longer than the file": (
        file_of([key("a.text", STRING, u64(41) + bytes(40))]),
        "ends inside a.text; it is damaged or not fully downloaded",
    ),
    "string of 2^64 - 1 bytes": (
        file_of([key("a.text", STRING, u64(2**64 - 1) + bytes(40))]),
        "a.text says it is 18,446,744",
    ),
    "key of 2^40 bytes": (
        file_of([u64(2**40) + bytes(40)]),
        "the name of key 1 says it is 1,099,511,627,776 bytes",
    ),
    "key is not UTF-8": (file_of([key(b"a\xff\xfe", U32, u32(1))]), "the name of key 1 is not UTF-8 text"),
    "value is not UTF-8": (file_of([key("a.text", STRING, text(b"\xc3"))]), "a.text is not UTF-8 text"),
    "unknown kind of value": (
        file_of([key("a.odd", 77, u64(0))]),
        "a.odd has a value of the unknown kind 77",
    ),
    "unknown kind in a list": (
        file_of([array("a.odd", 13, 1, u64(0))]),
        "a.odd has values of the unknown kind 13",
    ),
    "list of lists": (
        file_of([array("a.nested", ARRAY, 1, u32(U8) + u64(1) + b"\0")]),
        "a.nested holds lists inside a list, which Sidelight can't read",
    ),
    "neither true nor false": (file_of([key("a.flag", BOOL, b"\x02")]), "a.flag is neither true nor false"),
    "a list of 2^62 numbers": (file_of([array("a.many", U64, 2**62, bytes(64))]), "ends inside a.many"),
    "a list of 2^60 texts": (
        file_of([array("a.many", STRING, 2**60, bytes(64))]),
        "a.many says it holds 1,152,921,504,606,846,976 texts",
    ),
    "a list with one text too few": (
        file_of([array("a.texts", STRING, 3, text("x") * 2)]),
        "ends inside a.texts",
    ),
    "a text of 2^63 in a list": (
        file_of([array("a.texts", STRING, 2, u64(2**63) + bytes(64))]),
        "ends inside a.texts",
    ),
    "a key twice": (file_of([ARCHITECTURE, ARCHITECTURE]), "the key general.architecture is there twice"),
    "a tensor twice": (
        file_of(tensors=[tensor("t"), tensor("t", offset=32)], data=DATA),
        "the tensor t is there twice",
    ),
    "a tensor past the end": (
        file_of(tensors=[tensor(offset=64)], data=DATA),
        "the file ends inside the tensor t",
    ),
    "a tensor at 2^63": (
        file_of(tensors=[tensor(offset=2**63)], data=DATA),
        "the file ends inside the tensor t",
    ),
    "no data at all": (file_of(tensors=[tensor()]), "the file ends inside the tensor t"),
    "misaligned": (
        file_of(tensors=[tensor(offset=4)], data=DATA),
        "the tensor t does not start at a multiple of 32",
    ),
    "overlapping": (
        file_of(tensors=[tensor("one", (16,)), tensor("two", offset=32)], data=DATA),
        "the tensors one and two overlap",
    ),
    "one on another": (
        file_of(tensors=[tensor("one"), tensor("two")], data=DATA),
        "the tensors one and two overlap",
    ),
    "a type we lack": (
        file_of(tensors=[tensor(shape=(256,), kind=16)], data=DATA),
        "the tensor t uses IQ2_XXS, which Sidelight can't read yet",
    ),
    "a type nobody has": (
        file_of(tensors=[tensor(kind=999)], data=DATA),
        "the tensor t has the unknown storage type 999",
    ),
    "a retired type": (file_of(tensors=[tensor(kind=4)], data=DATA), "the unknown storage type 4"),
    "no dimensions": (file_of(tensors=[tensor(shape=())], data=DATA), "the tensor t has 0 dimensions"),
    "five dimensions": (
        file_of(tensors=[tensor(shape=(1,) * 5)], data=DATA),
        "the tensor t has 5 dimensions",
    ),
    "2^32 - 1 dimensions": (
        file_of(tensors=[tensor(dimensions=2**32 - 1)], data=DATA),
        "the tensor t has 4294967295 dimensions",
    ),
    "a dimension of 0": (
        file_of(tensors=[tensor(shape=(8, 0))], data=DATA),
        "the tensor t has a dimension of 0",
    ),
    "a product beyond 64 bits": (
        file_of(tensors=[tensor(shape=(2**33, 2**33))], data=DATA),
        "the file ends inside the tensor t",
    ),
    "a product that wraps to 8": (
        file_of(tensors=[tensor(shape=(8, 2**61, 2**61, 2**6))], data=DATA),
        "the file ends inside the tensor t",
    ),
    "half a block": (
        file_of(tensors=[tensor(shape=(100, 2), kind=Q4_K)], data=bytes(288)),
        "the tensor t has rows of 100 values, which Q4_K can't hold",
    ),
    "alignment 0": (
        file_of([key("general.alignment", U32, u32(0))]),
        "general.alignment is 0, which is not a power of two",
    ),
    "alignment 24": (
        file_of([key("general.alignment", U32, u32(24))]),
        "general.alignment is 24, which is not a power of two",
    ),
    "alignment in words": (
        file_of([key("general.alignment", STRING, text("32"))]),
        "general.alignment is not a whole number",
    ),
    "one part of several": (
        file_of([key("split.count", U32, u32(2))]),
        "it is one part of a split model, which Sidelight can't read yet",
    ),
    "a name full of control characters": (
        file_of(tensors=[tensor("\x1b[2J\n" + "x" * 500, kind=999)], data=DATA),
        r"the tensor \?\[2J\?x{75}\.\.\. has the unknown",
    ),
}


@contextmanager
def measured(megabytes):
    """The block may hold no more than this at any time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < megabytes * 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file_is_refused_by_name(case, tmp_path):
    data, problem = HOSTILE[case]
    path = tmp_path / "hostile.gguf"
    path.write_bytes(data)
    with measured(8), pytest.raises(BadModel, match=problem) as caught:
        GgufFile(path)
    assert str(caught.value).startswith("hostile.gguf: ") and str(caught.value).endswith(".")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


def test_the_same_file_without_its_fault_opens(tmp_path):
    """What the cases above are built from is sound: they fail for what they say."""
    path = tmp_path / "sound.gguf"
    keys = [
        ARCHITECTURE,
        key("a.empty", STRING, text("")),
        key("split.count", U32, u32(1)),
        array("a.none", STRING, 0, b""),
        array("a.no numbers", U64, 0, b""),
        array("a.bytes", STRING, 2, text(b"\xff") + text("ok")),
    ]
    path.write_bytes(file_of(keys, [tensor("one"), tensor("two", offset=32)], DATA))
    with GgufFile(path) as file:
        assert file.text("a.empty") == "" and list(file.strings("a.none")) == []
        assert file.numbers("a.no numbers").size == 0
        assert file.strings("a.bytes").to_bytes() == [b"\xff", b"ok"] and file.strings("a.bytes")[1] == "ok"
        with pytest.raises(BadModel, match=r"^sound\.gguf: a\.bytes holds a text that is not UTF-8\.$"):
            list(file.strings("a.bytes"))
        assert dequantise(file, "two").tolist() == [0.0] * 8


def test_a_huge_file_that_claims_one_text_of_8_gb(tmp_path):
    path = tmp_path / "sparse.gguf"
    path.write_bytes(file_of([array("a.many", STRING, 1, u64(2**33 - 200))]))
    os.truncate(path, 2**33)
    with measured(1), pytest.raises(BadModel, match=r"a\.many is larger than Sidelight reads"):
        GgufFile(path)


def test_a_list_as_long_as_we_read_takes_seconds_at_most(tmp_path):
    path = tmp_path / "sparse.gguf"
    path.write_bytes(file_of([array("a.many", STRING, 2**22, b"")]))
    os.truncate(path, 2**33)
    started = time.perf_counter()
    with GgufFile(path) as file:
        assert len(file.strings("a.many")) == 2**22
    assert time.perf_counter() - started < 10


def test_paths_that_are_no_model(tmp_path):
    (tmp_path / "empty.gguf").touch()
    os.mkfifo(tmp_path / "pipe.gguf")
    (tmp_path / "loop.gguf").symlink_to(tmp_path / "loop.gguf")
    for name, problem in {
        "gone.gguf": "There is no file .*gone.gguf",
        "empty.gguf/inside.gguf": "There is no file",
        "": "is not a file",
        "empty.gguf": "empty.gguf is empty",
        "pipe.gguf": "pipe.gguf is not a file",
        "loop.gguf": "loop.gguf can't be opened: ",
        "x" * 300: "can't be opened: File name too long",
        "nul\0.gguf": "can't be opened",
    }.items():
        with pytest.raises(BadModel, match=problem):
            GgufFile(tmp_path / name)


@pytest.mark.parametrize("closed", ["file", "folder"])
def test_no_permission(tmp_path, closed):
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "model.gguf"
    path.write_bytes(file_of([ARCHITECTURE]))
    (path if closed == "file" else folder).chmod(0)
    is_root = os.geteuid() == 0
    try:
        if is_root:  # whom nothing stops
            os.seteuid(65_534)
        with pytest.raises(BadModel, match=r"model\.gguf can't be opened: permission denied\.$"):
            GgufFile(path)
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o700)


def use(path):
    """Open a file and touch all it holds; True if nothing was wrong with it."""
    try:
        with GgufFile(path) as file:
            for value in file.metadata.values():
                if isinstance(value, StringArray):
                    list(value)
            for name in file.tensors:
                dequantise(file, name)
            str(describe(file))
            llama(file)
    except BadModel as error:
        assert str(error).startswith(path.name) and len(str(error)) < 400
        return False
    return True


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A whole small model: every kind of value, a config that reads, tensors of two formats."""
    whole = {"block_count": 1, "context_length": 64, "embedding_length": 32, "feed_forward_length": 64}
    whole |= {"attention.head_count": 4, "attention.head_count_kv": 2}
    keys = [ARCHITECTURE, *(key(f"llama.{name}", U32, u32(value)) for name, value in whole.items())]
    keys += [
        key(f"llama.{name}", 6, struct.pack("<f", value))
        for name, value in (("rope.freq_base", 10_000.0), ("attention.layer_norm_rms_epsilon", 1e-5))
    ]
    keys += [key("a.flag", BOOL, b"\1"), array("a.ints", U32, 3, u32(1) * 3), key("a.big", U64, u64(2**50))]
    keys += [array("tokenizer.ggml.tokens", STRING, 4, text("a") + text("é") + text("") + text("word"))]
    tensors = [
        tensor("token_embd.weight", (32, 4), 8),
        tensor("blk.0.attn_norm.weight", (32,), F32, 160),
        tensor("output.weight", (32, 4), 3, 288),
    ]
    path = tmp_path_factory.mktemp("small") / "small.gguf"
    path.write_bytes(file_of(keys, tensors, bytes(368)))
    assert use(path)
    return path


def test_cut_anywhere_it_is_refused(small, tmp_path):
    whole, path = small.read_bytes(), tmp_path / "cut.gguf"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert not use(path), f"{length} of {len(whole)} bytes pass for a whole model"


def test_bytes_changed_at_random_never_crash_it(small, tmp_path):
    whole, path, rng = (
        np.frombuffer(small.read_bytes(), np.uint8),
        tmp_path / "changed.gguf",
        np.random.default_rng(1),
    )
    outcomes = set()
    for _ in range(3_000):
        changed = whole.copy()
        for at in rng.integers(0, whole.size, rng.integers(1, 4)):
            changed[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, int(rng.integers(256))])
        path.write_bytes(changed.tobytes())
        outcomes.add(use(path))
    assert outcomes == {True, False}


def test_every_byte_of_the_description_set_to_its_extremes(small, tmp_path):
    whole, path = small.read_bytes(), tmp_path / "changed.gguf"
    for at in range(len(whole) - 368):
        for value in (0, 0xFF):
            path.write_bytes(whole[:at] + bytes([value]) + whole[at + 1 :])
            use(path)


def test_a_real_file_cut_or_changed(smollm2, tmp_path):
    path, size = tmp_path / "real.gguf", smollm2.stat().st_size
    rng = np.random.default_rng(2)
    with smollm2.open("rb") as whole, path.open("wb") as head:
        head.write(whole.read(1_785_664))  # all before the first tensor
    for length in rng.integers(0, size, 25):
        shutil.copy(path, tmp_path / "cut.gguf")
        os.truncate(tmp_path / "cut.gguf", int(length))
        with pytest.raises(
            BadModel, match=r"damaged or not fully downloaded|which can't be|not a GGUF|is empty"
        ):
            GgufFile(tmp_path / "cut.gguf")
    os.truncate(path, size)
    GgufFile(path).close()
    with path.open("r+b") as file:
        for at in rng.integers(0, 1_785_664, 30):
            file.seek(at)
            before = file.read(1)
            for new in (bytes([int(rng.integers(256))]), before):
                file.seek(at)
                file.write(new)
                file.flush()
                try:
                    with GgufFile(path) as opened:
                        opened.strings("tokenizer.ggml.tokens").to_bytes()
                except BadModel as error:
                    assert new != before and str(error).startswith("real.gguf: ")


LISTS = {
    "short": ["a", "", "bc"] * 40_000,  # more than a window
    "long ones": ["a" * 255, "b" * 256, "c", "d" * 70_000, "e"] * 5,
    "zero bytes": ["\0" * count for count in range(20)] * 300,
    "what looks like lengths": ["x", "\3\0\0\0\0\0\0\0abc", "\1" * 9, "y\0\0\0\0\0\0\0"] * 3_000,
    "none": [],
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_texts_are_read_as_they_are_whatever_is_in_them(name, tmp_path):
    texts, path = LISTS[name], tmp_path / "texts.gguf"
    keys = [array("a.texts", STRING, len(texts), b"".join(map(text, texts))), key("a.after", U32, u32(7))]
    path.write_bytes(file_of([ARCHITECTURE, *keys]))
    with GgufFile(path) as file:
        assert (
            file.strings("a.texts").to_list()
            == texts
            == list(map(bytes.decode, file.strings("a.texts").to_bytes()))
        )
        assert file.integer("a.after") == 7
