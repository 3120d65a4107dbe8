"""How commands are started, and what happens when something dies on the way."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from codex_framework.commands.confinement import Confinements, is_sandbox_denial
from codex_framework.commands.process.running import start_command
from codex_framework.contract.errors import CommandFailed, SandboxError
from codex_framework.contract.permissions.file_access import FileAccess, NetworkMode
from codex_plugin_landlock.sandbox import LandlockSandbox

ENV = {"PATH": os.defpath + ":/usr/local/bin", "LANG": "C.UTF-8"}
LEVELS = ["namespaces", "landlock"]


@pytest.fixture(params=LEVELS)
def level(request, harness):
    reason = harness.reason_to_skip(request.param, "root" if os.geteuid() == 0 else "ordinary")
    if reason:
        pytest.skip(reason)
    return request.param


def with_sandbox(level, place, work, access=None):
    """Run ``work(sandbox, start)`` in an event loop and end the sandbox afterwards."""

    async def main():
        sandbox = LandlockSandbox(level)
        confinement = sandbox.confine(access or place.access(), place.work)

        def start(*argv, cwd=None, **options):
            return start_command(confinement, argv=argv, cwd=str(cwd or place.work), env=ENV, **options)

        try:
            return await work(sandbox, start)
        finally:
            await sandbox.aclose()

    return asyncio.run(main())


def names(folder):
    return sorted(path.name for path in folder.iterdir())


async def output_of(command):
    return (await (await command).wait()).output


def test_output_status_and_environment_come_through(level, place):
    async def work(sandbox, start):
        command = await start("sh", "-c", "echo $CODEX_SANDBOX_NETWORK_DISABLED; pwd; echo err >&2; exit 7")
        return await command.wait()

    result = with_sandbox(level, place, work)
    assert (result.exit_code, result.stdout, result.stderr) == (7, f"1\n{place.work}\n", "err\n")


def test_a_program_that_does_not_exist_fails_as_without_a_sandbox(level, place):
    async def work(sandbox, start):
        with pytest.raises(CommandFailed) as caught:
            await start("no-such-program")
        return str(caught.value), await output_of(start("echo", "next"))

    assert with_sandbox(level, place, work) == ("No such file or directory (os error 2)", "next\n")


def test_a_folder_that_does_not_exist_fails_as_without_a_sandbox(level, place):
    async def work(sandbox, start):
        with pytest.raises(CommandFailed) as caught:
            await start("true", cwd="/no/such/folder")
        return str(caught.value)

    assert with_sandbox(level, place, work) == "No such file or directory (os error 2)"


def test_an_argument_with_a_null_byte_is_an_error_of_the_command(level, place):
    async def work(sandbox, start):
        with pytest.raises(CommandFailed, match="null byte"):
            await start("echo", "a\0b")
        return await output_of(start("echo", "next"))

    assert with_sandbox(level, place, work) == "next\n"


def test_arguments_that_are_not_text_or_very_long_arrive(level, place):
    raw = os.fsdecode(b"\xff\xfe\n")
    long = "x" * 100_000

    async def work(sandbox, start):
        return await output_of(
            start("sh", "-c", 'printf %s "$1" | od -An -tx1; printf %s "$2" | wc -c', "sh", raw, long)
        )

    assert with_sandbox(level, place, work) == " ff fe 0a\n100000\n"


def test_a_signal_reaches_the_whole_group(level, place):
    async def work(sandbox, start):
        command = await start("sh", "-c", "trap 'echo stopped; exit 5' INT; echo ready; sleep 100 & wait")
        async for chunk in command.chunks():
            if b"ready" in chunk.data:
                command.interrupt()
        return await command.wait()

    result = with_sandbox(level, place, work)
    assert (result.exit_code, result.output) == (5, "ready\nstopped\n")


def test_death_by_a_signal_is_told(level, place):
    async def work(sandbox, start):
        return (await (await start("sh", "-c", "kill -TERM $$")).wait()).exit_code

    assert with_sandbox(level, place, work) == 128 + signal.SIGTERM


@pytest.mark.slow
def test_a_command_out_of_time_takes_its_descendants_with_it(level, place):
    script = f"(setsid sh -c 'sleep 0.6; touch {place.work}/late' &) ; sleep 100"

    async def work(sandbox, start):
        result = await (await start("sh", "-c", script, timeout_ms=200)).wait()
        await asyncio.sleep(0.7)
        return result

    assert with_sandbox(level, place, work).exit_code == 124
    assert not (place.work / "late").exists()


@pytest.mark.slow
def test_a_daemon_does_not_outlive_its_command(level, place):
    script = f"(setsid sh -c 'sleep 0.3; touch {place.work}/late' >/dev/null 2>&1 </dev/null &); echo done"

    async def work(sandbox, start):
        output = await output_of(start("sh", "-c", script))
        await asyncio.sleep(0.5)
        return output

    assert with_sandbox(level, place, work) == "done\n"
    assert not (place.work / "late").exists()


def test_a_terminal_controls_the_command(level, place):
    async def work(sandbox, start):
        command = await start(
            "sh", "-c", "test -t 0 && echo yes >/dev/tty; read line; echo got $line; read more", tty=True
        )
        await command.write(b"word\n")
        seen = b""
        async for chunk in command.chunks():
            seen += chunk.data
            if seen.endswith(b"got word\r\n"):
                await command.write(b"\x03")
        return seen, (await command.wait()).exit_code

    seen, status = with_sandbox(level, place, work)
    assert b"yes" in seen
    assert status == 128 + signal.SIGINT


@pytest.mark.slow
def test_many_commands_at_once_do_not_mix(level, place):
    async def one(start, number):
        return await output_of(start("sh", "-c", f"sleep 0.05; echo {number}"))

    async def work(sandbox, start):
        return await asyncio.gather(*(one(start, number) for number in range(100)))

    assert with_sandbox(level, place, work) == [f"{number}\n" for number in range(100)]


def test_cancelling_a_start_ends_the_command(level, place):
    async def work(sandbox, start):
        for delay in (0, 0.001, 0.01, 0.03):
            task = asyncio.create_task(start("sh", "-c", f"sleep 0.4; touch {place.work}/late"))
            await asyncio.sleep(delay)
            if task.done():
                await (await task).kill()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0.6)
        return await output_of(start("echo", "next"))

    assert with_sandbox(level, place, work) == "next\n"
    assert not (place.work / "late").exists()


def test_a_killed_launcher_ends_its_commands_and_is_replaced(level, place):
    async def work(sandbox, start):
        command = await start("sh", "-c", f"sleep 0.5; touch {place.work}/late")
        os.kill(sandbox._launcher.pid, signal.SIGKILL)
        ended = await command.wait()
        await asyncio.sleep(0.6)
        return ended.exit_code, ended.stderr, await output_of(start("echo", "next"))

    told = "the process that confines commands was killed from outside, and this command with it\n"
    assert with_sandbox(level, place, work) == (128 + signal.SIGKILL, told, "next\n")
    assert not (place.work / "late").exists()


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL, signal.SIGTERM, signal.SIGABRT])
def test_a_command_that_signals_its_supervisor_hangs_nobody(level, place, number):
    """With namespaces it is the first process, which such signals do not reach."""

    async def work(sandbox, start):
        script = f"sleep 0.1; kill -{int(number)} $PPID; sleep 0.2; echo on"
        began = time.monotonic()
        ended = await (await start("sh", "-c", script, timeout_ms=20_000)).wait()
        assert time.monotonic() - began < 15, "it ends long before its time is over"
        return ended.exit_code, ended.stdout, await output_of(start("echo", "next"))

    code, said, after = with_sandbox(level, place, work)
    assert (code, said) == ((0, "on\n") if level == "namespaces" else (128 + signal.SIGKILL, ""))
    assert after == "next\n"


def test_an_instance_that_does_not_report_an_end_is_given_up(level, place, monkeypatch):
    monkeypatch.setattr("codex_plugin_landlock.instances._END_S", 0.2)

    async def work(sandbox, start):
        command = await start("sleep", "100")
        (instance,) = sandbox._busy
        real = instance._connection
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        loop = asyncio.get_running_loop()
        loop.remove_reader(real)
        with real, theirs:
            instance._connection = ours  # nobody answers there
            loop.add_reader(ours, instance._read)
            await asyncio.wait_for(command.kill(), 60)
        return (await command.wait()).stderr

    assert "did not report the end of this one" in with_sandbox(level, place, work)


def test_a_launcher_killed_while_idle_is_replaced(level, place):
    async def work(sandbox, start):
        await output_of(start("true"))
        os.kill(sandbox._launcher.pid, signal.SIGKILL)
        await asyncio.sleep(0.05)
        return await output_of(start("echo", "next"))

    assert with_sandbox(level, place, work) == "next\n"


def test_a_launcher_that_cannot_run_is_a_clear_error(level, place):
    async def work():
        sandbox = LandlockSandbox(level, python="/bin/false")
        try:
            confinement = sandbox.confine(place.access(), place.work)
            with pytest.raises(SandboxError) as caught:
                await start_command(confinement, argv=["true"], cwd="/", env=ENV)
            return caught.value
        finally:
            await sandbox.aclose()

    error = asyncio.run(work())
    assert error.hint


def test_closing_ends_what_runs(level, place):
    async def work(sandbox, start):
        command = await start("sleep", "100")
        await sandbox.aclose()
        return (await command.wait()).exit_code

    assert with_sandbox(level, place, work) == 128 + signal.SIGKILL


@pytest.mark.slow
def test_nothing_outlives_a_killed_parent(level, place):
    script = (
        "import asyncio, os, sys\n"
        "from pathlib import Path\n"
        "from codex_framework.commands.process.running import start_command\n"
        "from codex_framework.contract.permissions.file_access import FileAccess\n"
        "from codex_plugin_landlock.sandbox import LandlockSandbox\n"
        "async def main():\n"
        "    work = Path(sys.argv[1])\n"
        "    sandbox = LandlockSandbox(sys.argv[2])\n"
        "    access = FileAccess.writing(work, read_only=[work / '.codex'])\n"
        "    confinement = sandbox.confine(access, work)\n"
        "    argv = ['sh', '-c', 'sleep 0.6; touch late']\n"
        "    await start_command(confinement, argv=argv, cwd=str(work), env=dict(os.environ))\n"
        "    print(sandbox._launcher.pid, flush=True)\n"
        "    await asyncio.sleep(100)\n"
        "asyncio.run(main())\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script, str(place.work), level], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    launcher = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    time.sleep(0.9)
    assert names(place.work) == [".git", "file"]
    assert not runs(launcher)


def runs(pid):
    """Whether there is such a process; one that only waits to be reaped does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_nothing_of_the_parents_is_inherited(level, place, monkeypatch):
    monkeypatch.setenv("LOOSE_SECRET", "1")
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    try:

        async def work(sandbox, start):
            return await output_of(start("sh", "-c", "env | grep -c LOOSE; ls /proc/self/fd"))

        assert with_sandbox(level, place, work) == "0\n0\n1\n2\n3\n"
    finally:
        os.close(reader)
        os.close(writer)


