"""Nothing invisible passes, and nothing of ours can be imitated."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.permissions.visible import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("git status", "git status"),
        ("Straße ÀÉ 日本語 😀", "Straße ÀÉ 日本語 😀"),
        ("inv\u202egpj.exe", "inv⟨U+202E⟩gpj.exe"),
        ("a\u2066b\u2069", "a⟨U+2066⟩b⟨U+2069⟩"),
        ("a\u200bb\ufeff", "a⟨U+200B⟩b⟨U+FEFF⟩"),
        ("\x1b[2Jx\r\x00", "⟨U+001B⟩[2Jx⟨U+000D⟩⟨U+0000⟩"),
        ("a\nb\tc", "a⏎b⇥c"),
        ("ls" + " " * 300 + "; rm -rf ~", "ls⟨300 spaces⟩; rm -rf ~"),
        ("ls" + " " * 8 + "x", "ls" + " " * 8 + "x"),
        ("x" + "\n" * 10_000 + "rm", "x⟨10000 blanks, 10000 of them line breaks⟩⏎rm"),
        ("x" + " \n" * 10_000 + "rm", "x⟨20000 blanks, 10000 of them line breaks⟩⏎rm"),
        ("\u3164\u2800\u115f\u00a0\u034f", "⟨U+3164⟩⟨U+2800⟩⟨U+115F⟩⟨U+00A0⟩⟨U+034F⟩"),
        ("\ue000\ud800\U000e0041\ufe0f", "⟨U+E000⟩⟨U+D800⟩⟨U+E0041⟩⟨U+FE0F⟩"),
        ("⟨U+202E⟩", "⟨U+27E8⟩U+202E⟨U+27E9⟩"),
        ("a" + "\u0300" * 5, "a\u0300\u0300\u0300⟨U+0300⟩⟨U+0300⟩"),
    ],
)
def test_hidden_text_is_spelt_out(text, shown):
    assert visible(text) == shown


def test_line_breaks_may_stay_behind_their_glyph():
    assert visible("a\nb", lines=True) == "a⏎\nb"


@given(st.text(alphabet=st.characters(), max_size=300))
def test_whatever_comes_in_only_what_can_be_seen_comes_out(text):
    shown = visible(text)
    for letter in shown:
        assert letter == " " or unicodedata.category(letter) not in {
            "Cc",
            "Cf",
            "Cs",
            "Co",
            "Cn",
            "Zl",
            "Zp",
            "Zs",
        }
    assert " " * 9 not in shown
    shown.encode()


@given(
    st.text(alphabet="ab⟨⟩⏎⇥\n\t\u202e U+20E", max_size=8),
    st.text(alphabet="ab⟨⟩⏎⇥\n\t\u202e U+20E", max_size=8),
)
def test_different_texts_look_different(first, second):
    assert (visible(first) == visible(second)) == (first == second)
