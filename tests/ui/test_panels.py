"""The pages of the side panel."""

import ast
from pathlib import Path

from fakes import say
from PIL import Image
from PySide6.QtWidgets import QPushButton

import ui.panels
from app.events import ContextMeasured, ContextUse, SpeedMeasured
from app.observe import Frame
from app.permissions.action import Scope
from app.permissions.policy import Rule
from ui.panel import find
from ui.panels import memory, usage


def page(desk, title):
    desk.do(lambda: desk.window._open_panel(title))
    return desk.window.panel.pages[title]


def test_every_page_is_found_and_satisfies_the_interface():
    names = {path.stem for path in Path(ui.panels.__file__).parent.glob("*.py")} - {"__init__"}
    found = find()
    assert {module.__name__.rpartition(".")[2] for module in found} == names
    assert len({module.TITLE for module in found}) == len(found) == len({module.ORDER for module in found})
    for module in found:
        assert callable(module.Panel.apply) and callable(module.Panel.show_chat)


def test_usage_shows_every_part_and_adds_up(sit):
    desk = sit()
    panel = page(desk, "Usage")
    use = ContextUse(system=10, tools=20, history=300, screen=40, reply=100, limit=1_000, left_out=2)
    panel.show_chat("a")
    panel.apply("a", ContextMeasured(use))
    parts = usage.parts(use)
    assert sum(part.value for part in parts) == use.limit
    assert "Screen 40" in panel.parts.bar.accessibleName() and "Free 530" in panel.parts.bar.accessibleName()
    assert panel.total.text() == "370 of 1,000 tokens"
    assert "oldest 2 messages" in panel.left_out.text()
    panel.apply("a", SpeedMeasured(1_000, 900, 50, 1_234.5, 22.25))
    assert panel._figures["Reading"].text() == "1,234 tokens/s"
    assert panel._figures["Writing"].text() == "22.2 tokens/s"
    assert panel._figures["Question"].text() == "100 new, 900 from cache"
    panel.show_chat("b")
    assert panel.total.isHidden() and panel.speed.isHidden()
    panel.show_chat("a")
    assert not panel.total.isHidden()


def test_usage_follows_a_real_turn(sit):
    desk = sit(say("Yes."))
    desk.ask("Is it on?")
    panel = page(desk, "Usage")
    assert panel.total.text().endswith("of 8,192 tokens")
    assert "4 from cache" in panel._figures["Question"].text()


def test_memory_is_by_part(sit):
    desk = sit()
    panel = page(desk, "Memory")
    desk.until(lambda: "KV" in panel.parts.bar.accessibleName())
    assert memory.size(1_500_000_000) == "1.50 GB" and memory.size(2_000_000) == "2 MB"
    assert memory.count(134_515_008) == "135 M" and memory.count(30_500_000_000) == "30.5 B"
    assert panel.model.text() == "Scripted"


def test_a_permission_is_listed_and_can_be_taken_back(sit):
    desk = sit()
    rule = Rule("r1", "allow", "files.read", (), Scope.ALWAYS, "any file under <b>~/work</b>", 1_700_000_000)
    desk.services.grants.add(rule)
    desk.services.audit.record("allowed", "files.read", "notes.txt", "rule", reason="r1")
    panel = page(desk, "Log")
    desk.until(lambda: panel.rules.count() == 1 and panel.entries.count() == 1)
    revoke = panel.findChild(QPushButton)
    assert "any file under" in revoke.accessibleName()
    desk.do(revoke.click)
    assert desk.services.grants.rules() == []
    desk.until(lambda: panel.rules.count() == 0)
    assert panel.no_rules.isVisibleTo(panel)


def test_watching_is_seen_and_can_be_paused(sit, monkeypatch):
    desk = sit()
    picture = Frame(Image.new("RGB", (3_000, 1_000), "red"), "Screen 1, 3000x1000", 0, 0, 0.0)
    observer = desk.services.observer

    async def grab():
        return picture, 1

    monkeypatch.setattr(observer, "_grab", grab)  # there is no screen to look at here
    panel = page(desk, "Screen")
    assert panel.state.text() == "Not watching" and not desk.window.header.watching.isVisible()
    desk.do(panel.start.click)
    desk.until(lambda: not panel.preview.pixmap().isNull())
    assert panel.preview.pixmap().toImage().pixelColor(5, 5).name() == "#ff0000"
    assert desk.window.header.watching.isVisible() and desk.window._mood() == "watching"
    desk.do(panel.pause.click)
    assert panel.state.text() == "Paused" and panel.preview.pixmap().isNull()
    assert desk.window.header.watching.text() == "Watching paused"
    desk.do(panel.stop.click)
    assert not desk.window.header.watching.isVisible()


def test_the_screen_chosen_is_the_one_looked_at(sit):
    desk = sit()
    panel = page(desk, "Screen")
    desk.do(lambda: panel._choose_monitor(0))
    assert desk.services.settings.get("screen.monitor") == 0
    assert desk.services.observer._capture.monitor is None


def test_no_label_of_ours_takes_text_for_markup():
    """Rich text would let a command draw itself: a QLabel is made by `label`, or sets PlainText."""
    allowed = {"labels.py", "elided.py", "icons.py"}
    for path in Path(ui.panels.__file__).parents[1].rglob("*.py"):
        if path.name in allowed or path.parent.name == "chat":
            continue
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        made = [call for call in calls if getattr(call.func, "id", "") == "QLabel"]
        assert len(made) <= path.read_text().count("TextFormat.PlainText"), path
