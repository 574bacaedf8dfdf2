from pathlib import Path

import pytest

from engine import runner as module
from engine.models import load
from engine.runner import Runner, chunk_of
from engine.weights.gguf import GgufFile
from tests.engine import tiny


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    with GgufFile(tiny.write(tmp_path / "m.gguf", tiny.LLAMA)) as file:
        _, model, _ = load(file, threads=1)
    return Runner(model, 512, parameters=10**6)


@pytest.mark.parametrize(("parameters", "chunk"), [(10**6, 256), (106 * 10**6, 64), (30 * 10**9, 32)])
def test_larger_models_take_smaller_chunks(runner: Runner, parameters: int, chunk: int) -> None:
    assert Runner(runner.model, 512, parameters).chunk == chunk


@pytest.mark.parametrize(("parameters", "chunk"), [(10**6, 256), (106 * 10**6, 128), (30 * 10**9, 16)])
def test_kernels_take_larger_ones_and_smaller_ones(parameters: int, chunk: int) -> None:
    assert chunk_of(parameters, is_fused=True) == chunk


def test_a_slow_machine_halves_its_chunks_down_to_the_smallest(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK_SECONDS", 0.0)
    cache, sizes = runner.new_cache(), []
    while cache.length < 512 - runner.chunk:
        sizes.append(runner.chunk)
        runner.forward([5] * runner.chunk, cache, rate=False)
    assert sizes == [256, 128, 64, 32]
    runner.forward([5] * runner.chunk, cache, rate=False)
    assert runner.chunk == 32


def test_chunks_grow_back_when_the_machine_is_quick_again(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK_SECONDS", 1_000.0)
    runner.most, runner.chunk = 128, 32
    cache = runner.new_cache()
    runner.forward([5] * 31, cache, rate=False)
    assert runner.chunk == 32  # not a whole chunk: it tells nothing
    for _ in range(4):
        runner.forward([5] * runner.chunk, cache, rate=False)
    assert runner.chunk == 128


def test_a_quick_one_keeps_them(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_SECONDS", 1_000.0)
    assert runner.forward([5] * 256, runner.new_cache(), rate=False) is None
    assert runner.chunk == 256
