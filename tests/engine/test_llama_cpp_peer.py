"""The real models against llama.cpp, over the same texts (pytest -m peer -s shows the figures).

llama.cpp rounds activations to 8 bits wherever weights are stored in blocks. So it is asked twice: with
the weights decoded to F32 beforehand (by gguf-py), where it rounds nothing and must agree, and with the
file as it is, where it doesn't even agree with itself: one token at a time and 256 at a time turn some clear
choices. There we must be as close to it as it is to itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch

from engine import models
from engine.cache.storage import F16
from engine.runner import Runner
from engine.weights.gguf import GgufFile
from tests.engine import peer
from tests.engine.peer_texts import texts

pytestmark = [pytest.mark.peer, pytest.mark.timeout(1_800)]

SHORTEST, LONGEST = 600, 1_500  # tokens of a text
MARGIN = 0.3  # llama.cpp's lead of its first choice over its second, from which on ours must be the same
EXACT_KL = 1e-5
MEAN_KL = 0.01
OWN_SPREAD = 1.5  # how many times further from llama.cpp we may be than it is from itself, in KL
ROUNDED = 0.005  # share of clear choices that 8-bit activations may turn, its own and ours
F32 = 0


@dataclass(frozen=True)
class Agreement:
    """How two engines rate the tokens of a text; `divergence` is KL(theirs || ours) in nats, (n,)."""

    wrong: int  # clear choices of theirs that aren't ours
    clear: int
    divergence: torch.Tensor


@pytest.fixture(scope="module", params=["smollm2", "gemma3"])
def file(request: pytest.FixtureRequest) -> Path:
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def ours(file: Path) -> Runner:
    with GgufFile(file) as opened:
        config, model, _ = models.load(opened, threads=2, packs=False)
    return Runner(model, config.context_length, parameters=10**8)


@pytest.fixture(scope="module")
def packed(file: Path) -> Runner:
    """As it is run by default: it rounds activations as llama.cpp does."""
    with GgufFile(file) as opened:
        config, model, _ = models.load(opened, threads=2)
    if model.fused is None:
        pytest.skip("needs a processor with AVX2")
    return Runner(model, config.context_length, parameters=10**8, storage=F16)


@pytest.fixture(scope="module")
def open_theirs() -> Iterator[Callable[..., Any]]:
    opened = []

    def open_it(path: Path, batch: int = 256) -> Any:
        sizes = {"n_ctx": LONGEST, "n_batch": batch, "n_ubatch": batch, "n_threads": 2}
        cache = {"type_k": F32, "type_v": F32}
        opened.append(peer.llama_cpp().Llama(str(path), logits_all=True, verbose=False, **sizes, **cache))
        return opened[-1]

    yield open_it
    for model in opened:
        model.close()


def test_we_agree_with_llama_cpp_where_it_rounds_nothing(
    file: Path, ours: Runner, open_theirs: Callable[[Path], Any], tmp_path: Path
) -> None:
    theirs = open_theirs(decoded(file, tmp_path / "decoded.gguf"))
    for kind, text in texts().items():
        agreement = compare(theirs, ours, kind, text)
        assert agreement.wrong == 0, kind
        assert agreement.divergence.mean() < EXACT_KL, kind


@pytest.mark.parametrize("runner", ["ours", "packed"])
def test_we_are_as_close_to_llama_cpp_as_it_is_to_itself(
    file: Path, runner: str, open_theirs: Callable[..., Any], request: pytest.FixtureRequest
) -> None:
    ours: Runner = request.getfixturevalue(runner)
    theirs, one_by_one = open_theirs(file), open_theirs(file, batch=1)
    spread, distance = [], []
    for kind, text in texts().items():
        ids, logits = rate(theirs, text)
        spread.append(agree(logits, rate(one_by_one, text)[1]))
        distance.append(agree(logits, ours.logits(ids)))
        report(theirs, f"{kind}, itself one by one", spread[-1])
        report(theirs, f"{kind}, us", distance[-1])
    own, mean = (torch.cat([each.divergence for each in side]).mean() for side in (spread, distance))
    assert mean < MEAN_KL
    assert mean < OWN_SPREAD * own
    for side in (spread, distance):
        assert sum(each.wrong for each in side) < ROUNDED * sum(each.clear for each in side)


def compare(theirs: Any, ours: Runner, kind: str, text: str) -> Agreement:
    """Both engines over a text, token for token."""
    ids, logits = rate(theirs, text)
    agreement = agree(logits, ours.logits(ids))
    report(theirs, kind, agreement)
    return agreement


def rate(theirs: Any, text: str) -> tuple[list[int], torch.Tensor]:
    """llama.cpp's tokens of a text and its logits after each, (n, vocabulary)."""
    ids = theirs.tokenize(text.encode(), add_bos=True, special=False)[:LONGEST]
    assert len(ids) >= SHORTEST
    theirs.reset()
    theirs.eval(ids)
    return ids, torch.from_numpy(np.array(theirs.scores[: len(ids)]))


def report(theirs: Any, what: str, agreement: Agreement) -> None:
    """Say how close it was (-s shows it)."""
    tokens = len(agreement.divergence)
    assert agreement.clear > tokens / 2
    print(
        f"\n{theirs.metadata['general.architecture']}, {what}: {tokens} tokens, {agreement.wrong} of "
        f"{agreement.clear} clear choices differ, KL mean {agreement.divergence.mean():.7f}, "
        f"worst {agreement.divergence.max():.5f}"
    )


def agree(theirs: torch.Tensor, ours: torch.Tensor) -> Agreement:
    """Compare (n, vocabulary) logits."""
    first, second = theirs.topk(2).values.T
    clear = first - second > MARGIN
    wrong = (theirs.argmax(-1) != ours.argmax(-1)) & clear
    their_log, our_log = torch.log_softmax(theirs, -1), torch.log_softmax(ours, -1)
    return Agreement(int(wrong.sum()), int(clear.sum()), (their_log.exp() * (their_log - our_log)).sum(-1))


def decoded(source: Path, target: Path) -> Path:
    """The same model with every tensor in F32, by gguf-py alone."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for name, entry in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        kind, *rest = entry.types
        writer.add_key_value(name, entry.contents(), kind, sub_type=rest[-1] if rest else None)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target
