"""Around the profile: whether the sandbox is there, what it promises, and how its processes start and end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from codex_framework import (
    AccessMode,
    CommandFailed,
    FileAccess,
    NetworkMode,
    NetworkRules,
    PathRule,
    Protection,
    SandboxError,
)
from codex_framework.testing import check_sandbox
from codex_plugin_network_proxy.proxy import RuledProxy
from codex_plugin_seatbelt.canonical import real_path
from codex_plugin_seatbelt.families import Family, Row, process_table
from codex_plugin_seatbelt.sandbox import SANDBOX_EXEC, SeatbeltSandbox

HELD = set(Protection) - {
    Protection.PROCESSES,
    Protection.SHARED_MEMORY,
    Protection.KERNEL,
    Protection.LIFETIME,
    Protection.PROCESS_COUNT,
    Protection.RESOURCES,
}


@pytest.mark.skipif(sys.platform == "darwin", reason="this is a Mac")
def test_elsewhere_it_says_why_it_is_not_available():
    report = SeatbeltSandbox().probe()
    assert not report.available
    assert sys.platform in report.reason
    assert report.hint
    check_sandbox(SeatbeltSandbox())


def test_without_its_program_it_is_not_available(tmp_path):
    report = SeatbeltSandbox(str(tmp_path / "missing")).probe()
    assert not report.available
    assert "missing" in report.reason
    with pytest.raises(SandboxError, match="missing"):
        SeatbeltSandbox(str(tmp_path / "missing")).confine(FileAccess(), tmp_path)


def test_the_program_has_a_fixed_place():
    assert SeatbeltSandbox().executable == SANDBOX_EXEC == "/usr/bin/sandbox-exec"


def test_what_it_does_not_hold_back_can_be_demanded_and_is_refused(loose, tmp_path):
    sandbox = SeatbeltSandbox(loose)
    report = sandbox.probe()
    assert report.available
    assert report.level == "seatbelt"
    assert {one for one in Protection if report.protections.get(one)} == HELD
    assert set(report.partly) == set(Protection) - HELD - {Protection.PROCESS_COUNT}
    sandbox.confine(FileAccess(floor=frozenset(HELD)), tmp_path)
    for one in set(Protection) - HELD:
        with pytest.raises(SandboxError, match=one.value) as caught:
            sandbox.confine(FileAccess(floor=frozenset({one})), tmp_path)
        assert caught.value.slug == "sandbox-floor"
        assert caught.value.hint


@pytest.mark.parametrize(
    ("mode", "disabled"),
    [(NetworkMode.OFF, True), (NetworkMode.LOOPBACK, True), (NetworkMode.PROXY, False), (NetworkMode.ON, False)],
)
def test_what_a_command_is_told(loose, runner, mode, disabled):
    status, said = asyncio.run(ran(loose, runner, FileAccess(network=mode), "env"))
    assert status == 0
    assert "CODEX_SANDBOX=seatbelt\n" in said
    assert ("CODEX_SANDBOX_NETWORK_DISABLED=1\n" in said) == disabled


async def ran(executable, runner, access, script, **fields):
    sandbox = SeatbeltSandbox(executable)
    try:
        return await runner.run(sandbox.confine(access, runner.cwd), "/bin/sh", "-c", script, **fields)
    finally:
        await sandbox.aclose()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo 'sandbox-exec: unbound variable: teleport at <input string>, line 5' >&2; exit 65", "unbound variable"),
        ("echo 'sandbox-exec: sandbox_apply: Operation not permitted' >&2; exit 71", "refuses a sandbox here"),
        ("kill -ABRT $$", "status -6"),
    ],
)
def test_nothing_runs_where_the_system_does_not_take_the_profile(text, said, program, tmp_path, runner):
    executable = program(tmp_path / "refusing", f"#!/bin/sh\n{text}\n")
    with pytest.raises(SandboxError, match=said) as caught:
        asyncio.run(ran(executable, runner, FileAccess(), "touch ran"))
    assert caught.value.hint
    assert not (runner.cwd / "ran").exists()


def test_the_trial_may_meet_a_program_that_is_denied(program, tmp_path, runner):
    text = (
        '#!/bin/sh\nwhile [ "$1" != "--" ]; do shift; done\nshift\n'
        'if [ "$1" = /usr/bin/true ]; then echo "sandbox-exec: execvp() of \'$1\' failed: Operation not permitted" >&2; exit 71; fi\n'
        'exec "$@"\n'
    )
    executable = program(tmp_path / "denying", text)
    assert asyncio.run(ran(executable, runner, FileAccess(), "echo hi")) == (0, "hi\n")


@pytest.mark.parametrize(
    ("argv", "cwd", "said"),
    [
        (("no-such-program-4711",), "", r"No such file or directory \(os error 2\)"),
        (("./plain",), "", r"Permission denied \(os error 13\)"),
        (("pwd",), "missing", r"No such file or directory \(os error 2\)"),
        (("pwd",), "plain", r"Not a directory \(os error 20\)"),
        ((), "", "No such file"),
        (("a\0b",), "", "No such file"),
        (("echo", "a\0b"), "", "nul byte"),
    ],
)
def test_what_cannot_be_started_is_said_by_an_error(argv, cwd, said, loose, runner):
    (runner.cwd / "plain").write_text("not a program\n")

    async def main():
        sandbox = SeatbeltSandbox(loose)
        try:
            await runner.run(sandbox.confine(FileAccess(), runner.cwd), *argv, cwd=str(runner.cwd / cwd))
        finally:
            await sandbox.aclose()

    with pytest.raises(CommandFailed, match=said):
        asyncio.run(main())


@pytest.mark.parametrize("name", ["\ud800", "a\0b"])
def test_a_path_that_cannot_be_passed_on_is_an_error(name, loose, runner):
    access = FileAccess.writing(Path("/no-such-place", name))
    with pytest.raises(SandboxError, match="a path in the permissions is invalid") as caught:
        asyncio.run(ran(loose, runner, access, "true"))
    assert caught.value.hint


def test_warming_tries_the_profile_once(program, tmp_path, runner):
    noted = tmp_path / "noted"
    text = f'#!/bin/sh\necho run >> "{noted}"\nwhile [ "$1" != "--" ]; do shift; done\nshift\nexec "$@"\n'
    executable = program(tmp_path / "noting", text)

    async def main():
        sandbox = SeatbeltSandbox(executable)
        confinement = sandbox.confine(FileAccess(), runner.cwd)
        await asyncio.gather(confinement.warm(), confinement.warm())
        assert noted.read_text() == "run\n"
        await runner.run(confinement, "/bin/true")
        await sandbox.aclose()

    asyncio.run(main())
    assert noted.read_text() == "run\nrun\n"


def test_a_temp_folder_of_its_own(loose, runner):
    access = FileAccess(rules=(PathRule(Path(real_path("/tmp")), AccessMode.WRITE),), private_tmp=True)

    async def main():
        sandbox = SeatbeltSandbox(loose)
        confinement = sandbox.confine(access, runner.cwd)
        _, first = await runner.run(
            confinement, "/bin/sh", "-c", 'echo x > "$TMPDIR/file"; echo "$TMPDIR"; stat -c %a "$TMPDIR"'
        )
        _, second = await runner.run(confinement, "/bin/sh", "-c", 'cat "$TMPDIR/file"')
        folder, mode = first.split()
        assert (mode, second) == ("700", "x\n")
        argv = confinement.argv(("true",))
        assert f"={folder}" in "".join(argv)
        assert f"={real_path('/tmp')}" not in argv
        await sandbox.aclose()
        assert not Path(folder).exists()
        _, third = await runner.run(confinement, "/bin/sh", "-c", 'test -d "$TMPDIR" && echo "$TMPDIR"')
        assert third.strip() not in ("", folder)
        await sandbox.aclose()

    asyncio.run(main())


FETCHING = """
import os, urllib.error, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": os.environ["HTTP_PROXY"]}))
for host in ("127.0.0.1:%d", "denied.example"):
    try:
        print(opener.open(f"http://{host}/", timeout=20).read().decode())
    except urllib.error.HTTPError as error:
        print(error.code)
        error.close()
