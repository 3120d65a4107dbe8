"""The same for real, on a Mac."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

import pytest

from codex_framework import AccessMode, FileAccess, NetworkMode, PathRule
from codex_framework.testing import check_sandbox
from codex_plugin_seatbelt.canonical import real_path
from codex_plugin_seatbelt.sandbox import SeatbeltSandbox

pytestmark = pytest.mark.skipif(sys.platform != "darwin", reason="Seatbelt is a part of macOS")

READ, WRITE, DENY = AccessMode.READ, AccessMode.WRITE, AccessMode.DENY


def ruled(*pairs, **fields):
    return FileAccess(rules=tuple(PathRule(Path(path), mode) for path, mode in sorted(pairs)), **fields)


def ran(runner, access, script):
    async def main():
        sandbox = SeatbeltSandbox()
        try:
            return await runner.run(sandbox.confine(access, runner.cwd), "/bin/sh", "-c", script)
        finally:
            await sandbox.aclose()

    return asyncio.run(main())


def test_it_keeps_to_the_role_of_a_sandbox():
    assert SeatbeltSandbox().probe().available
    check_sandbox(SeatbeltSandbox())


@pytest.mark.parametrize("otherwise", [READ, DENY])
@pytest.mark.parametrize("mode", list(NetworkMode))
def test_every_kind_of_profile_is_taken(otherwise, mode, runner):
    access = ruled(
        (runner.cwd, WRITE),
        (runner.cwd / ".git", READ),
        (runner.cwd / 'a "b" [c]', DENY),
        (runner.cwd / 'a "b" [c]' / "d", WRITE),
        otherwise=otherwise,
        network=mode,
        denied_globs=(f"{runner.cwd}/**/*.p[e-g]m", f"{runner.cwd}/x?z/**"),
    )
    assert ran(runner, access, "echo hi; pwd") == (0, f"hi\n{runner.cwd}\n")


ATTACKS = {
    "read a denied file": ("cat deny/secret", None),
    "read it in another case": ("cat DENY/SECRET", None),
    "read it by a link": ("ln -s deny/secret l; cat l", None),
    "read it by a hard link": ("ln deny/secret h; cat h", None),
    "clone it": ("cp -c deny/secret c; cat c", None),
    "read what a pattern denies": ("cat sub/.env", None),
    "move it": ("mv sub/.env sub/open; cat sub/open", None),
    "move the folder around it": ("mv sub ../elsewhere; cat ../elsewhere/.env; mv sub other; cat other/.env", None),
    "move the folder around a denied one": ("mv around moved; cat moved/deny/secret", None),
    "write a kept file": ("echo x > kept/file", "kept/file"),
    "change its mode": ("chmod 777 kept/file && echo x > kept/file", "kept/file"),
    "remove a kept folder": ("rm -rf kept", "kept/file"),
    "move a kept folder": ("mv kept moved; mkdir kept; echo x > kept/file", "kept/file"),
    "make a kept name in another case": ("mkdir .CODEX && echo x > .CODEX/config", ".codex/config"),
    "write outside": ("echo x > ../outside", "../outside"),
    "write outside by a hard link": ("ln ../victim h && echo x > h", None),
    "write by /System/Volumes/Data": ('echo x > "/System/Volumes/Data$PWD/../outside"', "../outside"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks_on_files_fail(attack, runner):
    script, target = ATTACKS[attack]
    for path in ("deny/secret", "around/deny/secret", "sub/.env", "kept/file", "../victim"):
        (runner.cwd / path).parent.mkdir(parents=True, exist_ok=True)
        (runner.cwd / path).write_text("kept\n" if path in ("kept/file", "../victim") else "the secret\n")
    access = ruled(
        (runner.cwd, WRITE),
        (runner.cwd / "deny", DENY),
        (runner.cwd / "around" / "deny", DENY),
        (runner.cwd / "kept", READ),
        (runner.cwd / ".codex", READ),
        denied_globs=(f"{runner.cwd}/**/.env",),
    )
    _, said = ran(runner, access, f"({script}); echo done > reached")
    assert (runner.cwd / "reached").read_text() == "done\n"
    assert "the secret" not in said
    assert (runner.cwd / ".." / "victim").read_text() == "kept\n"
    if target == "kept/file":
        assert (runner.cwd / target).read_text() == "kept\n"
    elif target is not None:
        assert not (runner.cwd / target).exists()


JOBS = {
    "python": "python3 -c 'import multiprocessing as m; m.Semaphore(); print(\"fine\")'",
    "a terminal of its own": 'python3 -c \'import pty; pty.spawn(["/bin/echo", "fine"])\'',
    "names of users": 'test "$(id -un)" && echo fine',
    "git": "git init -q repo 2>/dev/null; git --version >/dev/null && echo fine",
    "devices": "head -c 4 /dev/urandom > /dev/null && echo x > /dev/null && echo fine",
    "descriptors": "echo fine > /dev/stdout",
    "folders": "mkdir -p a/b && mv a c && rm -r c && echo fine",
    "processors": "sysctl -n hw.ncpu > /dev/null && echo fine",
}


@pytest.mark.parametrize("job", JOBS)
def test_ordinary_jobs_work(job, runner):
    status, said = ran(runner, ruled((runner.cwd, WRITE)), JOBS[job])
    assert (status, said.strip().splitlines()[-1]) == (0, "fine")


@pytest.mark.parametrize(
    "script",
    [
        "open -a Calculator",
        "osascript -e 'tell application \"Finder\" to activate'",
        "pbpaste",
        "ps -ax",
        "security list-keychains -s",
    ],
)
def test_what_leads_out_is_refused(script, runner):
    status, _ = ran(runner, ruled((runner.cwd, WRITE)), script)
    assert status != 0


@pytest.mark.parametrize(
    ("mode", "reached"), [(NetworkMode.OFF, False), (NetworkMode.LOOPBACK, True), (NetworkMode.PROXY, False)]
)
def test_servers_on_this_machine(mode, reached, runner):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        script = f"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 2)'"
        status, _ = ran(runner, FileAccess(network=mode), script)
    assert (status == 0) == reached


def test_the_volume_spells_a_path(tmp_path):
    (tmp_path / "Spelled").mkdir()
    if not (tmp_path / "sPELLED").exists():
        pytest.skip("this volume tells upper from lower case")
    assert real_path(str(tmp_path / "sPELLED" / "New")) == f"{real_path(str(tmp_path))}/Spelled/New"
    assert real_path("/tmp") == "/private/tmp"
