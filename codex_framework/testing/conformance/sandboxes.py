"""The check of sandboxes: an honest report, faithful execution of commands, and effective confinement."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path

from codex_framework.contract.errors import CommandFailed, SandboxError
from codex_framework.contract.permissions.file_access import FileAccess, NetworkMode, PathRule
from codex_framework.contract.protocol.permissions import AccessMode
from codex_framework.contract.roles.sandboxes import ChildProcess, Confinement, Launch, Sandbox, SandboxReport
from codex_framework.testing.conformance.attempts import Attempt, Scene, create_scene, escapes, network_attempts
from codex_framework.testing.conformance.confined import Ended, Runner
from codex_framework.testing.conformance.findings import Findings, Unmet, run_check
from codex_framework.toolkit.roles import add_defaults

__all__ = ["check_sandbox"]

_WAITS = "/bin/sh -c 'echo ready; read never'"
"""A command that runs until the check closes its stdin, so nothing is left running even if the sandbox ends no processes."""

_PROBE_S = 1.0
"""Time limit in seconds. The role requires some milliseconds, but a busy machine may take longer."""


def check_sandbox(sandbox: Sandbox) -> None:
    """Check that a sandbox fulfils its role. It runs about seventy commands, half of which try to escape.

    A sandbox that is not available here must only report the reason and a hint.

    Raises:
        ContractViolation: It does not; every violation is listed.
    """
    findings = Findings("sandbox", sandbox)
    if findings.check_members(sandbox, Sandbox):
        sandbox = add_defaults(sandbox, Sandbox)
        findings.require_name(sandbox)
        run_check(findings, lambda: _whole(findings, sandbox))
    findings.raise_any()


async def _whole(findings: Findings, sandbox: Sandbox) -> None:
    try:
        # On a thread of its own, because it may take longer than anything may block the event loop.
        report: object = await asyncio.to_thread(findings.call, "probe()", sandbox.probe, within_s=_PROBE_S)
        if not isinstance(report, SandboxReport):
            findings.note(f"probe() returns {type(report).__name__}, not a SandboxReport")
        elif not report.available:
            _check_refusal(findings, sandbox, report)
        else:
            findings.require(report.level, "it is available, and its report names no level")
            with create_scene() as scene:
                await _check_confined(findings, sandbox, report, scene)
    finally:
        await findings.close_twice(sandbox.aclose, within_s=10.0)


def _check_refusal(findings: Findings, sandbox: Sandbox, report: SandboxReport) -> None:
    findings.require(report.reason, "it is not available, and its report gives no reason")
    findings.require(report.hint, "it is not available, and its report names no hint")
    try:
        findings.call(
            "confine()", lambda: sandbox.confine(FileAccess(), Path("/")), within_s=1.0, allowed=(SandboxError,)
        )
    except SandboxError:
        return
    findings.note("it is not available, and confine() returns a plan all the same; it must raise SandboxError")


async def _check_confined(findings: Findings, sandbox: Sandbox, report: SandboxReport, scene: Scene) -> None:
    runner = Runner(findings, scene.work)
    access = scene.access()
    confinement = _plan(findings, sandbox, access, scene)
    await _check_commands(findings, runner, confinement, scene)
    await _check_writing(findings, runner, confinement, scene, report)
    await _check_starting(findings, runner, confinement, scene)
    await _check_processes(findings, runner, confinement)
    await _check_terminal(findings, runner, confinement)
    await _try_attempts(findings, runner, confinement, scene, [*escapes(scene), *network_attempts(scene)])
    await _check_read_only(findings, sandbox, runner, scene)
    await _check_network(findings, sandbox, runner, scene, access)
    await _check_unreadable(findings, sandbox, runner, scene, access)
    await _check_background(findings, sandbox, runner, confinement)


def _plan(
    findings: Findings, sandbox: Sandbox, access: FileAccess, scene: Scene, *, may_refuse: bool = False
) -> Confinement:
    allowed = (SandboxError,) if may_refuse else ()
    confinement = findings.call("confine()", lambda: sandbox.confine(access, scene.work), within_s=1.0, allowed=allowed)
    if not findings.check_members(confinement, Confinement):
        raise Unmet
    confinement = add_defaults(confinement, Confinement)
    env: object = confinement.env
    fits = isinstance(env, Mapping) and all(isinstance(word, str) for pair in env.items() for word in pair)
    findings.require(fits, f"the env of its confinement is {env!r}, not a mapping of strings")
    return confinement


async def _try_attempts(
    findings: Findings, runner: Runner, confinement: Confinement, scene: Scene, attempts: list[Attempt], how: str = ""
) -> None:
    """Make the attempts one by one, because each requires the original state."""
    for attempt in attempts:
        try:
            ended = await runner.run(confinement, attempt.argv, what=f"an attempt to {attempt.what}")
        except (SandboxError, CommandFailed):
            continue  # refusing to start it is a confinement too
        except Unmet:
            continue
        if attempt.succeeded(ended.stdout):
            findings.note(f"a confined command can {attempt.what}{how}")
            scene.restore()


async def _check_commands(findings: Findings, runner: Runner, confinement: Confinement, scene: Scene) -> None:
    """Check the input and output of a command."""
    script = 'cat; echo err >&2; pwd; echo "$GIVEN"; exit 7'
    env = {**runner.environment(confinement), "GIVEN": "given \N{GREEK SMALL LETTER ALPHA}"}
    ended = await _run(findings, runner, confinement, ("/bin/sh", "-c", script), stdin=b"fed\n", env=env)
    want = f"fed\n{scene.work}\ngiven \N{GREEK SMALL LETTER ALPHA}\n"
    findings.require(ended.status == 7, f"a command that exits with 7 gives {ended}")
    findings.require(
        ended.stdout == want, f"stdin, cwd or env do not reach the command: {ended.stdout!r}, not {want!r}"
    )
    findings.require(ended.stderr == "err\n", f"what a command writes to stderr comes as {ended.stderr!r}")
    below = await _run(findings, runner, confinement, ("pwd",), cwd=str(scene.outside))
    findings.require(below.stdout == f"{scene.outside}\n", f"a command in a folder it may only read gives {below}")
    await _check_environment(findings, runner, confinement)
    killed = await _run(findings, runner, confinement, ("/bin/sh", "-c", "kill -9 $$"))
    findings.require(killed.status == -9, f"a command that signal 9 ends gives {killed}, not status -9")
    large = await _run(findings, runner, confinement, ("head", "-c", "3000000", "/dev/zero"))
    findings.require(len(large.stdout) == 3_000_000, f"of 3000000 bytes of output {len(large.stdout)} come")
    many = await asyncio.gather(
        *(_run(findings, runner, confinement, ("/bin/sh", "-c", f"exit {number}")) for number in range(8))
    )
    statuses = [ended.status for ended in many]
    findings.require(statuses == list(range(8)), f"eight commands at once give the statuses {statuses}")


async def _check_writing(
    findings: Findings, runner: Runner, confinement: Confinement, scene: Scene, report: SandboxReport
) -> None:
    """Check that writable paths can be written. A sandbox that reports this limit may refuse new files next to protected names."""
    folder = scene.work / "folder"
    script = f"echo more >> '{scene.work}/file'; echo new > '{folder}/new'; mv '{folder}/new' '{folder}/moved'"
    ended = await _run(findings, runner, confinement, ("/bin/sh", "-c", script))
    written = (scene.work / "file").read_text() == "file\nmore\n" and (folder / "moved").exists()
    findings.require(written, f"a confined command cannot write where it may: {ended}")
    ended = await _run(findings, runner, confinement, ("/bin/sh", "-c", f"echo x > '{scene.work}/new'"))
    made = (scene.work / "new").exists() or bool(report.reason)
    findings.require(made, f"a confined command cannot make a file where it may: {ended}")
    scene.restore()


async def _check_environment(findings: Findings, runner: Runner, confinement: Confinement) -> None:
    os.environ["CODEX_CHECK_LEAK"] = "leaked"
    try:
        ended = await _run(findings, runner, confinement, ("env",), env={"PATH": os.defpath, "ONLY": "this"})
    finally:
        del os.environ["CODEX_CHECK_LEAK"]
    findings.require("ONLY=this" in ended.stdout, f"a variable of the launch is missing: {ended}")
    findings.require("CODEX_CHECK_LEAK" not in ended.stdout, "variables of this process reach the command")


async def _check_starting(findings: Findings, runner: Runner, confinement: Confinement, scene: Scene) -> None:
    """Check that a failed start raises CommandFailed."""
    cases: dict[str, tuple[tuple[str, ...], str]] = {
        "a program that does not exist": (("no-such-program-4711",), str(scene.work)),
        "a path that does not exist": ((str(scene.work / "no-such-program"),), str(scene.work)),
        "a file that may not be executed": ((str(scene.work / "plain"),), str(scene.work)),
        "a folder that does not exist": (("pwd",), str(scene.work / "no such folder")),
        "a folder that is a file": (("pwd",), str(scene.work / "plain")),
    }
    for what, (argv, cwd) in cases.items():
        try:
            ended = await runner.run(confinement, argv, cwd=cwd, what=f"a command with {what}")
        except CommandFailed as error:
            findings.require(str(error).strip(), f"starting with {what} raises a CommandFailed without text")
        except SandboxError as error:
            findings.note(f"starting with {what} raises SandboxError ({error}), not CommandFailed")
        except Unmet:
            continue
        else:
            findings.note(f"starting with {what} returns {ended}; it must raise CommandFailed")


async def _check_processes(findings: Findings, runner: Runner, confinement: Confinement) -> None:
    """Check that a child leads its group, that signals reach the group, and that its status is kept."""
    child, held = await _start(findings, runner, confinement, f"exec 3<&0; {_WAITS} <&3 & wait")
    try:
        if not findings.check_members(child, ChildProcess):
            raise Unmet
        await held.ready(findings)
        findings.require(
            _group(child.pid) == child.pid, f"the child {child.pid} is not the leader of its process group"
        )
        child.signal(signal.SIGKILL)
        first = await findings.wait_for("wait() after SIGKILL", child.wait(), within_s=5.0)
        second = await findings.wait_for("a second wait()", child.wait(), within_s=5.0)
        same = (first, second) == (-9, -9)
        findings.require(same, f"two waits for a killed child give {first} and {second}, not -9 twice")
        findings.require(await held.ended(), "a signal does not reach the whole group: a background child lives on")
        findings.call("signal() after the end", lambda: child.signal(signal.SIGTERM), within_s=1.0)
    finally:
        held.close()


async def _check_terminal(findings: Findings, runner: Runner, confinement: Confinement) -> None:
    """Check that with ``tty`` the descriptors are the child's controlling terminal, and that it can be resized."""
    import termios

    outer, inner = os.openpty()
    script = "test -t 0 && test -t 1 && test -t 2 && echo ends; echo controlled > /dev/tty; read x; stty size"
    env = runner.environment(confinement)
    argv = ("/bin/sh", "-c", script)
    launch = Launch(argv=argv, cwd=str(runner.cwd), env=env, stdin=inner, stdout=inner, stderr=inner, tty=True)
    try:
        child = await findings.wait_for("starting a command on a terminal", confinement.start(launch), within_s=20.0)
        termios.tcsetwinsize(outer, (40, 120))
        os.write(outer, b"\n")
        await findings.wait_for("a command on a terminal", child.wait(), within_s=20.0)
        os.write(inner, b"[end]")  # so that reading ends, whatever was printed
        printed = b""
        while b"[end]" not in printed:  # a terminal passes output on in pieces
            printed += os.read(outer, 4096)
        said = printed.decode("utf-8", "replace")
    finally:
        os.close(inner)
        os.close(outer)
    findings.require("ends" in said, f"with tty, the command's descriptors are no terminals: {said!r}")
    findings.require("controlled" in said, f"with tty, the terminal is not the command's controlling one: {said!r}")
    findings.require("40 120" in said, f"the command's terminal does not have the size that it was given: {said!r}")


