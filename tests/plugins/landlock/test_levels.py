"""Which level is used, and that a weaker one is told."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

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
