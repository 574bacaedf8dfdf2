"""What can't work is said in the window, or on the terminal with exit code 2; never with a traceback."""

import subprocess
import sys

import pytest
from person import ROOT, UNPRIVILEGED, letters

SAID = "The model could not be loaded"


def write_model(path, kind, smollm2):
    """A model file that is none."""
    if kind == "truncated":
        path.write_bytes(smollm2.read_bytes()[:1_000_000])
    elif kind == "text":
        path.write_text("Once upon a time there was no model.\n" * 100)
    elif kind == "alien":
        path.write_bytes(smollm2.read_bytes()[:9_000_000].replace(b"llama", b"alien", 1))


@pytest.mark.parametrize(
    ("kind", "words"),
    [("missing", "missing.gguf"), ("truncated", "truncated.gguf"), ("text", "GGUF"), ("alien", "alien")],
)
def test_a_bad_model_is_explained_in_the_window(person, tmp_path, smollm2, kind, words):
    path = tmp_path / f"{kind}.gguf"
    write_model(path, kind, smollm2)
    person.open("--model", path)
    text = person.until_read(SAID)
    assert letters(words) in letters(text[text.index("could not be loaded") :]), text
    assert "Error" not in text and "Traceback" not in text
    person.ask("Say hello.")
    person.until(lambda: person.answer().state == "failed", "the answer that can't come")
    person.quit()


def test_another_model_file_can_be_chosen_after_a_bad_one(person, smollm2):
    person.open("--model", person.home / "missing.gguf")
    person.until_read(SAID)
    person.quit()
    person.set(model_path=f"'{person.home / 'missing.gguf'}'")
    person.open()
    person.click("Choose a model file")
    person.until(lambda: person.desktop.do("search", "--onlyvisible", "--name", "Choose a model file"), "it")
    person.type(str(smollm2))
    person.press("Return")
    person.ask("What is the capital of France?")
    person.until(lambda: person.answer().state == "complete", "an answer")
    assert "Paris" in person.answer().text
    person.quit()


def test_a_home_that_may_not_be_written_is_a_sentence(person):
    (person.home / ".config").rename(person.home.with_suffix(".config"))
    person.home.chmod(0o500)
    try:
        done = subprocess.run(
            [*UNPRIVILEGED, sys.executable, "-m", "app"],
            cwd=ROOT,
            env=person.environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
    finally:
        person.home.chmod(0o700)
    assert done.returncode == 2 and done.stdout == ""
    [line] = done.stderr.strip().splitlines()
    assert line.endswith(".") and str(person.home) in line and "Permission denied" in line
