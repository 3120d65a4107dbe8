"""Commands that take all they can get, and sandboxes that get ready ahead."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from codex_framework.commands.process.running import start_command
from codex_framework.contract.errors import SandboxError
from codex_plugin_landlock.sandbox import LandlockSandbox

pytestmark = pytest.mark.slow

ENV = {"PATH": os.defpath + ":/usr/local/bin", "LANG": "C.UTF-8"}
GIGABYTE = 1 << 30


@pytest.fixture(params=["namespaces", "landlock"])
def level(request, harness):
    reason = harness.reason_to_skip(request.param, "root" if os.geteuid() == 0 else "ordinary")
    if reason:
        pytest.skip(reason)
    return request.param


def with_sandbox(level, place, work, **options):
    async def main():
        sandbox = LandlockSandbox(level, **options)
        confinement = sandbox.confine(place.access(), place.work)

        def start(*argv, env=ENV, **options):
            return start_command(confinement, argv=argv, cwd=str(place.work), env=env, **options)

        try:
            return await work(sandbox, confinement, start)
        finally:
            await sandbox.aclose()

    return asyncio.run(main())


def resident_mb():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


def marked(marker):
    """Processes with this word in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if marker.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def test_a_gigabyte_of_output_takes_bounded_memory(level, place):
    async def work(sandbox, confinement, start):
        before = resident_mb()
        ended = await (await start("head", "-c", str(GIGABYTE), "/dev/zero")).wait()
        return ended.exit_code, ended.total_bytes, resident_mb() - before < 30

    assert with_sandbox(level, place, work) == (0, GIGABYTE, True)


def test_a_burst_of_forks_ends_with_its_command(level, place):
    """128 processes, each in a session of its own: as many as is kind to the machine."""
    marker = uuid.uuid4().hex
    script = (
        "import os, time\n"
        "main = os.getpid()\n"
        "for _ in range(7):\n"
        "    os.fork()\n"
        "if os.getpid() != main:\n"
        "    os.setsid()\n"
        "    open('count', 'a').write('x')\n"
        "    time.sleep(100)\n"
        "while os.path.getsize('count') < 127: time.sleep(0.01)\n"
    )

    async def work(sandbox, confinement, start):
        env = {**ENV, "MARKER": marker}
        (place.work / "count").touch()
        ended = await (await start("python3", "-S", "-c", script, env=env, drain_ms=0, timeout_ms=60_000)).wait()
        return ended.exit_code, ended.output, marked(marker)

    assert with_sandbox(level, place, work) == (0, "", [])
    assert (place.work / "count").stat().st_size == 127


def test_the_number_of_processes_is_bounded_where_the_system_can(place, harness):
    reason = harness.reason_to_skip("namespaces", "root" if os.geteuid() == 0 else "ordinary")
    release = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    if reason or release < (6, 14):
        pytest.skip(reason or "pid_max belongs to a process namespace only from Linux 6.14 on")

    async def work(sandbox, confinement, start):
        return (await (await start("cat", "/proc/sys/kernel/pid_max")).wait()).output

    assert (
        with_sandbox("namespaces", place, work) == "4396\n"
    )  # 300 more: so many ids are lost once they have gone round


def test_a_process_that_ignores_sigterm_is_killed(level, place):
    marker = uuid.uuid4().hex

    async def work(sandbox, confinement, start):
        command = await start(
            "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done", env={**ENV, "M": marker}
        )
        async for _ in command.chunks():
            break
        await command.kill()
        return command.exit_code, marked(marker)

    assert with_sandbox(level, place, work) == (128 + signal.SIGKILL, [])


def test_a_warmed_sandbox_uses_what_it_has_started(level, place):
    async def work(sandbox, confinement, start):
        await confinement.warm()
        launcher = sandbox._launcher.pid
        await confinement.warm()
        (instance,) = sandbox._idle[confinement.plan.key]
        ended = await (await start("echo", "ran")).wait()
        return ended.output, sandbox._launcher.pid == launcher, sandbox._idle[confinement.plan.key] == [instance]

    assert with_sandbox(level, place, work) == ("ran\n", True, True)


@pytest.mark.parametrize("pause", [0.0, 0.005, 0.02, 0.1])
def test_a_sandbox_that_was_only_warmed_leaves_nothing(level, place, pause):
    async def work(sandbox, confinement, start):
        await confinement.warm()
        launcher = sandbox._launcher.pid
        await asyncio.sleep(pause)
        await sandbox.aclose()
        left = sorted(path.name for path in place.work.iterdir())
        return launcher, left

    launcher, left = with_sandbox(level, place, work)
    assert left == [".git", "file"]
    until = time.monotonic() + 60
    while Path(f"/proc/{launcher}").exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert not Path(f"/proc/{launcher}").exists()