"""


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nserved")
    await writer.drain()
    writer.close()
    await writer.wait_closed()


@pytest.mark.slow
def test_the_gate_is_the_only_way_out(stand_in, runner):
    async def main():
        proxy = RuledProxy()
        gate = proxy.gate(NetworkRules(domains={"127.0.0.1": "allow"}))
        sandbox = SeatbeltSandbox(stand_in.path)
        confinement = sandbox.confine(FileAccess(network=NetworkMode.PROXY), runner.cwd)
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            told = await runner.run(confinement, sys.executable, "-S", "-c", FETCHING % port, gate=gate)
        ports = await gate.listen()
        await runner.run(confinement, "/bin/true")
        await sandbox.aclose()
        await gate.aclose()
        await proxy.aclose()
        return told, ports

    told, ports = asyncio.run(main())
    assert told == (0, "served\n403\n")
    _, with_gate, without = stand_in.calls
    reached = "".join(f'\n  (remote ip "localhost:{port}")' for port in ports if port)
    assert f"(allow network-outbound{reached})" in with_gate[1]
    assert "network" not in without[1]


def test_the_commands_own_terminal_is_named(stand_in, runner):
    outer, inner = os.openpty()
    try:

        async def main():
            sandbox = SeatbeltSandbox(stand_in.path)
            confinement = sandbox.confine(FileAccess(), runner.cwd)
            script = "test -t 0 && test -t 1 && echo ends; echo controlled > /dev/tty"
            child = await runner.start(
                confinement, "/bin/sh", "-c", script, stdin=inner, stdout=inner, stderr=inner, tty=True
            )
            status = await child.wait()
            await sandbox.aclose()
            return status

        status = asyncio.run(main())
        os.write(inner, b"\n")
        said = os.read(outer, 4096).decode()
        name = os.ttyname(inner)
    finally:
        os.close(inner)
        os.close(outer)
    assert status == 0, said
    assert "ends" in said
    assert "controlled" in said
    assert [one for one in stand_in.calls[-1] if one.endswith(f"={name}")]


def test_the_folders_around_what_a_pattern_denies_stay(loose, runner):
    for path in ("sub/deep/.env", "free/file"):
        (runner.cwd / path).parent.mkdir(parents=True)
        (runner.cwd / path).write_text("x")
    access = FileAccess.writing(runner.cwd).evolve(denied_globs=(f"{runner.cwd}/**/.env",))

    async def main():
        sandbox = SeatbeltSandbox(loose)
        confinement = sandbox.confine(access, runner.cwd)
        await confinement.warm()
        await sandbox.aclose()
        return confinement.argv(("true",))

    argv = asyncio.run(main())
    names = {one[2:].partition("=")[2]: one[2:].partition("=")[0] for one in argv if one.startswith("-D")}
    denied = argv[2].partition("(deny file-write-unlink")[2]
    for folder in (runner.cwd, runner.cwd / "sub", runner.cwd / "sub" / "deep"):
        assert f'(literal (param "{names[str(folder)]}"))' in denied
    assert str(runner.cwd / "free") not in names


def test_what_is_opened_again_below_a_match_is_looked_at_too(loose, runner):
    for path in (".env/open/sub/.env", ".env/shut/.env"):
        (runner.cwd / path).mkdir(parents=True)
    access = FileAccess.writing(runner.cwd, runner.cwd / ".env" / "open").evolve(
        denied_globs=(f"{runner.cwd}/**/.env",)
    )

    async def main():
        sandbox = SeatbeltSandbox(loose)
        confinement = sandbox.confine(access, runner.cwd)
        await confinement.warm()
        await sandbox.aclose()
        return confinement.argv(("true",))

    given = [one.partition("=")[2] for one in asyncio.run(main()) if one.startswith("-D")]
    assert str(runner.cwd / ".env" / "open" / "sub") in given
    assert not [one for one in given if "shut" in one]


def test_too_many_matches_are_an_error(loose, runner, monkeypatch):
    monkeypatch.setattr("codex_framework.contract.permissions.globs.MATCH_LIMIT", 3)
    for name in "abcde":
        (runner.cwd / name).mkdir()
        (runner.cwd / name / ".env").write_text("")
    access = FileAccess.writing(runner.cwd).evolve(denied_globs=(f"{runner.cwd}/*/.env",))
    with pytest.raises(SandboxError, match="matches more than 3 files") as caught:
        asyncio.run(ran(loose, runner, access, "true"))
    assert caught.value.hint


def running(pid: int) -> bool:
    row = process_table().get(pid)
    return row is not None and not row.zombie


async def gone(pid: int) -> bool:
    for _ in range(200):
        if not running(pid):
            return True
        await asyncio.sleep(0.02)
    return False


DAEMON = f"exec {sys.executable} -S -c 'import os, time; os.setsid(); print(os.getpid(), flush=True); time.sleep(600)'"


async def first_line(path: Path) -> str:
    while not (text := path.read_text()).endswith("\n"):
        await asyncio.sleep(0.01)
    return text


@pytest.mark.parametrize("how", ["by itself", "killed", "sandbox closed", "parent gone"])
def test_what_left_its_group_ends_with_its_command(how, loose, runner, tmp_path):
    out = tmp_path / "out"
    tail = {"by itself": "sleep 0.5", "parent gone": "sleep 600"}.get(how, "wait")
    inner = f"({DAEMON}) & sleep 0.5" if how == "parent gone" else DAEMON
    script = f'(sh -c "{inner}") & {tail}'

    async def main():
        sandbox = SeatbeltSandbox(loose)
        with out.open("w") as file:
            child = await runner.start(
                sandbox.confine(FileAccess(), runner.cwd), "/bin/sh", "-c", script, stdout=file.fileno()
            )
        pid = int(await first_line(out))
        assert os.getpgid(pid) != child.pid
        if how == "parent gone":
            await asyncio.sleep(1.5)
            assert running(pid)
        if how in ("killed", "parent gone"):
            child.signal(signal.SIGKILL)
        if how == "sandbox closed":
            await sandbox.aclose()
        status = await child.wait()
        ended = await gone(pid)
        await sandbox.aclose()
        return status, ended

    status, ended = asyncio.run(main())
    assert ended
    assert status == (0 if how == "by itself" else -signal.SIGKILL)


def test_background_children_end_with_their_command(loose, runner, tmp_path):
    out = tmp_path / "out"

    async def main():
        sandbox = SeatbeltSandbox(loose)
        with out.open("w") as file:
            confinement = sandbox.confine(FileAccess(), runner.cwd)
            child = await runner.start(confinement, "/bin/sh", "-c", "sleep 600 & echo $!", stdout=file.fileno())
        assert await child.wait() == 0
        assert await child.wait() == 0
        child.signal(signal.SIGTERM)
        ended = await gone(int(out.read_text()))
        await sandbox.aclose()
        return ended

    assert asyncio.run(main())


def test_a_loop_that_ends_takes_its_commands_along(loose, runner):
    async def main():
        with tempfile.TemporaryFile() as output:
            confinement = SeatbeltSandbox(loose).confine(FileAccess(), runner.cwd)
            child = await runner.start(confinement, "/bin/sleep", "600", stdout=output.fileno())
        return child.pid

    pid = asyncio.run(main())
    assert not running(pid)


def table(*rows: tuple[int, int, int, str]) -> dict[int, Row]:
    return {row[0]: Row(*row, False) for row in rows}


def test_a_family_is_known_by_parents_and_groups():
    family = Family(10)
    assert family.look(table((10, 1, 10, "a"), (11, 10, 10, "a"), (12, 11, 12, "b"), (20, 1, 20, "a"))) == [10, 11, 12]
    assert family.has_descendants
    later = table((12, 1, 12, "b"), (13, 12, 13, "c"), (14, 1, 12, "c"), (20, 1, 20, "a"))
    assert sorted(family.look(later)) == [12, 13, 14]
    assert sorted(family.look(table((12, 1, 12, "z"), (13, 1, 13, "c")))) == [13], (
        "an id that was given to somebody else"
    )


def test_the_process_table_knows_this_process():
    row = process_table()[os.getpid()]
    assert (row.parent, row.group, row.zombie) == (os.getppid(), os.getpgrp(), False)


def test_the_process_table_by_ps(monkeypatch):
    from codex_plugin_seatbelt import families

    if not Path(families._PS).exists():
        pytest.skip("there is no /bin/ps here")
    rows = {row.pid: row for row in families._from_ps()}
    row = rows[os.getpid()]
    assert (row.parent, row.group, row.zombie) == (os.getppid(), os.getpgrp(), False)
    assert row.started == {row.pid: row for row in families._from_ps()}[os.getpid()].started


@pytest.mark.slow
def test_one_profile_of_each_kind_is_tried(stand_in, program, tmp_path):
    layers = asyncio.run(SeatbeltSandbox(stand_in.path).examine())
    assert len(layers) == len(stand_in.calls) == 7
    assert [layer for layer in layers if layer.fault] == []
    picky = (
        '#!/bin/sh\ncase "$2" in *network*) echo "sandbox-exec: unbound variable: network-bind" >&2; exit 65; esac\n'
    )
    layers = asyncio.run(SeatbeltSandbox(program(tmp_path / "picky", picky)).examine())
    assert [layer.name for layer in layers if layer.fault] == ["loopback", "proxy", "network"]
    assert all("unbound variable" in layer.fault and layer.hint for layer in layers if layer.fault)
    assert asyncio.run(SeatbeltSandbox(str(tmp_path / "missing")).examine()) == ()
