"""What counts as left behind."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from codex_framework.testing.leftovers import Leftovers

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def test_a_process_that_runs_is_left_behind_and_one_that_nobody_waited_for_is_not() -> None:
    async def present() -> Leftovers:
        return Leftovers()

    before = asyncio.run(present())
    with subprocess.Popen(["sleep", "60"]) as running, subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        try:
            (found,) = before._new_processes()
        finally:
            running.kill()
    assert "(sleep 60) is still running" in found
