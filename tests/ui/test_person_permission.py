"""A model that asks to run a command, and a person who decides. The rest is the app as it is."""

import time

import pytest
from person import differ, letters

COMMAND = ("sh", "-c", "pwd -P > where.txt")
DETAIL = "sh -c 'pwd -P > where.txt'"


@pytest.fixture
def asked(person):
    """At the window, with the question just asked for the first time."""
    person.open("Run it.", *COMMAND, command=["tests/tools/scripted_app.py"])
    person.ask("Run it.")
    person.until(lambda: decisions(person) == ["asked"], "the question")
    return person


def decisions(person):
    return [entry["event"] for entry in person.audit()]


def end(person, messages):
    """Wait until the turn is over."""
    ended = lambda: len(person.history()) == messages and person.answer().state == "complete"  # noqa: E731
    person.until(ended, "the end of the turn")


def test_the_exact_command_is_shown_denied_by_keyboard_then_allowed_once_with_the_mouse(asked):
    person, made = asked, asked.home / "Sidelight" / "where.txt"
    button = person.find("Allow once")
    text = person.read()
    assert letters(DETAIL) in letters(text) and letters(f"Folder: {person.home}/Sidelight") in letters(text)
    person.press("F6", "Return")  # F6 goes to the dialog, where Enter is Deny
    end(person, messages=2)
    assert decisions(person) == ["asked", "denied"] and not made.exists()
    assert person.answer().text == "I was told: The user said no."

    place = (button[0] - 40, button[1] - 14, button[0] + 40, button[1] + 14)
    without = person.desktop.picture(place)
    person.ask("Run it.")
    # Somebody clicks on and on where the button appears, never 600 ms after the last time.
    person.desktop.do("mousemove", *button, "click", "--repeat", 30, "--delay", 50, 1)
    person.until(lambda: differ(without, person.desktop.picture(place)), "the dialog")
    assert decisions(person)[2:] == ["asked"] and not made.exists()
    time.sleep(1)
    person.click(button)
    end(person, messages=4)
    assert made.read_text() == f"{made.parent}\n"
    log = person.audit()
    assert [(entry["event"], entry["by"]) for entry in log[:-1]] == [
        ("asked", "default"),
        ("denied", "person"),
        ("asked", "default"),
        ("allowed", "person"),
    ]
    assert log[-1]["event"] == "finished" and {entry["detail"] for entry in log} == {DETAIL}
    assert log[3]["time"] - log[2]["time"] >= 0.6
    person.quit()


def test_one_click_at_the_place_of_the_button_in_its_first_moment_does_nothing(asked):
    person = asked
    button = person.find("Allow once")
    person.press("F6", "Escape")
    end(person, messages=2)
    person.ask("Run it.")
    person.until(lambda: decisions(person)[2:] == ["asked"], "the question")
    person.click(button)
    clicked = time.time() - person.audit()[2]["time"]
    time.sleep(0.7)
    if clicked < 0.5:  # on a machine that was slower than that, nothing is shown by it
        assert decisions(person)[2:] == ["asked"]
    person.click(person.find("Deny"))
    person.until(lambda: decisions(person)[-1] in ("denied", "finished"), "the decision")


def test_what_is_typed_when_the_dialog_appears_answers_nothing(person):
    person.open("Run it.", *COMMAND, command=["tests/tools/scripted_app.py"])
    person.ask("Run it.")
    person.type("a y no yes\n allow d")
    person.find("Allow once")
    time.sleep(0.7)
    person.press("Return", "space", "y", "alt+a")
    time.sleep(0.3)
    assert decisions(person) == ["asked"]
    assert letters("a y no yes") in letters(person.read())
