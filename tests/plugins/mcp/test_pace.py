"""How long another process is waited for while the machine is busy."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from codex_plugin_mcp.pace import Patience

BUSY = "import time\nend = time.monotonic() + 20\nwhile time.monotonic() < end: pass"


def work_for(seconds):
    began = time.thread_time()
    while time.thread_time() - began < seconds:
        pass


def test_time_in_which_nothing_happens_counts():
    patience = Patience(0.2)
    time.sleep(0.25)
    assert patience.left_s <= 0


def test_time_in_which_this_thread_works_does_not_count():
    patience = Patience(0.2)
    work_for(0.3)
    assert patience.left_s > 0.1


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the system does not say how long a task waited")
def test_time_in_which_the_other_process_waits_for_a_processor_does_not_count():
    processor = min(os.sched_getaffinity(0))
    processes = [
        subprocess.Popen([sys.executable, "-c", BUSY], preexec_fn=lambda: os.sched_setaffinity(0, {processor}))
        for _ in range(4)
    ]
    try:
        time.sleep(0.5)  # until all of them work
        alone, patience = Patience(1.0), Patience(1.0, processes[0].pid)
        time.sleep(0.8)
        assert patience.left_s > alone.left_s + 0.2
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_process_that_is_gone_changes_nothing():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert 0.5 < Patience(1.0, process.pid).left_s <= 1.0
