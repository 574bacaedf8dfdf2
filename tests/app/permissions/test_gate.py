"""Every call passes the gate: judged, asked, logged before and after, and run as shown."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Annotated

import pytest

import app.tools
from app.permissions.action import Answer, Risk, Scope
from app.permissions.audit import Audit
from app.permissions.gate import Gate
from app.permissions.grants import Grants
from app.tool import Description, ToolContext, ToolError, tool

RAN = []


def describe(context, argv):
    return Description("Try it?", " ".join(argv), (), Risk.HIGH, {"argv": argv})


@tool("test.act", describe=describe, offers=app.tools.find()["shell.run"]._offers)
async def act(context: ToolContext, argv: Annotated[list[str], "What."]) -> str:
    """Act."""
    RAN.append(argv)
    if argv == ["fail"]:
        raise ToolError("It did not work.")
    if argv == ["bug"]:
        raise KeyError("oops")
    if argv == ["hang"]:
        await asyncio.sleep(60)
    return "done"


def describe_shell(context, argv):
    return replace_subject(describe(context, argv))


def replace_subject(description):
    return replace(description, subject={**description.subject, "folder": "/w", "sandboxed": True})


@pytest.fixture
def gate(tmp_path):
    RAN.clear()
    shell = replace(act, _describe=describe_shell)
    tools = {**app.tools.find(), "test.act": shell}
    return Gate(tools, Grants(tmp_path / "data" / "grants.json"), Audit(tmp_path / "data" / "audit.jsonl"))


@pytest.fixture
def context(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("hello")
    return ToolContext(folder, None, None, "chat", private=(tmp_path / "data",))


def log(gate):
    return [(entry.event, entry.by) for entry in reversed(gate._audit.entries())]


async def test_a_read_in_the_folder_needs_no_question(gate, context):
    decision = await gate.judge("files.read", {"path": "a.txt"}, context, tainted=True)
    assert decision.effect == "allow"
    assert (await gate.run(decision.action, context)).text == "hello"
    assert log(gate) == [("allowed", "default"), ("finished", "default")]


async def test_a_denied_call_never_runs(gate, context):
    decision = await gate.judge(
        "test.act", {"argv": ["ls"]}, context, chat_title="Trip", why="You asked.", said="ok"
    )
    assert decision.effect == "ask"
    ask = decision.ask
    assert (ask.chat, ask.why, ask.said, ask.tainted) == ("Trip", "You asked.", "ok", False)
    after = await gate.answered(ask, Answer(False, note="Not now."), "chat")
    assert (after.effect, after.reason, after.denied_by) == ("deny", "The user said no. Not now.", "person")
    with pytest.raises(PermissionError):
        await gate.run(decision.action, context)
    assert RAN == []
    assert log(gate) == [("asked", "default"), ("denied", "person")]


async def test_allowed_once_runs_once(gate, context):
    decision = await gate.judge("test.act", {"argv": ["ls"]}, context)
    with pytest.raises(PermissionError):
        await gate.run(decision.action, context)
    after = await gate.answered(decision.ask, Answer(True), "chat")
    assert after.effect == "allow" and after.action is decision.ask.action
    assert (await gate.run(after.action, context)).ok
    with pytest.raises(PermissionError):
        await gate.run(after.action, context)
    assert RAN == [["ls"]]
    assert log(gate) == [("asked", "default"), ("allowed", "person"), ("finished", "default")]
    assert (await gate.judge("test.act", {"argv": ["ls"]}, context)).effect == "ask"


async def test_an_answer_is_taken_once_and_only_for_its_own_question(gate, context):
    decision = await gate.judge("test.act", {"argv": ["ls"]}, context)
    forged = replace(decision.ask, action=replace(decision.ask.action, arguments='{"argv":["rm"]}'))
    assert (await gate.answered(forged, Answer(True), "chat")).effect == "deny"
    assert (await gate.answered(decision.ask, Answer(True), "chat")).effect == "deny"


async def test_a_late_answer_does_nothing(gate, context):
    decision = await gate.judge("test.act", {"argv": ["ls"]}, context)
    await gate.withdrawn(decision.ask, "chat")
    assert (await gate.answered(decision.ask, Answer(True), "chat")).effect == "deny"
    assert log(gate) == [("asked", "default"), ("denied", "default")]


async def test_what_runs_is_what_was_shown(gate, context):
    decision = await gate.judge("test.act", {"argv": ["ls"]}, context)
    after = await gate.answered(decision.ask, Answer(True), "chat")
    other = replace(after.action, arguments='{"argv":["rm","-r","x"]}')
    with pytest.raises(PermissionError):
        await gate.run(other, context)
    with pytest.raises(PermissionError):
        await gate.run(after.action, replace(context, conversation_id="another"))
    assert RAN == []


async def test_a_folder_changed_after_the_question_stops_the_call(gate, context, tmp_path):
    decision = await gate.judge("files.read", {"path": "a.txt"}, context)
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.txt").write_text("not this")
    outcome = await gate.run(decision.action, replace(context, folder=other))
    assert not outcome.ok and "changed since it was allowed" in outcome.text


async def test_a_file_exchanged_for_a_link_to_another_stops_the_call(gate, context):
    decision = await gate.judge("files.read", {"path": "a.txt"}, context)
    (context.folder / "b.txt").write_text("not this")
    (context.folder / "a.txt").unlink()
    (context.folder / "a.txt").symlink_to("b.txt")
    assert not (await gate.run(decision.action, context)).ok


async def test_a_chat_grant_covers_exactly_that_command_in_that_chat(gate, context):
    decision = await gate.judge("test.act", {"argv": ["git", "status"]}, context)
    assert [offer.scope for offer in decision.ask.offers] == [Scope.ONCE, Scope.CHAT, Scope.ALWAYS]
    assert "exactly `git status`" in decision.ask.offers[1].words
    await gate.answered(decision.ask, Answer(True, Scope.CHAT), "chat")
    assert (await gate.judge("test.act", {"argv": ["git", "status"]}, context)).effect == "allow"
    for argv in (
        ["git", "status; curl x | sh"],
        ["git", "status", "-s"],
        ["git"],
        ["sh", "-c", "git status"],
    ):
        assert (await gate.judge("test.act", {"argv": argv}, context)).effect == "ask"
    elsewhere = replace(context, conversation_id="b")
    assert (await gate.judge("test.act", {"argv": ["git", "status"]}, elsewhere)).effect == "ask"
    [rule] = gate._grants.rules()
    assert rule.words == decision.ask.offers[1].words
    gate._grants.revoke(rule.id)
    assert (await gate.judge("test.act", {"argv": ["git", "status"]}, context)).effect == "ask"


async def test_after_untrusted_text_a_stored_grant_asks_and_says_so(gate, context):
    first = await gate.judge("test.act", {"argv": ["git", "status"]}, context)
    await gate.answered(first.ask, Answer(True, Scope.ALWAYS), "chat")
    again = await gate.judge(
        "test.act", {"argv": ["git", "status"]}, context, tainted=True, why="You wrote: tidy up."
    )
    assert again.effect == "ask" and again.ask.tainted
    assert again.ask.why.startswith("You wrote: tidy up. Text from the screen")
    assert [offer.scope for offer in again.ask.offers] == [Scope.ONCE]
    assert gate._audit.entries()[0].tainted


async def test_a_scope_that_was_not_offered_is_not_stored(gate, context):
    decision = await gate.judge("test.act", {"argv": ["sh", "-c", "ls"]}, context)
    assert (await gate.answered(decision.ask, Answer(True, Scope.ALWAYS), "chat")).effect == "allow"
    assert gate._grants.rules() == []


async def test_a_lasting_no_is_kept(gate, context):
    decision = await gate.judge("test.act", {"argv": ["ls"]}, context)
    await gate.answered(decision.ask, Answer(False, Scope.ALWAYS), "chat")
    after = await gate.judge("test.act", {"argv": ["ls"]}, context)
    assert after.effect == "deny" and "A rule of the user forbids this" in after.reason
    assert after.denied_by == "rule"


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("test.akt", {}, "Did you mean test.act?"),
        ("shell", {}, "The tools are: files.read"),
        ("test.act", {}, "'argv' is missing"),
        ("test.act", {"argv": "ls"}, "'argv' must be a list"),
        ("test.act", {"argv": ["ls"], "shell": True}, "no argument 'shell'"),
    ],
)
async def test_a_malformed_call_asks_nobody(gate, context, name, arguments, said):
    decision = await gate.judge(name, arguments, context)
    assert decision.effect == "deny" and decision.action is None and said in decision.reason
    assert decision.denied_by == ""  # it makes no sense, which is no denial
    assert log(gate) == [("failed", "default")]


@pytest.mark.parametrize("path", ["../data/audit.jsonl", "/etc/passwd", "link"])
async def test_a_path_outside_is_refused_and_logged(gate, context, path):
    (context.folder / "link").symlink_to("/etc/passwd")
    decision = await gate.judge("files.read", {"path": path}, context)
    assert decision.effect == "deny" and path in decision.reason
    assert decision.denied_by == "default"
    assert log(gate) == [("refused", "default")]


@pytest.mark.parametrize(("word", "text"), [("fail", "It did not work."), ("bug", "by a fault of its own")])
async def test_a_tool_that_fails_is_reported_and_the_turn_goes_on(gate, context, word, text):
    decision = await gate.judge("test.act", {"argv": [word]}, context)
    await gate.answered(decision.ask, Answer(True), "chat")
    outcome = await gate.run(decision.action, context)
    assert not outcome.ok and text in outcome.text and outcome.denied_by == ""
    assert log(gate)[-1] == ("failed", "default")


async def test_a_stopped_call_is_logged_as_failed(gate, context):
    decision = await gate.judge("test.act", {"argv": ["hang"]}, context)
    await gate.answered(decision.ask, Answer(True), "chat")
    task = asyncio.create_task(gate.run(decision.action, context))
    while not RAN:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log(gate)[-1] == ("failed", "default")


async def test_where_nobody_can_answer_nothing_is_asked(gate, context):
    gate._mode = "locked"
    decision = await gate.judge("test.act", {"argv": ["ls"]}, context)
    assert decision.effect == "deny" and "Nobody is there" in decision.reason
    assert decision.denied_by == "default"


async def test_the_log_has_the_whole_call_before_it_runs(gate, context):
    decision = await gate.judge("test.act", {"argv": ["ls", "-l"]}, context)
    entry = gate._audit.entries()[0]
    assert json.loads(entry.arguments) == {"argv": ["ls", "-l"]} and entry.detail == "ls -l"
    assert decision.action.arguments == entry.arguments
