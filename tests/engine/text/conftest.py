"""The two real tokenizers, and their templates."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.text.template import Template
from engine.text.tokenizer import Tokenizer
from engine.weights.gguf import GgufFile
from engine.weights.gguf_writer import write_gguf
from engine.weights.toy_tokenizer import toy_tokenizer


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


@pytest.fixture(scope="session")
def muse_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """A made-up vocabulary of bytes, a few words, and the control tokens of Muse Glimmer."""
    path = tmp_path_factory.mktemp("muse") / "vocabulary.gguf"
    keys = {"general.architecture": "muse-glimmer", **toy_tokenizer("muse-glimmer", 700)}
    write_gguf(path, keys, [], lambda tensor: [])
    with GgufFile(path) as file:
        return Tokenizer.from_gguf(file)


@pytest.fixture(params=["smollm2", "gemma3"])
def tokenizer(request: pytest.FixtureRequest, tokenizers: dict[str, Tokenizer]) -> Tokenizer:
    return tokenizers[request.param]
