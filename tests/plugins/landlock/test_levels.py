"""Which level is used, and that a weaker one is told."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from codex_framework import SandboxError
from codex_framework.testing import run_confined
from codex_plugin_landlock.instances import InstanceRefused
from codex_plugin_landlock.probe import FULL_LEVEL, REDUCED_LEVEL, full_report, reduced_report
from codex_plugin_landlock.sandbox import LandlockSandbox

pytestmark = pytest.mark.slow

NESTED = """
import asyncio, os, sys
from pathlib import Path
from codex_framework.contract.errors import SandboxError
from codex_framework.commands.process.running import start_command
from codex_framework.contract.permissions.file_access import FileAccess
from codex_plugin_landlock.sandbox import LandlockSandbox

async def main():
    sandbox = LandlockSandbox(sys.argv[1] or None)
    work = Path(sys.argv[2])
    try:
        confinement = sandbox.confine(FileAccess.writing(work), work)
        command = await start_command(confinement, argv=["sh", "-c", "echo ran; touch $0/no", sys.argv[3]], cwd="/", env={})
        print((await command.wait()).stdout.strip(), sandbox.probe().level, "|", sandbox.probe().reason, "|", sandbox.probe().hint)
    except SandboxError as error:
        print("refused:", error, "|", error.hint)
    finally:
        await sandbox.aclose()

asyncio.run(main())
"""


@pytest.fixture
def nested(harness, place):
    """Run the sandbox inside a sandbox, where new namespaces are refused."""
    user = "root" if os.geteuid() == 0 else "ordinary"
    if reason := harness.reason_to_skip("namespaces", user):
        pytest.skip(reason)

    def run(level):
        argv = (sys.executable, "-c", NESTED, level, str(place.work), str(place.outside))
        return harness.run_all("namespaces", user, place.access(), place.work, {"it": argv})["it"].output

    return run


def test_where_namespaces_are_refused_the_reduced_level_is_used_and_told(nested, place):
    words = nested("").strip().split(" | ")
    assert words[0] == f"ran {REDUCED_LEVEL}"
    assert words[1].startswith("namespaces are unavailable: Operation not permitted")
    assert words[2].startswith("allow user namespaces")
    assert not (place.outside / "no").exists()


def test_where_namespaces_are_demanded_and_refused_nothing_runs(nested):
    assert nested("namespaces").startswith(
        "refused: the sandbox could not be set up (namespaces): Operation not permitted"
    )


def test_a_command_that_uses_up_the_processes_does_not_weaken_the_sandbox(harness, place):
    if reason := harness.reason_to_skip("namespaces", "ordinary"):
        pytest.skip(reason)

    async def story():
        sandbox = LandlockSandbox(python=harness.PYTHON)
        try:
            await sandbox.examine()  # starts the launcher, but no instance
            resource.prlimit(sandbox._launcher.pid, resource.RLIMIT_NPROC, (0, 0))
            with pytest.raises(SandboxError, match="Resource temporarily unavailable") as refused:
                await run_confined(sandbox.confine(place.access(), place.work), ("true",), place.work)
            return refused.value.hint, sandbox.level
        finally:
            await sandbox.aclose()

    hint, level = harness.as_user("ordinary", lambda: asyncio.run(story()))
    assert (hint[:19], level) == ("end other processes", "namespaces")


def test_namespaces_that_have_worked_are_not_given_up(harness, place):
    if reason := harness.reason_to_skip("namespaces", "root"):
        pytest.skip(reason)

    async def story():
        sandbox = LandlockSandbox()
        try:
            await run_confined(sandbox.confine(place.access(), place.work), ("true",), place.work)
            with pytest.raises(SandboxError, match="could not be set up"):
                sandbox._degrade(InstanceRefused("namespaces", "Operation not permitted", errno.EPERM))
            return sandbox.level
        finally:
            await sandbox.aclose()

    assert asyncio.run(story()) == "namespaces"


def test_the_levels_name_the_same_protections():
    assert full_report(7).level == FULL_LEVEL
    assert set(full_report(7).protections) <= set(reduced_report(7, "x", "y").protections)
    assert "" not in full_report(7).protections.values()


def test_elsewhere_the_report_says_that_this_is_not_linux(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    report = LandlockSandbox().probe()
    assert (report.available, "darwin" in report.reason) == (False, True)


def test_nothing_of_the_sandbox_is_loaded_before_it_is_needed():
    code = (
        "import sys, types; import codex_plugin_landlock as plugin;"
        " plugin.codex_sandboxes(types.SimpleNamespace(settings=lambda kind: kind()));"
        " print([name for name in sys.modules if name == 'ctypes' or name.startswith('codex_plugin_landlock.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(["codex_plugin_landlock.sandbox", "codex_plugin_landlock.settings"])


def test_closing_twice_and_unused_is_fine():
    sandbox = LandlockSandbox()
    asyncio.run(sandbox.aclose())
    asyncio.run(sandbox.aclose())
    assert Path("/proc/self").exists()
