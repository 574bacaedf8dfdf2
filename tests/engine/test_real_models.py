"""The engine on the two models that everyone can install."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engine import Done, Engine, Message, Prefill, Request, Sampling, Text, kernels

GREEDY = Sampling(temperature=0)
CLEAR = (  # whose answers no rounding turns
    "What is 2+2?",
    "What is the capital of Germany?",
    "How many days are in a week?",
    "What is 10 divided by 2?",
)


@pytest.fixture(scope="module")
def small(smollm2: Path) -> Iterator[Engine]:
    """With its weights decoded: what it says doesn't depend on the processor."""
    with closing(Engine(smollm2, packs=False)) as engine:
        yield engine


def answer(engine: Engine, request: Request) -> tuple[str, Done]:
    events = list(engine.generate(request))
    assert isinstance(events[-1], Done)
    return "".join(event.text for event in events if isinstance(event, Text)), events[-1]


def chat(*texts: str) -> tuple[Message, ...]:
    return tuple(Message("assistant" if at % 2 else "user", text) for at, text in enumerate(texts))


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("What is the capital of France?", ["The capital of France is Paris."]),
        ("What is 2+2?", ["4"]),
        ("Say hello.", ["Hello"]),
        ("Name three colours.", ["red", "blue"]),
    ],
)
def test_it_answers_in_sensible_english(small: Engine, question: str, words: list[str]) -> None:
    text, done = answer(small, Request(chat(question), sampling=GREEDY, max_tokens=60))
    assert all(word.casefold() in text.casefold() for word in words), text
    assert "<|im" not in text
    assert done.usage.generated_tokens > 1


def test_it_ends_by_itself_and_counts_its_own_words(small: Engine) -> None:
    text, done = answer(small, Request(chat("What is the capital of France?"), sampling=GREEDY))
    assert done.reason == "stop"
    assert done.usage.generated_tokens == small.count(text) + 1  # the end token


def test_a_second_turn_reads_only_what_is_new(small: Engine) -> None:
    first = chat("I have a cat called Mio and a dog called Rex. Say hello to both.")
    text, done = answer(small, Request(first, sampling=GREEDY, max_tokens=40))
    second = (*first, Message("assistant", text), Message("user", "What is the cat called?"))
    events = list(small.generate(Request(second, sampling=GREEDY, max_tokens=30)))
    usage = events[-1].usage
    assert usage.cached_tokens >= done.usage.prompt_tokens + done.usage.generated_tokens - 2
    assert usage.prompt_tokens - usage.cached_tokens < 25
    assert [event.done for event in events if isinstance(event, Prefill)] == [usage.prompt_tokens]
    assert "cat" in "".join(event.text for event in events if isinstance(event, Text))


def test_its_numbers_are_true(small: Engine) -> None:
    assert small.info.parameters == 134_515_008
    assert small.info.context == small.info.context_length == 8_192
    assert small.memory().weights == 4 * 134_515_008


@pytest.mark.skipif(not kernels.can_run(), reason="needs a processor with AVX2")
def test_by_default_it_says_the_same_in_a_quarter_of_the_memory(small: Engine, smollm2: Path) -> None:
    with closing(Engine(smollm2, context=1_024)) as engine:
        assert engine.memory().weights < small.memory().weights / 4
        for question in CLEAR:
            request = Request(chat(question), sampling=GREEDY, max_tokens=40)
            text, done = answer(engine, request)
            assert text == answer(small, request)[0]
            assert done.reason == "stop"


def test_gemma_continues_a_text(gemma3: Path) -> None:
    with closing(Engine(gemma3, context=512, packs=False)) as engine:
        prompt = "The first president of the United States was George"
        text, _ = answer(engine, Request(prompt=prompt, sampling=GREEDY, max_tokens=2))
        assert text.startswith(" Washington")
        assert engine.info.context_length == 32_768


@pytest.mark.skipif(not kernels.can_run(), reason="needs a processor with AVX2")
def test_gemma_counts_on_by_default(gemma3: Path) -> None:
    with closing(Engine(gemma3, context=512)) as engine:
        text, _ = answer(engine, Request(prompt="One, two, three, four,", sampling=GREEDY, max_tokens=12))
        assert text.startswith(" five, six, seven, eight, nine")
