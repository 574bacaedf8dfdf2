"""The two real tokenizers, and their templates."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.text.template import Template
from engine.text.tokenizer import Tokenizer
from engine.weights.gguf import GgufFile


@pytest.fixture(scope="session")
def smollm2_tokenizer(smollm2: Path) -> Tokenizer:
    with GgufFile(smollm2) as file:
        return Tokenizer.from_gguf(file)


@pytest.fixture(scope="session")
def gemma3_tokenizer(gemma3: Path) -> Tokenizer:
    with GgufFile(gemma3) as file:
        return Tokenizer.from_gguf(file)


@pytest.fixture(scope="session")
def tokenizers(smollm2_tokenizer: Tokenizer, gemma3_tokenizer: Tokenizer) -> dict[str, Tokenizer]:
    return {"smollm2": smollm2_tokenizer, "gemma3": gemma3_tokenizer}


@pytest.fixture(scope="session")
def smollm2_template(smollm2: Path) -> Template:
    with GgufFile(smollm2) as file:
        return Template.from_gguf(file)


@pytest.fixture(scope="session")
def gemma3_template(gemma3: Path) -> Template:
    with GgufFile(gemma3) as file:
        return Template.from_gguf(file)


@pytest.fixture(params=["smollm2", "gemma3"])
def tokenizer(request: pytest.FixtureRequest, tokenizers: dict[str, Tokenizer]) -> Tokenizer:
    return tokenizers[request.param]