def test_placeholders_go_when_the_sandbox_goes(place, harness):
    if reason := harness.reason_to_skip("namespaces", "root" if os.geteuid() == 0 else "ordinary"):
        pytest.skip(reason)

    async def work(sandbox, start):
        inside = await output_of(start("ls", "-A"))
        other = LandlockSandbox("namespaces")
        confinement = other.confine(place.access(), place.work)
        await (await start_command(confinement, argv=["true"], cwd="/", env=ENV)).wait()
        await other.aclose()
        return inside, await output_of(start("sh", "-c", "exec 2>&1; touch .codex/x; ls -A"))

    inside, again = with_sandbox("namespaces", place, work)
    assert inside == ".agents\n.aws\n.codex\n.git\nfile\n"
    assert again == f"touch: cannot touch '.codex/x': Read-only file system\n{inside}"
    assert names(place.work) == [".git", "file"]


def locked(folder):
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def test_what_a_killed_launcher_left_goes_when_a_session_without_a_sandbox_starts(place, harness):
    """Those of a sandbox that is running stay."""
    if reason := harness.reason_to_skip("namespaces", "root" if os.geteuid() == 0 else "ordinary"):
        pytest.skip(reason)
    other = place.work / "other"
    other.mkdir()

    async def work(sandbox, start):
        assert (await output_of(start("ls", "-A"))) == ".agents\n.aws\n.codex\n.git\nfile\nother\n"
        os.kill(sandbox._launcher.pid, signal.SIGKILL)
        sandbox._launcher._process.wait()
        while locked(place.work / ".codex"):  # by an instance that is just being ended
            await asyncio.sleep(0.01)
        running = LandlockSandbox("namespaces")
        access = FileAccess.writing(other, read_only=[other / ".git"])
        command = await start_command(
            running.confine(access, other), argv=["cat"], cwd=str(other), env=ENV, keep_stdin_open=True
        )
        confinements = Confinements({}, None)
        left = names(place.work)
        for folder in (other, place.work):
            await confinements.warm(FileAccess(full=True, network=NetworkMode.ON), folder)
        at_once = names(place.work)
        for _ in range(1000):
            if names(place.work) != left:
                break
            await asyncio.sleep(0.02)
        held = names(other)
        await command.kill()
        await running.aclose()
        return left, at_once, names(place.work), held

    left, at_once, then, held = with_sandbox("namespaces", place, work)
    assert left == at_once == [".agents", ".aws", ".codex", ".git", "file", "other"]
    assert then == [".git", "file", "other"], "the repository is no placeholder"
    assert held == [".git"]