def _group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None


async def _check_background(findings: Findings, sandbox: Sandbox, runner: Runner, confinement: Confinement) -> None:
    """Check that background processes of a command end with the sandbox at the latest."""
    if shutil.which("setsid") is None:
        return
    child, held = await _start(findings, runner, confinement, f"exec 3<&0; setsid {_WAITS} <&3 & wait")
    try:
        await held.ready(findings)
        await findings.wait_for("aclose() while a command runs", sandbox.aclose(), within_s=10.0)
        child.signal(signal.SIGKILL)
        await findings.wait_for("wait() after aclose()", child.wait(), within_s=5.0)
        text = "a background child in a session of its own outlives its command and the sandbox"
        findings.require(await held.ended(), text)
    finally:
        held.close()


async def _check_read_only(findings: Findings, sandbox: Sandbox, runner: Runner, scene: Scene) -> None:
    confinement = _plan(findings, sandbox, FileAccess(), scene)
    file = scene.work / "file"
    read = await _run(findings, runner, confinement, ("cat", str(file)))
    findings.require(read.stdout == "file\n", f"where nothing may be written, reading a file gives {read}")
    changed = Attempt(
        what="write into the workspace",
        argv=("/bin/sh", "-c", f"echo x > '{file}'"),
        succeeded=lambda _: file.read_text() != "file\n",
    )
    await _try_attempts(findings, runner, confinement, scene, [changed], " where nothing may be written")


