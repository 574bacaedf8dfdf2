"""Turns of a whole made-up Muse Glimmer: its weights are random, so what it says is what it is held to."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from engine.api import Called, Done, Event, Message, Reasoning, Request, Sampling, Text, ToolSpec
from engine.engine import Engine
from engine.weights.json_facts import JsonFacts
from engine.weights.synth import synthesise
from tests.engine.weights import configs

ASK = (Message("user", "Which?"),)
PICK = ToolSpec(
    "pick",
    "Picks one.",
    {
        "type": "object",
        "properties": {"which": {"enum": ["a", "b"]}, "sure": {"type": "boolean"}},
        "required": ["which"],
    },
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path = tmp_path_factory.mktemp("muse") / "muse.gguf"
    synthesise(JsonFacts(configs.MUSE, "config.json"), "Q8_0", path)
    made = Engine(path, threads=1)
    yield made
    made.close()


def events(engine: Engine, request: Request) -> list[Event]:
    return list(engine.generate(request))


def text(found: list[Event]) -> str:
    return "".join(event.text for event in found if isinstance(event, Text))


def test_it_advises_how_to_choose_tokens(engine: Engine):
    assert engine.info.sampling == Sampling(temperature=1.0, top_k=64, top_p=0.95, min_p=0.0)
    assert engine.info.knows_tools


@pytest.mark.parametrize("seed", range(3))
def test_a_required_call_comes_out_of_chance(engine: Engine, seed: int):
    request = Request(
        ASK, (PICK,), "required", Sampling(temperature=2.0, top_k=0, seed=seed), 200, reasoning_limit=6
    )
    found = events(engine, request)
    calls = [event.call for event in found if isinstance(event, Called)]
    done = found[-1]
    assert isinstance(done, Done)
    assert text(found) == ""
    assert sum(event.tokens for event in found if isinstance(event, Text | Reasoning)) in (
        done.usage.generated_tokens,
        done.usage.generated_tokens - 1,  # the end token
    )
    for call in calls:
        assert call.name == "pick" and call.arguments["which"] in ("a", "b")
        assert isinstance(call.arguments.get("sure", True), bool)


@pytest.mark.parametrize("seed", range(3))
def test_an_answer_by_a_schema_comes_out_of_chance(engine: Engine, seed: int):
    schema = {
        "type": "object",
        "properties": {"n": {"enum": [1, 2]}},
        "required": ["n"],
        "additionalProperties": False,
    }
    request = Request(
        ASK,
        sampling=Sampling(temperature=2.0, top_k=0, seed=seed),
        max_tokens=200,
        answer_schema=schema,
        reasoning_limit=6,
    )
    found = events(engine, request)
    assert json.loads(text(found))["n"] in (1, 2)
    assert found[-1].reason == "stop"
