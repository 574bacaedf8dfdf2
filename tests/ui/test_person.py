"""The app as a person meets it: a process on a display, the real small model, a keyboard and a mouse."""

import difflib

from person import letters

STORY = "Write a long story about a lighthouse keeper."
SENTENCE = "The heron waits by the river at dawn."
OTHER = """
import sys
from PySide6.QtWidgets import QApplication, QLabel
app = QApplication([])
label = QLabel(sys.argv[1], windowTitle="Somebody else's window")
label.setStyleSheet("font: 18px; background: white; color: black; padding: 20px")
label.move(20, 120)
label.show()
app.exec()
"""


def shown_in(text: str, picture_text: str) -> bool:
    """Whether a text begins with what was read off the screen; the reader may err in a letter."""
    seen = letters(picture_text)
    return difflib.SequenceMatcher(None, seen, letters(text)[: len(seen)], autojunk=False).ratio() > 0.96


def transcript(person):
    """Where the answers are: under the header and the question, above the composer."""
    left, top, right, bottom = person.area()
    return left + 250, top + 130, right - 10, bottom - 130


def write_until(person, size):
    """Ask for a story, and wait until so much of the answer is stored."""
    person.open()
    person.ask(STORY)
    person.until(lambda: len(person.answer().text) > size, f"{size} letters of the story")


def test_an_answer_streams_into_the_window_and_the_history(person):
    person.open()
    person.ask(STORY)
    moments, reads = [], []
    for size in range(20, 120, 20):
        person.until(lambda: len(person.answer().text) > size, f"{size} letters of the story")  # noqa: B023
        moments.append((person.desktop.picture(transcript(person)), person.answer()))
        assert moments[-1][1].state == "streaming"
    for picture, stored in moments:  # reading takes longer than the model needs to go on
        reads.append("\n".join(text for text, _ in person.desktop.read(picture)).removesuffix("Thinking"))
        assert shown_in(stored.text, reads[-1]), "what is shown is stored already"
    sizes = [len(letters(text)) for text in reads]
    assert sizes == sorted(sizes) and sizes[0] < sizes[-1] > 60, "what is shown grows"
    assert [message.text for message in person.history()] == [STORY, person.answer().text]


def test_esc_and_the_button_stop_an_answer_and_the_next_one_comes(person):
    write_until(person, 60)
    person.press("Escape")
    person.until(lambda: person.answer().state == "stopped", "the end", 5)
    kept = person.answer().text
    assert len(kept) > 60 and shown_in(kept, person.read(transcript(person)).split("Stopped")[0])
    person.ask(STORY)
    person.until(lambda: len(person.history()) == 4 and person.answer().text, "the second answer")
    right, bottom = person.area()[2:]
    person.click((right - 51, bottom - 46))  # the round button, in the corner of the composer
    person.until(lambda: person.answer().state == "stopped", "the end", 5)
    person.ask("What is the capital of France?")
    person.until(lambda: person.answer().state == "complete", "the third answer")
    assert "Paris" in person.answer().text and person.history()[1].text == kept
    person.quit()


def test_what_another_window_shows_is_read_when_the_screen_is_attached(person):
    person.open_other(OTHER, SENTENCE, title="Somebody else's window")
    person.open()
    person.click("Look at my screen")
    person.ask("What is on my screen?")
    person.until(lambda: person.answer().text, "the answer", 60)
    person.press("Escape")
    question, _ = person.history()
    assert question.text == "What is on my screen?"
    assert letters(SENTENCE) in letters(question.screen)
    assert letters("Ask anything") not in letters(question.screen), "the app's own window is left out"
    person.click("words read")
    assert person.until_read(SENTENCE)
    person.quit()


def test_a_chat_is_there_again_after_a_restart(person):
    person.open()
    person.ask("What is the capital of France?")
    person.until(lambda: person.answer().state == "complete", "the answer")
    before = person.history()
    person.quit()
    person.open()
    text = person.until_read("The capital of France is Paris")
    assert letters(text).count(letters("What is the capital of")) >= 3, "in the list, the header, the chat"
    assert person.history() == before


def test_after_a_kill_all_that_was_shown_is_there_and_marked(person):
    write_until(person, 150)
    picture = person.desktop.picture(transcript(person))
    person.kill()
    assert person.answer().state == "streaming", "it was killed midway"
    person.open()
    text = person.until_read("Interrupted: the program ended before")
    kept = person.answer()
    seen = "\n".join(line for line, _ in person.desktop.read(picture))
    assert len(letters(seen)) > 80 and shown_in(kept.text, seen), (kept.text, seen)
    assert kept.state == "interrupted" and letters(kept.text)[:100] in letters(text)
    person.ask("What is the capital of France?")
    person.until(lambda: "Paris" in person.answer().text, "an answer after the restart")