async def _check_network(
    findings: Findings, sandbox: Sandbox, runner: Runner, scene: Scene, access: FileAccess
) -> None:
    attempts = network_attempts(scene)
    full = _plan(findings, sandbox, FileAccess(full=True), scene)
    await _try_attempts(findings, runner, full, scene, attempts, " where all files may be written")
    free = await _run(findings, runner, full, ("/bin/sh", "-c", f"echo x > '{scene.outside}/free'"))
    findings.require(
        (scene.outside / "free").exists(), f"with access to all files one outside cannot be written: {free}"
    )
    online = _plan(findings, sandbox, access.evolve(network=NetworkMode.ON), scene)
    ended = await _run(findings, runner, online, attempts[0].argv)
    findings.require(attempts[0].succeeded(ended.stdout), f"where the network is on, a command cannot connect: {ended}")


async def _check_unreadable(
    findings: Findings, sandbox: Sandbox, runner: Runner, scene: Scene, access: FileAccess
) -> None:
    hidden = access.evolve(rules=(*access.rules, PathRule(scene.outside / "private", AccessMode.DENY)))
    try:
        confinement = _plan(findings, sandbox, hidden, scene, may_refuse=True)
        ended = await _run(findings, runner, confinement, ("cat", str(scene.outside / "private")))
    except SandboxError:
        return  # it reports that it cannot do this
    findings.require("private\n" not in ended.stdout, "a confined command can read what it may not")


