"""Whole tensors of the real model files against gguf-py."""

import threading
import time
import tracemalloc

import numpy as np
import pytest
from gguf import quants

from engine import BadModel
from engine.quant import dequantise, dequantise_rows
from engine.weights.gguf import GgufFile


@pytest.mark.parametrize("model", ["smollm2", "gemma3"])
def test_every_tensor_equals_gguf_py(model, request, gguf_py):
    path = request.getfixturevalue(model)
    with GgufFile(path) as file:
        for theirs in gguf_py(path).tensors:
            # The embedding alone would take a gigabyte more: its two ends tell as much.
            rows = np.r_[0:2_000, -2_000:0] if theirs.n_elements > 10_000_000 else slice(None)
            expected = quants.dequantize(theirs.data[rows], theirs.tensor_type)
            if isinstance(rows, slice):
                ours = dequantise(file, theirs.name)
            else:
                ours = dequantise_rows(file, theirs.name, rows)
            assert ours.shape == expected.shape and ours.dtype == np.float32
            assert np.array_equal(ours.view(np.uint32), expected.view(np.uint32)), theirs.name


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_any_number_of_threads_gives_the_same(smollm2, threads):
    with GgufFile(smollm2) as file:
        name = "blk.3.ffn_down.weight"
        assert np.array_equal(dequantise(file, name, threads=threads), dequantise(file, name, threads=1))
        embedding = dequantise(file, "token_embd.weight", threads=threads)
        rows = np.array([0, 1, 777, 49_151, 8])
        assert np.array_equal(embedding[rows], dequantise_rows(file, "token_embd.weight", rows))


def test_a_given_output_is_filled_in_place(smollm2):
    with GgufFile(smollm2) as file:
        name = "blk.0.attn_k.weight"
        out = np.full((192 * 576,), np.nan, np.float32)
        assert dequantise(file, name, out) is out
        assert np.array_equal(out.reshape(192, 576), dequantise(file, name))
        with pytest.raises(ValueError, match="110592 values, the output 5"):
            dequantise(file, name, np.empty(5, np.float32))


def test_a_tensor_that_is_not_there_is_named(smollm2):
    with GgufFile(smollm2) as file, pytest.raises(BadModel, match=r"the tensor blk\.77 is missing"):
        dequantise(file, "blk.77")


def test_scratch_memory_is_bounded(smollm2):
    with GgufFile(smollm2) as file:
        out = np.empty(file.tensors["token_embd.weight"].shape, np.float32)  # 113 MB
        tracemalloc.start()
        dequantise(file, "token_embd.weight", out)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 8_000_000


def test_a_small_model_is_decoded_fast_and_leaves_no_thread(smollm2):
    """135 million values: 0.3 s on two idle cores; the limit leaves room for a busy machine."""
    before = threading.active_count()
    with GgufFile(smollm2) as file:
        started = time.perf_counter()
        assert sum(dequantise(file, name).size for name in file.tensors) == 134_515_008
        assert time.perf_counter() - started < 4
    assert threading.active_count() == before
