"""Kernels are compiled once, for this processor, into a folder that can be written to."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine import kernels
from engine.__main__ import main
from engine.kernels import compiled
from engine.loaded import load
from engine.weights.json_facts import JsonFacts
from engine.weights.synth import synthesise
from tests.engine import tiny
from tests.engine.weights import configs

pytestmark = pytest.mark.skipif(not kernels.can_run(), reason="needs a processor with AVX2")
# A model that isn't among those with which everything is compiled: is anything compiled for it?
RUN = """
import sys
from pathlib import Path
from numba.core import event
from engine.loaded import load

class Counter(event.Listener):
    count = 0
    def on_start(self, event):
        self.count += 1
    def on_end(self, event):
        pass

counter = Counter()
event.register("numba:compile", counter)
for kv in ("f16", "f32"):
    runner = load(Path(sys.argv[1]), None, 2, kv).runner
    cache = runner.new_cache()
    for rows in (50, 1, 7):
        runner.check(list(range(rows)), cache)
print(counter.count)
"""


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for what is compiled where nothing is yet; the functions that remember it forget."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    compiled.folder.cache_clear()
    yield tmp_path / "cache" / "sidelight"
    compiled.folder.cache_clear()


def test_all_is_compiled_beforehand(tmp_path: Path) -> None:
    assert main(["compile"]) == 0
    path = tmp_path / "m.gguf"
    for config, quant in ((configs.MUSE, "Q5_K_M"), (configs.GEMMA3, "Q4_0+Q8_0")):
        synthesise(JsonFacts(config, "config.json"), quant, path)
        done = subprocess.run([sys.executable, "-c", RUN, str(path)], capture_output=True, text=True)
        assert done.stdout == "0\n", done.stderr


def test_the_second_time_it_says_so_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile"]) == 0
    capsys.readouterr()
    began = time.monotonic()
    assert main(["compile"]) == 0
    assert time.monotonic() - began < 0.5
    assert capsys.readouterr().out == f"All is compiled, in {compiled.folder()}.\n"


def test_where_it_cannot_run_a_sentence_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kernels, "can_run", lambda: False)
    assert main(["compile"]) == 0
    assert "models run without it, more slowly" in capsys.readouterr().out


def test_what_was_compiled_of_other_sources_goes_but_not_what_is_being_compiled(fresh: Path) -> None:
    old, new, other = fresh / "0123456789abcdef", fresh / "fedcba9876543210", fresh / "mine"
    for folder in (old, new, other):
        folder.mkdir(parents=True)
        (folder / "a.nbc").touch()
    for path in (old / "a.nbc", old, other / "a.nbc", other):
        os.utime(path, (1_000, 1_000))
    assert not compiled.is_ready()
    compiled.mark_ready()
    assert compiled.is_ready()
    assert {each.name for each in fresh.iterdir()} == {new.name, other.name, compiled.key()}


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="rights as POSIX has them")
def test_what_cannot_be_kept_with_the_program_is_kept_for_the_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "program"
    blocked.touch()  # not even root makes folders in a file
    monkeypatch.setattr(compiled, "HERE", blocked)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(compiled, "key", lambda: "0123456789abcdef")
    compiled.folder.cache_clear()
    try:
        assert compiled.folder() == tmp_path / "home" / "sidelight" / "kernels" / "0123456789abcdef"
        assert compiled.folder().is_dir()
    finally:
        compiled.folder.cache_clear()


def test_a_model_that_needs_no_kernels_waits_for_none(fresh: Path, tmp_path: Path) -> None:
    said: list[str] = []
    loaded = load(tiny.write(tmp_path / "m.gguf", tiny.LLAMA), None, 1, say=said.append)
    assert said == [] and loaded.runner.model.fused is None


def test_who_opens_a_model_hears_that_it_takes_long(
    fresh: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.kernels import warm

    monkeypatch.setattr(warm, "warm", lambda: compiled.mark_ready())
    path, said = tmp_path / "m.gguf", list[str]()
    synthesise(JsonFacts(configs.LLAMA, "config.json"), "Q8_0", path)
    for _ in range(2):
        load(path, None, 1, say=said.append)
    assert said == [warm.NOTICE]
    assert "once: about" in said[0]
