"""A small, valid tokenizer for made-up models: bytes, a few words, control tokens, and names without use."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from engine.api import BadRequest
from engine.text.bytelevel import BYTE_LETTERS
from engine.text.calls import atem
from engine.text.vocabulary import CONTROL, NORMAL, UNUSED
from engine.weights.gguf_writer import Writable

SPACE = BYTE_LETTERS[32]
WORDS = (
    "the of and to in is it you that was for on are with as his they be at one have this from or had by but "
    "some what there we can out other were all your when up use how said an each she which do their time if "
    "will way about many then them would write like so these her long make thing see him two has look more"
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """How conversations are written. `control`: token names by id, from the end if negative."""

    pre: str  # how text is cut into words
    template: str
    control: dict[int, str]
    roles: dict[str, str]  # "bos" -> a token's name
    add_bos: bool


CHATML = Dialect(
    pre="gpt-2",
    template=(
        "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    ),
    control={-3: "<|endoftext|>", -2: "<|im_start|>", -1: "<|im_end|>"},
    roles={"bos": "<|endoftext|>", "eos": "<|im_end|>"},
    add_bos=False,
)
MUSE = Dialect(
    pre="llama4",
    template=atem.TEMPLATE,
    control={
        0: "<|begin_of_text|>",
        1: "<|end_of_text|>",
        7: "<|eom|>",
        8: "<|eot|>",
        18: "<|finetune_right_pad|>",
        22: "<|start|>",
        23: "<|message|>",
        80: "<|image_start|>",
        81: "<|image_end|>",
        90: "<|image|>",
        92: "<|patch|>",
    },
    roles={
        "bos": "<|begin_of_text|>",
        "eos": "<|end_of_text|>",
        "eot": "<|eot|>",
        "padding": "<|finetune_right_pad|>",
    },
    add_bos=True,
)
MUSE_CONTROL_TOKENS = 2_048  # the last ones of its vocabulary
DIALECTS = {"muse-glimmer": MUSE, "dflash": MUSE}


def toy_tokenizer(architecture: str, size: int) -> dict[str, Writable]:
    """The keys of a byte-level tokenizer of `size` tokens, with a chat template."""
    dialect = DIALECTS.get(architecture, CHATML)
    control = _control(dialect, size)
    words, merges = _words(size - len(control))
    normal = [*BYTE_LETTERS, *words]
    if len(normal) + len(control) > size:
        raise BadRequest(f"A vocabulary of {size} tokens is too small: bytes and control tokens are more.")
    texts = normal + [f"<unused{index}>" for index in range(size - len(normal))]
    kinds = np.full(size, UNUSED, np.int32)
    kinds[: len(normal)] = NORMAL
    for token, name in control.items():
        texts[token], kinds[token] = name, CONTROL
    ids = {text: token for token, text in enumerate(texts)}
    keys: dict[str, Writable] = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": dialect.pre,
        "tokenizer.ggml.tokens": texts,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.add_bos_token": dialect.add_bos,
        "tokenizer.chat_template": dialect.template,
    }
    return keys | {f"tokenizer.ggml.{role}_token_id": ids[name] for role, name in dialect.roles.items()}


def _control(dialect: Dialect, size: int) -> dict[int, str]:
    """Control tokens by id: where the real model has them if the vocabulary is as large, else at its end."""
    if dialect is not MUSE:
        return {size + place: name for place, name in dialect.control.items()}
    if size > 2 * MUSE_CONTROL_TOKENS:
        start = size - MUSE_CONTROL_TOKENS
        reserved = {
            start + place: f"<|reserved_special_token_{place}|>" for place in range(MUSE_CONTROL_TOKENS)
        }
        return reserved | {start + place: name for place, name in dialect.control.items()}
    return {size - len(dialect.control) + place: name for place, name in enumerate(dialect.control.values())}


def _words(room: int) -> tuple[list[str], list[str]]:
    """Tokens beyond single bytes, and the merges that make them: each word grows letter by letter."""
    tokens: dict[str, None] = {}
    merges: dict[str, None] = {}
    for word in WORDS.split():
        grown = [f"{SPACE}{word[:end]}" for end in range(len(word) + 1)]
        new = [token for token in grown[1:] if token not in tokens]
        if len(BYTE_LETTERS) + len(tokens) + len(new) > room:
            break
        merges |= dict.fromkeys(f"{short} {long[-1]}" for short, long in pairwise(grown))
        tokens |= dict.fromkeys(new)
    return list(tokens), list(merges)
