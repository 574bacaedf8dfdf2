"""Makes the pictures in resources/screenshots: `python tests/ui/screenshots.py [--scale 2] [--to FOLDER]`.

The app and the small model are real, and so is the conversation; only the model that asks for a permission
plays a script, since the small one calls no tools. Needs Xvfb, openbox and xdotool.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from person import Desktop, Person, why_not  # noqa: E402 - found only now

QUESTIONS = ("What is the capital of France?", "Give me three short tips for better sleep.")
FOLDER_QUESTION, COMMAND = "What is in my folder?", ("ls", "-l")
WIDTH, HEIGHT = 960, 720  # of the window: too narrow for the side panel, whose figures are the machine's


def chat(person: Person, path: Path, theme: str, scale: int) -> None:
    """The window with two chats, each question answered."""
    person.set(window_theme=f"'{theme}'")
    person.open()
    resize(person, WIDTH * scale, HEIGHT * scale)
    for question in QUESTIONS:
        person.press("ctrl+n")
        person.ask(question)
        person.until(lambda: is_answered(person, question), f"an answer to {question}", 300)  # noqa: B023
    shoot(person, path)
    person.quit()


def is_answered(person: Person, question: str) -> bool:
    """Whether the newest chat is this question and its whole answer."""
    messages = person.history()
    return [messages[0].text, messages[-1].state] == [question, "complete"] if messages else False


def permission(person: Person, path: Path, scale: int) -> None:
    """The window while a command waits for an answer."""
    person.open(FOLDER_QUESTION, *COMMAND, command=["tests/tools/scripted_app.py"])
    resize(person, WIDTH * scale, HEIGHT * scale)
    person.ask(FOLDER_QUESTION)
    person.find("Allow once")
    shoot(person, path)
    person.kill()


def resize(person: Person, width: int, height: int) -> None:
    """Give the window its size."""
    person.desktop.do("windowsize", "--sync", person.window(), width, height)
    person.desktop.do("mousemove", 1, 1)


def shoot(person: Person, path: Path) -> None:
    """Take a picture of the window once it stands still."""
    person.rest()
    person.desktop.picture(person.area()).save(path, optimize=True)


def main(words: list[str]) -> int:
    """Take all pictures."""
    parser = argparse.ArgumentParser(description="Makes the pictures of the app.")
    parser.add_argument("--scale", type=int, default=1, help="2: as on a sharp screen")
    parser.add_argument("--to", type=Path, default=ROOT / "resources" / "screenshots", help="the folder")
    parser.add_argument("--homes", type=Path, help="where to make the home folders, as seen in a picture")
    chosen = parser.parse_args(words)
    if reason := why_not():
        print(f"No pictures: {reason}.", file=sys.stderr)
        return 2
    chosen.to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as elsewhere:
        take_all(chosen.to, chosen.homes or Path(elsewhere), chosen.scale)
    return 0


def take_all(folder: Path, homes: Path, scale: int) -> None:
    """Each picture, by a person of their own."""
    desktop = Desktop(f"{1_600 * scale}x{1_000 * scale}", scale)
    ada, ben, cleo = (Person(desktop, homes / name) for name in ("ada", "ben", "cleo"))
    try:
        chat(ada, folder / "chat-light.png", "light", scale)
        chat(ben, folder / "chat-dark.png", "dark", scale)
        permission(cleo, folder / "permission.png", scale)
    finally:
        for person in (ada, ben, cleo):
            person.leave()
        desktop.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
