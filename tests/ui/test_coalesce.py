from itertools import pairwise
from time import monotonic, sleep

from ui.coalesce import INTERVAL_MS, Coalescer


def test_many_touches_make_few_paints(qtbot):
    times = []
    coalescer = Coalescer(lambda: times.append(monotonic()))
    until = monotonic() + 0.3
    while monotonic() < until:
        coalescer.touch()
        qtbot.wait(1)
    qtbot.wait(2 * INTERVAL_MS)
    assert 3 <= len(times) <= 11
    assert min(later - earlier for earlier, later in pairwise(times)) >= INTERVAL_MS / 1000 - 0.005


def test_the_last_touch_is_always_painted(qtbot):
    state, painted = [0], []
    coalescer = Coalescer(lambda: painted.append(state[0]))
    for number in range(50):
        state[0] = number
        coalescer.touch()
        qtbot.wait(1)
    qtbot.waitUntil(lambda: painted[-1:] == [49], timeout=1000)


def test_a_slow_paint_leaves_time_for_everything_else(qtbot):
    times = []

    def paint():
        times.append(monotonic())
        sleep(0.03)

    coalescer = Coalescer(paint)
    until = monotonic() + 0.5
    while monotonic() < until:
        coalescer.touch()
        qtbot.wait(2)
    assert len(times) <= 5


def test_flush_paints_only_what_waits_and_drop_forgets_it(qtbot):
    painted = []
    coalescer = Coalescer(lambda: painted.append(1))
    coalescer.flush()
    assert painted == []
    coalescer.touch()
    coalescer.flush()
    assert painted == [1]
    coalescer.touch()
    coalescer.drop()
    qtbot.wait(2 * INTERVAL_MS)
    assert painted == [1]
