"""``codex-framework sandbox``: runs a command confined, with its own streams; tells and proves what holds."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType

import pytest

from codex_client_sandbox.report import examine_sandboxes, run_attacks
from codex_framework.commands.process.spawn import Unconfined
from codex_framework.contract.permissions.file_access import Protection
from codex_framework.contract.roles.sandboxes import SandboxReport
from codex_plugin_landlock.sandbox import LandlockSandbox

pytestmark = pytest.mark.skipif(not LandlockSandbox().probe().available, reason="no landlock sandbox here")


@pytest.fixture
def work() -> Iterator[str]:
    """A folder that is not below /tmp, which workspace-write opens."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield folder


def test_streams_and_status_pass_through(cli):
    ran = cli.run("sandbox", "--", "sh", "-c", "cat; echo no >&2; exit 7", stdin=b"yes\n")
    assert (ran.status, ran.out, ran.err) == (7, "yes\n", "no\n")


def test_the_command_needs_no_dashes_and_keeps_its_own_options(cli):
    ran = cli.run("sandbox", "--mode", "read-only", "sh", "-c", 'echo "$@"', "x", "--mode", "--", "--help")
    assert (ran.status, ran.out) == (0, "--mode -- --help\n")


def test_a_command_named_like_a_subcommand_runs_behind_dashes(cli):
    ran = cli.run("sandbox", "--", "doctor")
    assert (ran.status, ran.out) == (127, "")


def test_death_by_a_signal_is_128_more(cli):
    assert cli.run("sandbox", "--", "sh", "-c", "kill -TERM $$").status == 128 + signal.SIGTERM


def test_a_program_that_is_missing_gives_127(cli):
    ran = cli.run("sandbox", "no-such-program-4711")
    assert ran.status == 127
    assert ran.err.startswith("Error: no-such-program-4711: No such file or directory (os error 2)\n")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--mode", "read-only"), ""),
        (("-P", ":read-only"), ""),
        (("--mode", "workspace-write"), "work "),
        (("-c", 'sandbox_mode="workspace-write"'), "work "),
        (("--mode", "workspace-write", "--add-writable", "OTHER"), "work other "),
        (("--mode", "danger-full-access"), "work other "),
    ],
)
def test_the_mode_decides_what_can_be_written(cli, work, options, expected):
    with tempfile.TemporaryDirectory(dir="/var/tmp") as other:
        script = f"(: > {work}/a) 2>/dev/null && printf 'work '; (: > {other}/b) 2>/dev/null && printf 'other '; true"
        given = [other if option == "OTHER" else option for option in options]
        ran = cli.run("sandbox", "-C", work, *given, "--", "sh", "-c", script)
    assert (ran.status, ran.out) == (0, expected)


@pytest.mark.parametrize(("network", "expected"), [("on", "open"), ("off", "shut")])
def test_the_network_is_as_asked_for(cli, network, expected):
    code = (
        "import socket\ntry:\n  socket.create_server(('127.0.0.1', 0)); print('open')\nexcept OSError:\n  print('shut')"
    )
    for mode in ("read-only", "danger-full-access"):
        ran = cli.run("sandbox", "--mode", mode, "--network", network, "--", sys.executable, "-S", "-c", code)
        assert (ran.status, ran.out) == (0, f"{expected}\n"), mode


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        (("--mode", "read-only", "--add-writable", "/var"), 1, "--add-writable requires the mode workspace-write"),
        (("--mode", "workspace-write", "--add-writable", "/no/such"), 1, "/no/such does not exist"),
        (("--mode", "workspace-write", "-P", ":workspace"), 2, "cannot be used together"),
        (("-P", ":nope"), 1, "there is no permission profile ':nope'"),
        (("-C", "/no/such/folder"), 1, "/no/such/folder"),
        (("-c", "framework.sandbox='nope'"), 125, "there is no sandbox named 'nope'"),
    ],
)
def test_bad_options_are_told(cli, options, status, words):
    ran = cli.run("sandbox", *options, "--", "true")
    assert ran.status == status, ran
    assert words in ran.err