def test_warming_leaves_errors_to_the_first_command(place):
    async def work(sandbox, confinement, start):
        await confinement.warm()
        return sandbox._launcher.pid

    assert with_sandbox(None, place, work, python="/no/such/python") is None


WITHIN_S = 30
"""How long the end of something is awaited; it comes at once on an idle machine."""

CONFIG = """
model = "gpt-5.5"
model_provider = "script"
sandbox_mode = "workspace-write"
approval_policy = "never"
[model_providers.script]
name = "script"
wire_api = "replay"
script = "{folder}/script.toml"
[projects."{work}"]
trust_level = "trusted"
"""

SCRIPT = """
[[responses]]
output = [{{ call = "exec_command", arguments = {{ cmd = "{command}", yield_time_ms = 60000 }} }}]
"""


def eventually(condition):
    until = time.monotonic() + WITHIN_S
    while not condition() and time.monotonic() < until:
        time.sleep(0.02)
    return condition()


def test_nothing_outlives_a_killed_kernel(place, harness, tmp_path):
    """A whole agent is killed while its model's command runs, with a daemon of it."""
    if reason := harness.reason_to_skip("namespaces", "root" if os.geteuid() == 0 else "ordinary"):
        pytest.skip(reason)
    marker = uuid.uuid4().hex
    command = f"(MARKER={marker} setsid sleep 1000 &) ; ls -A > seen; MARKER={marker} sleep 1000"
    (tmp_path / "config.toml").write_text(CONFIG.format(folder=tmp_path, work=place.work))
    (tmp_path / "script.toml").write_text(SCRIPT.format(command=command))
    code = "import sys; from codex_framework.cli.main import main; sys.exit(main())"
    argv = [sys.executable, "-c", code, "exec", "--skip-git-repo-check", "-C", str(place.work), "go"]
    env = {**os.environ, "CODEX_HOME": str(tmp_path)}
    kernel = subprocess.Popen(
        argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert kernel.stdout is not None
    with kernel.stdout:
        started = eventually(lambda: len(marked(marker)) == 2 or kernel.poll() is not None)
        kernel.kill()
        kernel.wait()
        assert started
        assert len((place.work / "seen").read_text().split()) == 6, kernel.stdout.read()
    assert eventually(lambda: not marked(marker))
    assert eventually(lambda: sorted(path.name for path in place.work.iterdir()) == [".git", "file", "seen"])


def test_a_set_up_that_hangs_is_given_up(level, place):
    async def work(sandbox, confinement, start):
        await (await start("true")).wait()
        for idle in sandbox._idle.values():
            while idle:
                idle.pop().close()
        os.kill(sandbox._launcher.pid, signal.SIGSTOP)
        try:
            with pytest.raises(SandboxError, match=r"was not set up within 0\.5 s") as caught:
                await start("touch", "ran")
        finally:
            os.kill(sandbox._launcher.pid, signal.SIGCONT)
        return caught.value.hint, (await (await start("echo", "next")).wait()).output

    hint, output = with_sandbox(level, place, work, set_up_s=0.5)
    assert (bool(hint), output) == (True, "next\n")
    assert not (place.work / "ran").exists()


def test_a_sandbox_that_does_not_answer_is_given_up(level, place):
    async def work(sandbox, confinement, start):
        await (await start("true")).wait()
        ((instance,),) = sandbox._idle.values()
        os.kill(sandbox._launcher.pid, signal.SIGSTOP)  # it would end an instance that is stopped
        os.kill(instance._pid, signal.SIGSTOP)
        with pytest.raises(SandboxError, match=r"did not answer within 0\.5 s"):
            await start("touch", "ran")
        for pid in (instance._pid, sandbox._launcher.pid):
            os.kill(pid, signal.SIGCONT)
        return (await (await start("echo", "next")).wait()).output

    assert with_sandbox(level, place, work, set_up_s=0.5) == "next\n"


def test_a_killed_instance_takes_its_command_along(level, place):
    marker = uuid.uuid4().hex

    async def work(sandbox, confinement, start):
        script = "(setsid sleep 1000 &); (setsid setsid sleep 1000 &); echo ready; sleep 1000"
        command = await start("sh", "-c", script, env={**ENV, "MARKER": marker})
        async for _ in command.chunks():
            break
        (instance,) = sandbox._busy
        os.kill(instance._pid, signal.SIGKILL)
        ended = await command.wait()
        gone = await asyncio.to_thread(eventually, lambda: not marked(marker))
        return ended.exit_code, gone, (await (await start("echo", "next")).wait()).output

    assert with_sandbox(level, place, work) == (128 + signal.SIGKILL, True, "next\n")
