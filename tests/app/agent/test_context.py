"""What fits into the context, and what is left out."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from app.agent.context import Given, TooLong, cut, first_kept, fit
from app.agent.prompt import as_data
from engine import Message, ToolSpec
from tests.fakes import Scripted


def turn(number, words=50):
    return (Message("user", f"question {number}"), Message("assistant", "word " * words))


def asked(*turns, **options):
    return Given("Be brief.", [*turns, (Message("user", "last question"),)], **options)


async def test_what_fits_is_sent_whole():
    fitted = await fit(Scripted(), asked(turn(1), turn(2), reply=100), 1_000)
    assert [message.role for message in fitted.request.messages] == [
        "system",
        *["user", "assistant"] * 2,
        "user",
    ]
    assert fitted.request.max_tokens == 100
    assert fitted.use.left_out == 0


async def test_the_parts_add_up_to_the_prompt():
    tools = (ToolSpec("files.read", "Read a file", {"type": "object"}),)
    question = (Message("user", as_data("Text read from Screen 1", "one two three") + "\n\nWhat?"),)
    backend = Scripted()
    fitted = await fit(backend, Given("Be brief.", [turn(1), question], tools=tools), 2_000)
    use = fitted.use
    assert use.system + use.tools + use.history + use.screen == await backend.measure(fitted.request)
    assert (use.system, use.screen, use.tools) == (2, 3, 5)


async def test_the_oldest_turns_go_first_and_whole():
    fitted = await fit(Scripted(), asked(*[turn(number) for number in range(20)], reply=100), 600)
    texts = [message.text for message in fitted.request.messages]
    assert texts[0] == "Be brief." and texts[-1] == "last question"
    assert texts[1].startswith("question") and texts[1] != "question 0"
    assert fitted.use.left_out == 40 - (len(texts) - 2) > 0


async def test_a_question_that_does_not_fit_alone_says_the_figures():
    with pytest.raises(TooLong, match="needs 1,008 tokens, and there is room for 750"):
        await fit(Scripted(), Given("", [(Message("user", "w " * 1_004),)]), 1_000)


async def test_a_small_context_still_leaves_room_for_an_answer():
    fitted = await fit(Scripted(), asked(reply=1_024), 64)
    assert fitted.request.max_tokens > 16


@given(some.lists(some.integers(1, 500), min_size=1, max_size=40), some.integers(50, 2_000))
def test_what_stays_fits_or_is_one_turn(turns, room):
    first = first_kept([20, *turns], room)
    assert 0 <= first < len(turns)
    assert 20 + sum(turns[first:]) <= room or first == len(turns) - 1
    assert first == 0 or 20 + sum(turns) > room  # nothing is left out without need


def test_the_cut_moves_in_steps():
    firsts = [first_kept([0, *[100] * count], 1_000) for count in range(1, 41)]
    assert firsts == sorted(firsts)
    assert len(set(firsts)) <= 17
    assert max(firsts[index + 1] - firsts[index] for index in range(39)) <= 4


@given(some.text(some.characters(codec="utf-8"), max_size=2_000), some.integers(1, 50))
async def test_a_cut_is_a_beginning_of_the_text_that_is_short_enough(text, most):
    backend = Scripted()
    kept = await cut(backend, text, most)
    assert text.startswith(kept)
    assert (await backend.count([kept]))[0] <= most
    if (await backend.count([text]))[0] <= most and len(text) < most * 32:
        assert kept == text