async def _run(
    findings: Findings,
    runner: Runner,
    confinement: Confinement,
    argv: tuple[str, ...],
    *,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
) -> Ended:
    """Run a command that must succeed in starting.

    Raises:
        Unmet: It did not start, which is noted.
    """
    what = f"the command {' '.join(argv)[:80]!r}"
    try:
        return await runner.run(confinement, argv, stdin=stdin, env=env, cwd=cwd, what=what)
    except CommandFailed as error:
        findings.note(f"{what} cannot be started: {error}")
        raise Unmet from error


class _Held:
    """The outer ends of a running command's stdin and output. Its output ends when the last process with the descriptor ends."""

    def __init__(self, feed: int, output: asyncio.StreamReader, transport: asyncio.ReadTransport) -> None:
        self._feed = feed
        self._output = output
        self._transport = transport

    async def ready(self, findings: Findings) -> None:
        """Wait for its first line of output."""
        line = await findings.wait_for("the first line of a command", self._output.readline(), within_s=5.0)
        findings.require(line == b"ready\n", f"a command that prints 'ready' gives {line!r}")

    async def ended(self) -> bool:
        """Return whether all its processes have ended or end soon."""
        try:
            async with asyncio.timeout(2.0):
                await self._output.read()
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        """Close the ends, which ends processes that are still running."""
        os.close(self._feed)
        self._transport.close()


async def _start(
    findings: Findings, runner: Runner, confinement: Confinement, script: str
) -> tuple[ChildProcess, _Held]:
    """Start a command that keeps running."""
    stdin, feed = os.pipe()
    output, stdout = os.pipe()
    try:
        launch = Launch(
            argv=("/bin/sh", "-c", script),
            cwd=str(runner.cwd),
            env=runner.environment(confinement),
            stdin=stdin,
            stdout=stdout,
            stderr=stdout,
        )
        child = await findings.wait_for("starting a command that goes on", confinement.start(launch), within_s=20.0)
    except BaseException:
        os.close(feed)
        os.close(output)
        raise
    finally:
        os.close(stdin)
        os.close(stdout)
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    pipe = os.fdopen(output, "rb", 0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return child, _Held(feed, reader, transport)
