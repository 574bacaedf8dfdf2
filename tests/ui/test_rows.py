"""When a chat was last used, in words."""

import time

import pytest

from ui.rows import ago

NOON = time.mktime((2026, 6, 15, 12, 0, 0, 0, 0, -1))
MINUTE, HOUR, DAY = 60, 3_600, 86_400


@pytest.mark.parametrize(
    ("before", "words"),
    [
        (5, "just now"),
        (-30, "just now"),  # a clock that was set back
        (5 * MINUTE, "5 min ago"),
        (2 * HOUR, "2 h ago"),
        (13 * HOUR, "yesterday"),
        (3 * DAY, "3 days ago"),
        (40 * DAY, "06 May"),
        (400 * DAY, "11 May 2025"),
    ],
)
def test_ago(before, words):
    assert ago(NOON - before, NOON) == words