def test_signals_are_handed_on(cli):
    script = "trap 'echo caught; exit 3' TERM; echo ready; while :; do sleep 0.05; done"
    process = cli.start("sandbox", "--", "sh", "-c", script)
    try:
        assert process.stdout.readline() == b"ready\n"
        process.terminate()
        out, _ = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out) == (3, b"caught\n")


def test_a_terminal_passes_through(cli):
    ours, theirs = pty.openpty()
    try:
        script = "test -t 0 && test -t 1 && read -r line && echo got $line"
        process = cli.start("sandbox", "--", "sh", "-c", script, stdin=theirs, stdout=theirs, stderr=theirs)
        os.write(ours, b"this\n")
        assert process.wait(timeout=20) == 0
        assert b"got this" in os.read(ours, 4096)
    finally:
        os.close(ours)
        os.close(theirs)


def test_the_doctor_tells_what_holds(cli):
    ran = cli.run("sandbox", "doctor", "--json")
    found = {one["name"]: one for one in json.loads(ran.out)}["landlock"]
    assert (ran.status, found["works"], found["chosen"], found["fault"]) == (0, True, True, "")
    assert found["level"] in ("namespaces+landlock+seccomp", "landlock+seccomp")
    assert {layer["name"] for layer in found["layers"]} >= {"user namespace", "Landlock", "seccomp"}
    assert [layer["works"] for layer in found["layers"]] == [not layer["fault"] for layer in found["layers"]]
    printed = cli.run("sandbox", "doctor").out
    assert f"landlock: works, {found['level']} (used for commands)\n" in printed
    assert all(f"    {layer['name']} " in printed for layer in found["layers"])


@pytest.mark.thorough
def test_what_is_proved_agrees_with_the_claims(cli):
    """It takes seconds: over a hundred attacks, each a program in a sandbox."""
    ran = cli.run("sandbox", "prove", "--json")
    found = json.loads(ran.out)
    assert ran.status == 0
    assert len(found["attacks"]) >= 110
    assert {one["result"] for one in found["attacks"]} <= {"stopped", "not claimed", "refused"}
    if found["level"].startswith("namespaces"):
        assert found["stopped"] == len(found["attacks"])


class Leaky:
    """A sandbox that says much and holds nothing."""

    name = "leaky"

    def __init__(self, **protections: str) -> None:
        self._protections = MappingProxyType({Protection(key): value for key, value in protections.items()})

    def probe(self) -> SandboxReport:
        return SandboxReport(available=True, level="none", protections=self._protections)

    def confine(self, access: object, cwd: Path) -> Unconfined:
        return Unconfined()

    async def aclose(self) -> None:
        return


@pytest.mark.thorough
def test_what_gets_through_a_leaky_sandbox_is_found():
    """It takes seconds: over a hundred attacks, each a program."""
    found = asyncio.run(run_attacks({"leaky": Leaky(lifetime="")}, None))
    results = {one["attack"]: one["result"] for one in found["attacks"]}
    assert results["overwrite a file outside"] == "escaped"
    assert results["change the mode of a file outside"] == "escaped"
    assert results["connect to a TCP server"] == "escaped"
    assert results["leave a process behind"] == "not claimed"
    left = {
        attack: result for attack, result in results.items() if attack.startswith("leave a") and "process" not in attack
    }
    assert len(left) == 13
    assert set(left.values()) == {"escaped"}


def test_a_sandbox_that_is_refused_says_so():
    sandbox = LandlockSandbox(python="/no/such/python")

    async def examine():
        try:
            return await examine_sandboxes({"landlock": sandbox}, None)
        finally:
            await sandbox.aclose()

    (found,) = asyncio.run(examine())
    assert (found["works"], found["chosen"]) == (False, False)
    assert "cannot be started: No such file or directory" in found["fault"]


def state(work: str, files: list[dict[str, object]], network: str = "restricted") -> str:
    profile = {"type": "managed", "file_system": {"type": "restricted", "entries": files}, "network": network}
    return json.dumps({"permissionProfile": profile, "sandboxCwd": Path(work).as_uri(), "codexLinuxSandboxExe": None})


MINIMAL = {"path": {"type": "special", "value": {"kind": "minimal"}}, "access": "read"}
WORKSPACE = {"path": {"type": "special", "value": {"kind": "project_roots"}}, "access": "write"}