def test_a_root_that_is_replaced_is_noticed(level, place):
    root = place.work / "root"
    access = FileAccess.writing(root, read_only=[root / ".git"])

    async def work(sandbox, start):
        missing = await output_of(start("touch", str(root / "a")))
        root.mkdir()
        first = await output_of(start("touch", str(root / "a")))
        root.rename(place.work / "old")
        root.mkdir()
        second = await output_of(start("touch", str(root / "b")))
        return bool(missing), first, second

    assert with_sandbox(level, place, work, access) == (True, "", "")
    assert [path.name for path in root.iterdir()] == ["b"]


def test_unreadable_paths_cannot_be_read_and_without_namespaces_they_can_be_listed(level, place):
    access = place.access(unreadable=(place.outside / "victim", place.outside / "folder"))
    script = f"exec 2>&1; cat {place.outside}/victim; ls {place.outside}/folder; ls {place.outside}"

    async def work(sandbox, start):
        return await output_of(start("sh", "-c", script))

    lines = with_sandbox(level, place, work, access).splitlines()
    refused = ["Permission denied"] * (2 if level == "namespaces" else 1)
    assert [line.rsplit(": ", 1)[-1] for line in lines] == [*refused, "folder", "victim"]


def test_the_network_can_be_left_open(level, place):
    script = "python3 -c 'import socket; s = socket.create_server((\"127.0.0.1\", 0)); print(s.getsockname()[0])'"

    async def work(sandbox, start):
        return await output_of(start("sh", "-c", f"{script}; echo [$CODEX_SANDBOX_NETWORK_DISABLED]"))

    assert with_sandbox(level, place, work, place.access(network=True)) == "127.0.0.1\n[]\n"


