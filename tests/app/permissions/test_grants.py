"""Rules on disk: kept, taken away, and safe when the file is damaged."""

from __future__ import annotations

import json
import os
import stat
import threading

import pytest

from app.errors import UserError
from app.permissions.action import Scope
from app.permissions.grants import Grants
from app.permissions.policy import Match, Rule


def rule(id="1", effect="allow", tool="shell.run", chat="", words="exactly `ls`", argv=("ls",)):
    scope = Scope.CHAT if chat else Scope.ALWAYS
    return Rule(id, effect, tool, (Match("argv", "is", list(argv)),), scope, words, 5.0, chat)


@pytest.fixture
def grants(tmp_path):
    return Grants(tmp_path / "data" / "grants.json")


def test_rules_are_there_after_a_restart(grants):
    grants.add(rule("1"))
    grants.add(rule("2", chat="c", argv=("ls", "-l")))
    assert Grants(grants.path).rules() == [rule("1"), rule("2", chat="c", argv=("ls", "-l"))]
    assert stat.S_IMODE(grants.path.stat().st_mode) == 0o600


def test_a_rule_that_says_the_same_is_not_kept_twice(grants):
    grants.add(rule("1"))
    grants.add(rule("2"))
    assert [each.id for each in grants.rules()] == ["2"]


def test_revoking_holds_at_once_for_whoever_has_the_file_open(grants):
    other = Grants(grants.path)
    grants.add(rule("1"))
    assert other.rules()
    other.revoke("1")
    assert grants.rules() == []
    other.revoke("1")


def test_a_deleted_chat_takes_its_rules_along(grants):
    grants.add(rule("1"))
    grants.add(rule("2", chat="c"))
    grants.forget_chat("c")
    assert [each.id for each in grants.rules()] == ["1"]


@pytest.mark.parametrize(
    "damage", ["cut", "junk", "unknown key", "unknown effect", "wildcard allow", "list", "empty"]
)
def test_of_a_damaged_file_the_denies_stay_and_the_allows_go(grants, damage):
    grants.add(rule("1"))
    grants.add(rule("2", "deny", argv=("rm",)))
    grants.add(rule("3", argv=("git",)))
    text = grants.path.read_text()
    content = json.loads(text)
    match damage:
        case "cut":
            text = text[: text.rindex('"git"')]
        case "junk":
            text = text + "}"
        case "unknown key":
            content["rules"][0]["toString"] = 1
        case "unknown effect":
            content["rules"][0]["effect"] = "permit"
        case "wildcard allow":
            content["rules"][0]["tool"] = "*"
        case "list":
            content["rules"][0]["match"] = "everything"
        case "empty":
            text = ""
    changed = json.dumps(content) if content != json.loads(grants.path.read_text()) else text
    grants.path.write_text(changed)
    fresh = Grants(grants.path)
    assert [each.id for each in fresh.rules()] == ([] if damage == "empty" else ["2"])
    assert "asked again" in fresh.notice
    assert fresh.path.with_name("grants.json.damaged").read_text() == changed


def test_a_missing_file_is_no_damage(grants):
    assert grants.rules() == [] and grants.notice == ""


def test_no_temporary_file_is_left(grants):
    grants.add(rule("1"))
    assert {each.name for each in grants.path.parent.iterdir()} == {"grants.json", ".grants.json.lock"}


def test_two_copies_of_the_app_lose_no_rule(grants):
    def add(start):
        mine = Grants(grants.path)
        for number in range(start, start + 20):
            mine.add(rule(str(number), argv=("ls", str(number))))

    threads = [threading.Thread(target=add, args=(start,)) for start in (0, 100)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(grants.rules()) == 40


def test_a_folder_that_cannot_be_written_is_said_in_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="can't be saved"):
        Grants(tmp_path / "file" / "grants.json").add(rule())


@pytest.mark.skipif(os.name != "posix", reason="links of this kind are a POSIX matter")
def test_a_link_in_its_place_is_not_written_through(grants, tmp_path):
    target = tmp_path / "target"
    target.write_text("keep")
    grants.path.parent.mkdir()
    grants.path.symlink_to(target)
    grants.add(rule())
    assert target.read_text() == "keep"