def test_the_state_of_a_session_replaces_the_configuration(cli, work):
    other = tempfile.mkdtemp(dir="/var/tmp")
    given = ("--sandbox-state-json", state(work, [MINIMAL, WORKSPACE]))
    ran = cli.run(
        "sandbox", *given, "--", "sh", "-c", f"pwd; touch made && echo made; ls {other} 2>/dev/null || echo no"
    )
    assert (ran.status, ran.out) == (0, f"{work}\nmade\nno\n")
    more = ("--sandbox-state-readable-root", other)
    ran = cli.run("sandbox", *given, *more, "--", "sh", "-c", f"ls {other} && echo seen; touch {other}/x || echo no")
    assert ran.out == "seen\nno\n"
    Path(other).rmdir()


def test_the_protections_that_the_configuration_requires_hold_for_the_state_of_a_session(cli, work):
    (cli.home / "config.toml").write_text("[framework.sandbox_limits]\nfile_size_mb = 1\n")
    given = ("--sandbox-state-json", state(work, [MINIMAL, WORKSPACE]))
    ran = cli.run("sandbox", *given, "--", "sh", "-c", "head -c 3000000 /dev/zero > big; wc -c < big")
    assert int(ran.out) == 1 << 20


def test_the_network_can_be_taken_from_the_state_of_a_session(cli, work):
    root = {"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"}
    given = ("--sandbox-state-json", state(work, [root], "enabled"))
    code = "import socket\ntry: print(socket.socket().connect_ex(('127.0.0.1', 9)))\nexcept OSError: print('no socket')"
    connect = ("--", sys.executable, "-c", code)
    assert cli.run("sandbox", *given, *connect).out == "111\n"
    ran = cli.run("sandbox", *given, "--sandbox-state-disable-network", *connect)
    assert ran.out != "111\n"


@pytest.mark.parametrize(
    ("options", "status", "problem"),
    [
        (("--sandbox-state-json", "x"), 1, "it is not JSON"),
        (("--sandbox-state-json", "[]"), 1, "it is not an object"),
        (("--sandbox-state-json", "{}"), 1, "missing field `permissionProfile`"),
        (("--sandbox-state-json", '{"permissionProfile": {"type": "disabled"}}'), 1, "missing field `sandboxCwd`"),
        (("--sandbox-state-json", '{"permissionProfile": {"type": "x"}, "sandboxCwd": "file:///"}'), 1, "variant 'x'"),
        (("--sandbox-state-json", '{"permissionProfile": {"type": "disabled"}, "sandboxCwd": "/"}'), 1, "file:// URI"),
        (
            ("--sandbox-state-json", '{"permissionProfile": {"type": "disabled"}, "sandboxCwd": "file://far/"}'),
            1,
            "URI",
        ),
        (
            (
                *("--sandbox-state-json", '{"permissionProfile": {"type": "disabled"}, "sandboxCwd": "file:///"}'),
                "--sandbox-state-disable-network",
            ),
            1,
            "cannot be applied to a profile without limits",
        ),
        (("--sandbox-state-json", "{}", "-P", ":workspace"), 2, "cannot be used with --permission-profile"),
        (("--sandbox-state-json", "{}", "-C", "/"), 2, "cannot be used with --cd"),
        (("--sandbox-state-json", "{}", "--network", "on"), 2, "cannot be used with --network"),
        (("--sandbox-state-readable-root", "/"), 2, "need --sandbox-state-json"),
        (("--sandbox-state-disable-network",), 2, "need --sandbox-state-json"),
        (("--transparent-tcp",), 1, "--transparent-tcp is not supported: commands reach"),
        (
            ("--include-managed-config", "-P", ":workspace"),
            1,
            "--include-managed-config is not supported: requirements",
        ),
    ],
)
def test_a_wrong_state_runs_nothing(cli, work, options, status, problem):
    ran = cli.run("sandbox", *options, "--", "touch", f"{work}/ran")
    assert (ran.status, ran.out) == (status, "")
    assert problem in ran.err
    assert not Path(work, "ran").exists()
