"""Features against llama.cpp's own vision code, on the same mmproj file."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from engine.vision.features import VisionEncoder
from tests.engine import muse, tiny
from tests.engine.vision.pictures import as_png, picture

pytestmark = pytest.mark.peer

WIDTH = 48
IMAGE = 1  # a chunk's kind
MOST, MEAN = 5e-3, 5e-4  # llama.cpp rounds the patches to 16 bits: 2e-3 and 1.6e-4 were seen
# whole cells, so that nothing is resampled: square, on their side, of more than one window
EXACT = ((28, 28), (280, 280), (112, 448), (448, 448), (644, 476), (308, 924))

Peer = Callable[[Image.Image], Tensor]


@pytest.fixture(scope="module")
def mmproj(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return muse.write_mmproj(tmp_path_factory.mktemp("mmproj") / "m.gguf", muse.model(muse.config()))


@pytest.fixture(scope="module")
def peer(mmproj: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    from llama_cpp import Llama, mtmd_cpp

    text = replace(tiny.LLAMA, width=WIDTH, heads=3, kv_heads=1)
    llama = Llama(str(tiny.write(tmp_path_factory.mktemp("text") / "t.gguf", text)), verbose=False, n_ctx=64)
    options = mtmd_cpp.mtmd_context_params_default()
    options.use_gpu, options.n_threads, options.warmup, options.flash_attn_type = False, 1, False, 0
    context = mtmd_cpp.mtmd_init_from_file(str(mmproj).encode(), llama._model.model, options)
    assert context
    yield lambda image: _encode(mtmd_cpp, context, image)
    mtmd_cpp.mtmd_free(context)
    llama.close()


def _encode(mtmd, context: int, image: Image.Image) -> Tensor:
    """(cells, width), normed as ours are."""
    raw, marker = image.tobytes(), mtmd.mtmd_default_marker()
    bitmap = mtmd.mtmd_bitmap_init(*image.size, (ctypes.c_uint8 * len(raw)).from_buffer_copy(raw))
    text = mtmd.mtmd_input_text(text=marker, text_len=len(marker), add_special=False, parse_special=True)
    chunks = mtmd.mtmd_input_chunks_init()
    assert mtmd.mtmd_tokenize(context, chunks, ctypes.byref(text), (ctypes.c_void_p * 1)(bitmap), 1) == 0
    found = [mtmd.mtmd_input_chunks_get(chunks, i) for i in range(mtmd.mtmd_input_chunks_size(chunks))]
    chunk = next(chunk for chunk in found if mtmd.mtmd_input_chunk_get_type(chunk) == IMAGE)
    cells = mtmd.mtmd_input_chunk_get_n_tokens(chunk)
    assert mtmd.mtmd_encode_chunk(context, chunk) == 0
    out = np.ctypeslib.as_array(mtmd.mtmd_get_output_embd(context), (cells, WIDTH)).copy()
    mtmd.mtmd_input_chunks_free(chunks)
    mtmd.mtmd_bitmap_free(bitmap)
    return F.rms_norm(torch.from_numpy(out), (WIDTH,), eps=1e-5)


@pytest.mark.parametrize("size", EXACT)
def test_features_are_those_of_llama_cpp(size: tuple[int, int], mmproj: Path, peer: Peer) -> None:
    """It reads the table of positions by row and column."""
    image, theirs = picture(*size), peer(picture(*size))
    ours = VisionEncoder.open(mmproj, WIDTH, lookup="natural").encode(as_png(image)).features
    apart = (ours - theirs).abs()
    assert apart.max() < MOST
    assert apart.mean() < MEAN
    if size[0] != size[1]:
        other = VisionEncoder.open(mmproj, WIDTH, lookup="reference").encode(as_png(image)).features
        assert (other - theirs).abs().max() > 10 * MOST


@pytest.mark.parametrize("size", [(1, 1), (640, 480), (300, 900), (512, 512), (1000, 77)])
def test_a_picture_takes_as_many_tokens_as_with_llama_cpp(
    size: tuple[int, int], mmproj: Path, peer: Peer
) -> None:
    rows, columns = VisionEncoder.open(mmproj, WIDTH).cells(*size)
    assert len(peer(picture(*size))) == rows * columns
