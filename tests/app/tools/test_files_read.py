"""What a model is told of a file."""

from __future__ import annotations

import pytest

from app.permissions.action import Risk
from app.tool import ToolContext, ToolError
from app.tools.files_read import MOST_BYTES, read


@pytest.fixture
def context(tmp_path):
    return ToolContext(tmp_path, None, None, "chat")


async def result(context, data, name="a.txt"):
    (context.folder / name).write_bytes(data)
    return await read.run(context, {"path": name})


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"hello\n", "hello\n"),
        ("Straße 日本 😀".encode(), "Straße 日本 😀"),
        ("\ufeffmarked".encode(), "marked"),
        ("wide 日本".encode("utf-16"), "wide 日本"),
        (b"", "a.txt is empty."),
        ("has \ufffd already".encode(), "has \ufffd already"),
    ],
)
async def test_text_comes_whole(context, data, text):
    assert await result(context, data) == text


async def test_what_is_not_utf8_is_replaced_and_said(context):
    assert await result(context, "Stra\xdfe".encode("latin-1")) == (
        "Stra\ufffde\n[not all of it is UTF-8: what is not, 1 in all, is shown as \ufffd]"
    )


@pytest.mark.parametrize("data", [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"MZ\0\0", b"text\0text"])
async def test_binary_is_refused_with_its_size(context, data):
    with pytest.raises(ToolError, match=rf"not a text file \({len(data)} bytes"):
        await result(context, data)


async def test_a_long_file_is_cut_and_says_so(context):
    text = await result(context, b"x" * 50_000_000)
    assert text.startswith("x" * MOST_BYTES + "\n[cut: this is the first 32,768 of 50,000,000 bytes]")
    assert len(text) < MOST_BYTES + 100


async def test_a_cut_through_a_character_is_no_fault_of_the_file(context):
    text = await result(context, ("a" + "é" * MOST_BYTES).encode())
    assert "\ufffd" not in text and "é\n[cut:" in text
    text = await result(context, b"\xff" + ("é" * MOST_BYTES).encode())
    assert text.count("\ufffd") == 2 and "1 in all, is shown as \ufffd]\n[cut:" in text


async def test_a_file_of_just_the_limit_is_whole(context):
    assert await result(context, b"x" * MOST_BYTES) == "x" * MOST_BYTES


def test_the_call_is_described_with_the_real_path(context):
    (context.folder / "a.txt").write_text("x")
    (context.folder / "b").symlink_to("a.txt")
    first, second = read.describe(context, {"path": "a.txt"}), read.describe(context, {"path": "./b"})
    assert first.risk is Risk.LOW and first.subject == second.subject
    assert first.detail == second.detail == str(context.folder.resolve() / "a.txt")


async def test_a_hundred_thousand_files_beside_it_do_not_matter(context):
    assert await result(context, b"one", "sp ace & 'quote'.txt") == "one"
