"""The plugin as a whole: found by its entry point, told its settings, and its sandbox keeps to its role."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from codex_contrib_bubblewrap.program import candidates
from codex_contrib_bubblewrap.sandbox import BubblewrapSandbox
from codex_contrib_bubblewrap.settings import BubblewrapSettings
from codex_framework import ConfigError, FileAccess, Protection, SandboxError
from codex_framework.contract.permissions.file_access import ResourceLimits
from codex_framework.loader import PluginStatus
from codex_framework.loader.registry import load_registry
from codex_framework.testing import call, check_sandbox, say

ORDINARY_UID = 61234


def test_the_plugin_is_installed_and_all_of_it_is_in_use():
    (report,) = [report for report in load_registry({}).reports if report.name == "bubblewrap"]
    assert (report.distribution, report.status, report.problems) == (
        "codex-contrib-bubblewrap",
        PluginStatus.LOADED,
        (),
    )
    assert report.contributes == {"sandboxes": ("bubblewrap",)}


def test_the_sandbox_keeps_to_its_role(program):
    check_sandbox(BubblewrapSandbox(BubblewrapSettings(path=program)))


def test_the_sandbox_keeps_to_its_role_for_an_ordinary_user(program):
    if os.geteuid() != 0:
        pytest.skip("only root can become another user; the test above is this one, then")
    script = (
        "import sys; sys.path[:0] = sys.argv[2].split(':'); from codex_contrib_bubblewrap.sandbox import *;"
        " from codex_contrib_bubblewrap.settings import *; from codex_framework.testing import check_sandbox;"
        " sandbox = BubblewrapSandbox(BubblewrapSettings(path=sys.argv[1])); check_sandbox(sandbox);"
        " report = sandbox.probe(); print(report.available, report.reason, report.protections['process-count'])"
    )
    python = next(
        (one for one in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}") if _reachable(one)), None
    )
    if python is None or not all(_reachable(path) for path in sys.path if "site-packages" in path):
        pytest.skip("an ordinary user cannot reach this environment")
    done = subprocess.run(
        [
            python,
            "-c",
            script,
            program,
            ":".join(path for path in sys.path if "/lib/python" not in path or "site-packages" in path),
        ],
        user=ORDINARY_UID,
        group=ORDINARY_UID,
        extra_groups=[],
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "HOME": "/"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("True  resource limit, counted by user namespace\n", "", 0)


def _reachable(path: str) -> bool:
    """Whether everybody can get there."""
    real = Path(path).resolve()
    return real.exists() and all(folder.stat().st_mode & 0o001 for folder in real.parents)


def test_a_sandbox_without_its_program_says_so(tmp_path):
    sandbox = BubblewrapSandbox(search=str(tmp_path))
    check_sandbox(sandbox)
    report = sandbox.probe()
    assert (report.available, report.reason) == (False, "there is no bwrap on PATH")
    with pytest.raises(SandboxError, match="there is no bwrap on PATH") as refused:
        sandbox.confine(FileAccess(), tmp_path)
    assert "install bubblewrap" in refused.value.hint


def test_a_program_that_cannot_do_it_is_reported_with_what_it_says(tmp_path):
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    report = BubblewrapSandbox(BubblewrapSettings(path=str(broken))).probe()
    assert (report.available, report.reason) == (False, "bwrap: No permissions to create new namespace")
    assert "max_user_namespaces" in report.hint


def test_a_program_that_commands_could_change_is_not_trusted(program, place, monkeypatch):
    own = place / "work" / "bin" / "bwrap"
    own.parent.mkdir()
    own.write_text(f'#!/bin/sh\ntouch {place}/executed\nexec {program} "$@"\n')
    own.chmod(0o755)
    monkeypatch.chdir(place / "work")
    assert BubblewrapSandbox(search=str(own.parent)).probe().reason == "there is no bwrap on PATH"
    sandbox = BubblewrapSandbox(BubblewrapSettings(path=str(own)))
    assert list(candidates(str(own), "")) == [str(own)]
    assert not (place / "executed").exists()
    with pytest.raises(SandboxError, match="is in a place that commands can write to"):
        sandbox.confine(FileAccess(), place / "work")
    with pytest.raises(SandboxError, match="is in a place that commands can write to"):
        sandbox.confine(FileAccess.writing(place), place / "outside")
    assert sandbox.confine(FileAccess(), place / "outside").program == str(own)


def test_settings_come_from_the_configuration(run_turn, workspace, program, monkeypatch):
    monkeypatch.delenv("TMPDIR", raising=False)
    own = f'[framework]\nsandbox = "bubblewrap"\n[framework.plugins.bubblewrap]\npath = "{program}"\n'
    config = f'sandbox_mode = "workspace-write"\n{own}[sandbox_workspace_write]\nexclude_slash_tmp = true\n'
    script = "cat /proc/1/comm; echo x > ../outside; echo in > inside"
    run = run_turn("Go.", [call("exec_command", cmd=script, shell="/bin/sh", login=False), say("Done.")], config=config)
    assert "bwrap" in run.outputs[0]
    assert (workspace / "inside").read_text() == "in\n"
    assert not (workspace.parent / "outside").exists()


def test_a_wrong_setting_is_refused_with_its_place(make_kernel):
    async def start() -> None:
        async with make_kernel([say("Hi.")], config="[framework.plugins.bubblewrap]\npaths = 1\n"):
            raise AssertionError("it was accepted")

    fault = r"config.toml:\d+: the plugin 'bubblewrap' has no setting 'paths'; its settings: path$"
    with pytest.raises(ConfigError, match=fault):
        asyncio.run(start())


def test_a_floor_that_is_not_held_is_refused(program, place):
    sandbox = BubblewrapSandbox(BubblewrapSettings(path=program))
    sandbox.confine(FileAccess(floor=frozenset({Protection.WRITING, Protection.KERNEL})), place)
    with pytest.raises(SandboxError, match="missing: resources") as refused:
        sandbox.confine(FileAccess(floor=frozenset({Protection.RESOURCES})), place)
    assert (refused.value.slug, "sandbox_limits" in refused.value.hint) == ("sandbox-floor", True)
    limits = ResourceLimits(memory_bytes=1 << 30, file_bytes=1 << 20)
    sandbox.confine(FileAccess(floor=frozenset({Protection.RESOURCES}), limits=limits), place)
