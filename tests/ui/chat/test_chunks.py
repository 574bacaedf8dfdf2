from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ui.chat.markdown_samples import pieces, sources
from ui.chat.chunks import Chunk, as_chunk, clean, code_parts, definitions, split


def grow(parts):
    done, tail = [], ""
    for part in parts:
        more, tail = split(tail + part, final=False)
        done += more
    return done + split(tail, final=True)[0]


@given(sources(), st.lists(st.integers(0, 400), max_size=40))
@settings(max_examples=300, deadline=None)
def test_however_the_text_arrives_it_is_cut_the_same(source, cuts):
    assert grow(pieces(source, cuts)) == split(source, final=True)[0]


@given(sources())
@settings(max_examples=300, deadline=None)
def test_no_line_with_text_is_lost(source):
    chunks, rest = split(source, final=True)
    kept = [line for chunk in chunks for line in chunk.source.split("\n") if line.strip()]
    assert kept == [line for line in source.split("\n") if line.strip()]
    assert not rest.strip()


def test_paragraphs_are_cut_at_blank_lines_once_the_next_one_begins():
    assert split("one\n\n", final=False) == ([], "one\n\n")
    assert split("one\n\ntwo", final=False) == ([Chunk("one")], "two")


def test_a_fence_is_one_piece_however_many_blank_lines_are_in_it():
    source = "Look:\n```py\na\n\n\nb\n```\nafter\n\nend"
    assert [chunk.is_code for chunk in split(source, final=True)[0]] == [False, True, False, False]


def test_a_loose_list_stays_whole():
    chunks, _ = split("- a\n\n- b\n\n  more\n\n3 apples\n\nend", final=True)
    assert [chunk.source for chunk in chunks] == ["- a\n\n- b\n\n  more", "3 apples", "end"]


def test_a_fence_inside_a_list_item_does_not_end_at_its_blank_lines():
    chunks, _ = split("1. do\n   ```sh\n   a\n\n   b\n   ```\n\nthen", final=True)
    assert len(chunks) == 2


def test_an_open_fence_is_drawn_as_code_and_keeps_its_lines():
    chunk = as_chunk("```python\na = 1\nb =")
    assert chunk.is_code
    assert code_parts(chunk) == ("python", ["a = 1", "b ="])


def test_a_longer_fence_is_not_closed_by_a_shorter_one():
    chunks, _ = split("````\n```\nx\n```\n````\ny", final=True)
    assert code_parts(chunks[0]) == ("", ["```", "x", "```"])
    assert chunks[1].source == "y"


def test_definitions_are_found_and_structure_characters_removed():
    assert definitions("see [a][1]\n\n[1]: http://b.c 't'\n") == "[1]: http://b.c 't'"
    assert clean("a\r\nb\0\ufdd0\u2029c\ud800") == "a\nb\ufffd\ufffd\nc?"


def test_a_long_list_goes_in_parts_cut_between_outermost_items():
    source = "".join(f"{number}. item\n   - below\n" for number in range(1, 101))
    chunks, _ = split(source, final=True)
    assert [chunk.source.split("\n")[0] for chunk in chunks] == ["1. item", "41. item", "81. item"]
    assert grow(list(source)) == chunks
