from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from varied_texts import varied_texts

from engine.text.detokenizer import Detokenizer
from engine.text.tokenizer import Tokenizer


def pieces(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    detokenizer = Detokenizer(tokenizer)
    return [*(detokenizer.push(token) for token in ids), detokenizer.finish()]


def test_token_by_token_equals_all_at_once(tokenizer: Tokenizer):
    for text in varied_texts(600):
        ids = tokenizer.encode(text)
        assert "".join(pieces(tokenizer, ids)) == tokenizer.decode(ids)


@given(ids=st.lists(st.integers(0, 49_151), max_size=40))
def test_any_tokens_at_all(tokenizers: dict[str, Tokenizer], ids: list[int]):
    for tokenizer in tokenizers.values():
        assert "".join(pieces(tokenizer, ids)) == tokenizer.decode(ids)


def test_never_half_a_character(tokenizer: Tokenizer):
    ids = tokenizer.encode("𓀀𓀁")
    parts = pieces(tokenizer, ids)
    assert len(ids) > 2
    assert "".join(parts) == "𓀀𓀁"
    assert "\ufffd" not in "".join(parts)
    assert "" in parts[:-1]


def test_an_unfinished_character_is_not_lost(tokenizer: Tokenizer):
    ids = tokenizer.encode("a𓀀")[:-1]
    assert pieces(tokenizer, ids)[-1] == "\ufffd"


def test_control_tokens_are_silent_unless_wanted(smollm2_tokenizer: Tokenizer):
    ids = smollm2_tokenizer.encode("a<|im_end|>b", special=True)
    end = smollm2_tokenizer.find("<|im_end|>")
    assert end is not None
    assert "".join(pieces(smollm2_tokenizer, ids)) == "ab"
    showing = Detokenizer(smollm2_tokenizer, visible=frozenset({end}))
    assert "".join(showing.push(token) for token in ids) == "a<|im_end|>b"