def test_all_files_without_a_network(level, place):
    async def work(sandbox, start):
        return await output_of(start("sh", "-c", f"echo new > {place.outside}/victim; cat {place.outside}/victim"))

    assert with_sandbox(level, place, work, FileAccess(full=True)) == "new\n"


def test_a_protected_symlink_and_its_target_are_kept(place, harness):
    if reason := harness.reason_to_skip("namespaces", "root" if os.geteuid() == 0 else "ordinary"):
        pytest.skip(reason)
    target = place.work / "target"
    target.mkdir()
    (place.work / ".codex").symlink_to("target")

    async def work(sandbox, start):
        return await output_of(
            start("sh", "-c", "rm .codex; mv .codex x; touch .codex/a; mv target y; readlink .codex")
        )

    output = with_sandbox("namespaces", place, work)
    assert output.splitlines()[-1] == "target"
    assert names(place.work) == [".codex", ".git", "file", "target"]
    assert names(target) == []


def test_protected_paths_cannot_be_moved_away_with_their_parent(place, harness):
    if reason := harness.reason_to_skip("namespaces", "root" if os.geteuid() == 0 else "ordinary"):
        pytest.skip(reason)
    kept = place.work / "a" / "b" / "kept"
    kept.mkdir(parents=True)
    access = FileAccess.writing(place.work, read_only=[kept])

    async def work(sandbox, start):
        return await output_of(start("sh", "-c", "mv a x; mv a/b x; touch a/new a/b/new"))

    with_sandbox("namespaces", place, work, access)
    assert kept.is_dir()
    assert names(kept.parent) == ["kept", "new"]


def test_one_sandbox_serves_several_event_loops(level, place):
    sandbox = LandlockSandbox(level)
    confinement = sandbox.confine(place.access(), place.work)

    async def once():
        return await output_of(start_command(confinement, argv=["echo", "x"], cwd="/", env=ENV))

    try:
        assert [asyncio.run(once()) for _ in range(3)] == ["x\n"] * 3
    finally:
        asyncio.run(sandbox.aclose())


def test_a_repository_can_be_read_but_not_committed_to(level, place):
    shutil.rmtree(place.work / ".git")
    git = ["git", "-C", str(place.work), "-c", "user.name=n", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "file"], check=True)
    subprocess.run([*git, "commit", "-qm", "first"], check=True)
    (place.work / "file").write_text("changed\n")

    async def work(sandbox, start):
        status = await (await start("git", "status", "--short")).wait()
        commit = await (
            await start("git", "-c", "user.name=n", "-c", "user.email=a@b", "commit", "-qam", "second")
        ).wait()
        return status.output, commit.exit_code, is_sandbox_denial(commit, confined=True)

    assert with_sandbox(level, place, work) == (" M file\n", 128, True)
