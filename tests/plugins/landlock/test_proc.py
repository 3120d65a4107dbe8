"""The /proc of a sandbox with namespaces cannot be written, even where the policy lets every file be written."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from codex_framework import FileAccess
from codex_framework.contract.permissions.file_access import NetworkMode
from codex_framework.testing import run_confined
from codex_plugin_landlock.sandbox import LandlockSandbox

WRITES = ("sh", "-c", "echo 500 > /proc/self/oom_score_adj; cat /proc/self/oom_score_adj")


def test_proc_is_read_only_where_every_file_may_be_written(harness: Any, place: Any) -> None:
    user = "root" if os.geteuid() == 0 else "ordinary"
    if reason := harness.reason_to_skip("namespaces", user):
        pytest.skip(reason)

    async def story() -> str:
        sandbox = LandlockSandbox()
        try:
            access = FileAccess(full=True, network=NetworkMode.OFF)
            return (await run_confined(sandbox.confine(access, place.work), WRITES, place.work)).output
        finally:
            await sandbox.aclose()

    output = asyncio.run(story())
    assert "Read-only file system" in output
    assert "500\n" not in output
