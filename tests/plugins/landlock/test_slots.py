"""Parallel sandboxed commands under a limit on descriptors."""

from __future__ import annotations

import subprocess
import sys

import pytest

_MANY_COMMANDS = """
import asyncio, os, resource, sys
from pathlib import Path
from codex_framework.commands.access import file_access
from codex_framework.commands.process.running import start_command
from codex_framework.contract.permissions.profile import permissions_of
from codex_framework.contract.protocol.policies import WorkspaceWrite
from codex_plugin_landlock.sandbox import LandlockSandbox

async def main():
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    folder = Path(sys.argv[2])
    sandbox = LandlockSandbox(sys.argv[1])
    confinement = sandbox.confine(file_access(permissions_of(WorkspaceWrite()), folder, {}), folder)

    async def run():
        env = {"PATH": os.environ["PATH"]}
        command = await start_command(confinement, argv=("sleep", "0.05"), cwd=str(folder), env=env)
        return (await command.wait()).exit_code

    codes = await asyncio.gather(*(run() for _ in range(38)))
    await sandbox.aclose()
    print(codes == [0] * 38)

asyncio.run(main())
"""


@pytest.mark.parametrize("level", ["namespaces", "landlock"])
def test_all_parallel_commands_run_with_64_descriptors(harness, tmp_path, level):
    if reason := harness.reason_to_skip(level, "root"):
        pytest.skip(reason)
    argv = [sys.executable, "-c", _MANY_COMMANDS, level, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")
