"""Muse Glimmer's text half against llama.cpp, on the same files (pytest -m peer -s shows the figures)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import MuseGlimmerForConditionalGeneration

from tests.engine import muse, peer
from tests.engine.models.test_muse_glimmer import SHAPES, Shape, expected, from_gguf, kl, oracle, run, tokens

pytestmark = pytest.mark.peer

EXACT, CLOSE_KL, F32 = 1e-5, 1e-4, 0
# What these random models make of 1e-7 grows from layer to layer and from token to token: with more tokens
# than these, llama.cpp and transformers themselves are more than EXACT apart.
MOST = 100
PUBLISHED = {"output_multiplier": 0.19611613513818404, "final_logit_softcapping": 20.0}
Q8_0 = gguf.GGMLQuantizationType.Q8_0


def theirs(path: Path, ids: list[int]) -> Tensor:
    """llama.cpp's (n, vocabulary) logits, with keys and values in F32."""
    sizes: dict[str, Any] = {"n_ctx": 512, "n_batch": 512, "n_threads": 1, "type_k": F32, "type_v": F32}
    model = peer.llama_cpp().Llama(str(path), logits_all=True, verbose=False, **sizes)
    model.eval(ids)
    logits = torch.from_numpy(np.array(model.scores[: len(ids)]))
    model.close()
    return logits


def length(shape: Shape) -> int:
    return min(5 * shape.window, MOST)


@pytest.mark.parametrize("name", SHAPES)
def test_logits_are_those_of_llama_cpp(name: str, tmp_path: Path) -> None:
    check(SHAPES[name], tmp_path, {})


@pytest.mark.parametrize("options", [{"fused": True}, {"local_base": 1_000.0}], ids=str)
def test_other_ways_to_store_it_are_read_as_llama_cpp_reads_them(
    options: dict[str, Any], tmp_path: Path
) -> None:
    check(SHAPES["5 layers"], tmp_path, options)


def check(shape: Shape, folder: Path, options: dict[str, Any]) -> None:
    path = muse.write_text(folder / "m.gguf", oracle(shape, **PUBLISHED), **options)
    ids = tokens(length(shape))
    ours, wanted = run(from_gguf(path), ids, 16), theirs(path, ids)
    worst = (ours - wanted).abs().max()
    print(f"\n{shape}: worst {worst:.1e}, spread {wanted.std():.2f}")
    assert worst <= EXACT < wanted.std() / 10_000


def test_the_period_of_published_files_is_read_as_llama_cpp_reads_it(tmp_path: Path) -> None:
    made, ids = oracle(SHAPES["6 layers, many heads"], **PUBLISHED), tokens(60)
    path = muse.write_text(tmp_path / "m.gguf", made, pattern=4)
    assert (run(from_gguf(path), ids) - theirs(path, ids)).abs().max() <= EXACT


def test_weights_in_eight_bits_mean_the_same(tmp_path: Path) -> None:
    """llama.cpp rounds activations to 8 bits there, as we don't, and it doesn't with weights decoded."""
    divergences = []
    for name, shape in SHAPES.items():
        made, ids = oracle(shape, **PUBLISHED), tokens(length(shape))
        stored = muse.write_text(tmp_path / "q.gguf", made, storage=Q8_0)
        decoded = muse.write_text(tmp_path / "f.gguf", made, tensors=rounded(made))
        ours = run(from_gguf(stored), ids, 16)
        assert (ours - theirs(decoded, ids)).abs().max() <= 2 * EXACT
        divergence, own = kl(theirs(stored, ids), ours).mean(), kl(expected(made, ids), ours).mean()
        print(f"\n{name}: KL {divergence:.1e}; of the weights' own rounding {own:.1e}")
        assert divergence < 2 * own
        divergences.append(divergence)
    assert torch.stack(divergences).mean() < CLOSE_KL


def rounded(made: MuseGlimmerForConditionalGeneration) -> dict[str, np.ndarray]:
    """The tensors with their matrices in Q8_0 and back, by gguf-py."""
    return {
        name: gguf.dequantize(gguf.quantize(tensor, Q8_0), Q8_0) if tensor.ndim == 2 else tensor
        for name, tensor in muse.text_tensors(made).items()
    }
