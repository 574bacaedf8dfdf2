import os
import subprocess
import sys
import threading

import pytest

from engine import device


def test_cores_are_counted_within_what_we_may_use() -> None:
    assert 1 <= device.cores() <= (os.cpu_count() or 1)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no process to a core")
def test_a_process_bound_to_one_core_has_one() -> None:
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from engine import device; assert device.cores() == 1"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps a priority for each thread")
def test_only_the_thread_that_yields_is_lowered() -> None:
    def here() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    before, after = here(), []

    def lowered(then=lambda: None) -> threading.Thread:
        return threading.Thread(target=lambda: (device.yield_to_others(), after.append(here()), then()))

    def helped() -> None:  # a thread that a lowered one starts, and that asks for it again
        helper = lowered()
        helper.start()
        helper.join()

    thread = lowered(helped)
    thread.start()
    thread.join()
    assert after == [min(19, before + device.NICENESS)] * 2
    assert here() == before


@pytest.mark.parametrize(
    ("wish", "during"),
    [({}, "5000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")],
)
def test_torch_is_started_gently_and_nothing_is_left_behind(wish: dict[str, str], during: str) -> None:
    code = (
        "import os, sys; from engine import device; before = dict(os.environ)\n"
        "with device.gentle_start(): print(os.environ.get('GOMP_SPINCOUNT'))\n"
        "assert os.environ == before and 'torch' not in sys.modules\n"
        "if sys.platform == 'linux': assert 'libtorch_python' in open('/proc/self/maps').read()\n"
        "import torch; assert torch.ones(2).sum() == 2"
    )
    environment = {
        name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    }
    ran = subprocess.run(
        [sys.executable, "-c", code], check=True, env=environment | wish, stdout=subprocess.PIPE, text=True
    )
    assert ran.stdout.strip() == during
