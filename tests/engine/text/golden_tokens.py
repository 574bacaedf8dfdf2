"""Writes golden_tokens.json with llama.cpp: `python golden_tokens.py smollm2.gguf gemma3.gguf`.

Needs the `peer` extra. Each text has its tokens twice: as plain text, and with control tokens parsed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from varied_texts import varied_texts

GOLDEN = Path(__file__).with_name("golden_tokens.json")
COUNT = 320


def peer_tokens(model: Path, texts: list[str]) -> list[list[list[int]]]:
    from llama_cpp import Llama

    peer = Llama(str(model), vocab_only=True, verbose=False)
    return [
        [
            peer.tokenize(text.encode(), add_bos=False, special=special) if text else []
            for special in (False, True)
        ]
        for text in texts
    ]


if __name__ == "__main__":
    texts = varied_texts(COUNT)
    models = dict(zip(("smollm2", "gemma3"), map(Path, sys.argv[1:3]), strict=True))
    tokens = {name: peer_tokens(model, texts) for name, model in models.items()}
    GOLDEN.write_text(json.dumps({"texts": texts, "tokens": tokens}, separators=(",", ":")) + "\n")
