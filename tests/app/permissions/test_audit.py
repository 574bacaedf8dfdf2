"""The log: complete, private, and telling when it was changed."""

from __future__ import annotations

import json
import multiprocessing
import os
import stat

import pytest

from app.errors import UserError
from app.permissions.audit import Audit


@pytest.fixture
def audit(tmp_path):
    return Audit(tmp_path / "data" / "audit.jsonl")


def fill(audit, count):
    for number in range(count):
        audit.record(
            "asked", "shell.run", f"ls {number}", "default", reason="why", conversation_id="c", tainted=True
        )


def test_entries_come_back_newest_first(audit):
    fill(audit, 5)
    entries = audit.entries(3)
    assert [entry.detail for entry in entries] == ["ls 4", "ls 3", "ls 2"]
    assert [entry.number for entry in entries] == [5, 4, 3]
    assert entries[0].event == "asked" and entries[0].by == "default" and entries[0].tainted
    assert audit.verify() == ""


def test_only_the_person_can_read_it(audit):
    audit.path.parent.mkdir()
    audit.path.touch(0o644)
    fill(audit, 1)
    assert stat.S_IMODE(audit.path.stat().st_mode) == 0o600


def test_an_empty_log_is_whole(audit):
    assert audit.entries() == [] and audit.verify() == ""


@pytest.mark.parametrize("edit", ["change", "remove", "swap", "insert"])
def test_an_edit_shows(audit, edit):
    fill(audit, 6)
    lines = audit.path.read_bytes().splitlines(keepends=True)
    match edit:
        case "change":
            lines[2] = lines[2].replace(b"ls 2", b"ls 9")
        case "remove":
            del lines[2]
        case "swap":
            lines[2], lines[3] = lines[3], lines[2]
        case "insert":
            lines.insert(2, lines[1])
    audit.path.write_bytes(b"".join(lines))
    assert "was changed" in audit.verify()


@pytest.mark.parametrize("keep", [1, 40, -1])
def test_a_torn_last_line_is_passed_over_and_the_log_goes_on(audit, keep):
    fill(audit, 3)
    whole = audit.path.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    audit.path.write_bytes(whole + last[:keep])
    assert len(audit.entries()) in (3, 4)  # a line that lacks its end alone can still be read
    fill(audit, 2)
    assert [entry.detail for entry in audit.entries(2)] == ["ls 1", "ls 0"]
    assert audit.verify() == "" if keep != -1 else True


def test_what_is_printed_or_shown_cannot_move_the_cursor(audit):
    audit.record("asked", "shell.run", "ls\x1b[2J\u202e\nx", "default", reason="\x1b]0;title\x07")
    raw = audit.path.read_bytes()
    assert b"\x1b" not in raw and raw.count(b"\n") == 1
    assert audit.entries()[0].detail == "ls⟨U+001B⟩[2J⟨U+202E⟩⏎x"


def test_half_characters_and_huge_texts_are_logged(audit):
    audit.record("failed", "shell.run", "\ud800" + "x" * 100_000, "default")
    assert "cut; 100,001 letters, sha256" in audit.entries()[0].detail
    assert len(audit.path.read_bytes()) < 30_000


def test_entries_of_a_long_log_are_read_from_its_end(audit):
    fill(audit, 3)
    block = audit.path.read_bytes()
    audit.path.write_bytes(block * 500)
    assert len(audit.entries(200)) == 200
    assert len(audit.entries(5_000)) == 1_500


def _append(path, word):
    audit = Audit(path)
    for number in range(25):
        audit.record("asked", word, str(number), "default")


def test_two_processes_make_one_chain(audit):
    context = multiprocessing.get_context("spawn")
    both = [context.Process(target=_append, args=(audit.path, word)) for word in ("a", "b")]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert audit.verify() == ""
    assert [json.loads(line)["number"] for line in audit.path.read_text().splitlines()] == list(range(1, 51))


def test_a_log_that_cannot_be_written_stops_the_call(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="nothing is run"):
        Audit(tmp_path / "file" / "audit.jsonl").record("asked", "t", "d", "default")


def test_a_line_is_on_the_disk_before_the_call_goes_on(audit, monkeypatch):
    sizes = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda number: (sizes.append(os.fstat(number).st_size), real(number)))
    fill(audit, 2)
    assert len(sizes) == 2 and sizes[1] == audit.path.stat().st_size
