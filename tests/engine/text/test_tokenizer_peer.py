"""Token ids against llama.cpp."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden_tokens import peer_tokens
from varied_texts import varied_texts

from engine.text.tokenizer import Tokenizer

pytestmark = pytest.mark.peer


@pytest.mark.parametrize("name", ["smollm2", "gemma3"])
def test_ids_equal_llama_cpp(name: str, request, tokenizers: dict[str, Tokenizer]):
    model: Path = request.getfixturevalue(name)
    texts = varied_texts(2_000)
    differing = [
        (text, special)
        for text, wanted in zip(texts, peer_tokens(model, texts), strict=True)
        for special in (False, True)
        if tokenizers[name].encode(text, special=special) != wanted[special]
    ]
    assert len(texts) == 2_000
    assert differing == []
