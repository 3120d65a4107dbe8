"""The check of environments: correct commands and files, and permissions that are enforced in the remote environment."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from codex_framework.contract.errors import CommandFailed, SandboxError
from codex_framework.contract.permissions.file_access import FileAccess, NetworkMode, PathRule
from codex_framework.contract.protocol.permissions import AccessMode
from codex_framework.contract.roles.environments import (
    Environment,
    EnvironmentEntry,
    EnvironmentFiles,
    EnvironmentInfo,
    is_environment_id,
)
from codex_framework.contract.roles.sandboxes import ChildProcess, Confinement, Launch
from codex_framework.testing.conformance.confined import Ended, Runner
from codex_framework.testing.conformance.findings import Findings, Unmet, run_check
from codex_framework.toolkit.roles import add_defaults

__all__ = ["check_environment"]

_WITHIN_S = 20.0
_AT_ONCE_S = 1.0
"""Time limit of steps that must not wait for the environment, in seconds."""

_FULL = FileAccess(full=True, network=NetworkMode.ON, elsewhere=True)
_LIMIT = 10_000_000
_BYTES = b"one\n\xff\0two\n" * 1000


def check_environment(
    environment: Environment, folder: str, *, close: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Check that an environment fulfils its role. It runs about thirty commands there, and reads and changes files in as many ways.

    The environment must have a POSIX system with ``/bin/sh``, and must not be connected yet.

    Args:
        folder: An empty folder there, which the check fills. It must not be in ``/tmp`` if that is always writable there.
        close: Disconnects from the environment. Awaited at the end.

    Raises:
        ContractViolation: It does not; every violation is listed.
    """
    findings = Findings("environment", environment)
    if findings.check_members(environment, Environment):
        whole: Environment = add_defaults(environment, Environment)
        fits = is_environment_id(whole.id)
        findings.require(
            fits, f"its id is {whole.id!r}, not one of ASCII letters, digits, `-` and `_`, or it is reserved"
        )
        run_check(findings, lambda: _whole(findings, whole, folder, close))
    findings.raise_any()


async def _whole(
    findings: Findings, environment: Environment, folder: str, close: Callable[[], Awaitable[None]] | None
) -> None:
    try:
        await _check_connecting(findings, environment)
        check = _Check(findings, environment, folder)
        await check.prepare()
        for part in _PARTS:
            with contextlib.suppress(Unmet):
                await part(check)
    finally:
        if close is not None:
            await findings.wait_for("close()", close(), within_s=_WITHIN_S)


async def _check_connecting(findings: Findings, environment: Environment) -> None:
    before: object = environment.info
    findings.require(
        before is None or isinstance(before, EnvironmentInfo),
        f"its info is {before!r}, neither None nor EnvironmentInfo",
    )
    connected = await asyncio.gather(
        *(findings.wait_for("connect()", environment.connect(), within_s=_WITHIN_S) for _ in range(3)),
        return_exceptions=True,
    )
    infos: list[object] = [info for info in connected if not isinstance(info, Unmet)]
    if not infos or not all(isinstance(info, EnvironmentInfo) for info in infos):
        findings.require(not infos, f"connect() returns {infos!r:.200}, not EnvironmentInfo")
        raise Unmet
    findings.require(all(info == infos[0] for info in infos), f"three calls of connect() return {infos}")
    now, fault = environment.info, environment.fault
    findings.require(now == infos[0], f"after connect(), which returned {infos[0]!r}, its info is {now!r}")
    findings.require(fault == "", f"after connect(), its fault is {fault!r}, not an empty text")
    if isinstance(now, EnvironmentInfo):
        for name, path in (("shell", now.shell), ("home", now.home or "/"), ("temporary", now.temporary or "/")):
            findings.require(path.startswith("/"), f"the {name} of its info is {path!r}, not an absolute path")


class _Check:
    """The folders of the check, and the unrestricted plans and files for inspecting them.

    Attributes:
        work: A folder that commands and files may write, except ``.git`` in it. ``private`` in it must not be read.
        outside: A folder that must not be written.
    """

    def __init__(self, findings: Findings, environment: Environment, folder: str) -> None:
        self.findings = findings
        self.environment = environment
        self.work = f"{folder}/work"
        self.outside = f"{folder}/outside"
        self.runner = Runner(findings, Path(self.work))
        self.everything = self.files(_FULL)
        rules = (
            PathRule(Path(self.outside), AccessMode.READ),
            PathRule(Path(self.work), AccessMode.WRITE),
            PathRule(Path(f"{self.work}/.git"), AccessMode.READ),
            PathRule(Path(f"{self.work}/private"), AccessMode.DENY),
        )
        self.limited = FileAccess(
            otherwise=AccessMode.READ, rules=tuple(sorted(rules, key=lambda rule: str(rule.path))), elsewhere=True
        )
        self.read_only = FileAccess(otherwise=AccessMode.READ, elsewhere=True)

    def files(self, access: FileAccess) -> EnvironmentFiles:
        """Return the files within an access. Anything else ends this part of the check."""
        found: EnvironmentFiles = self.findings.call(
            "files()", lambda: self.environment.files(access, self.work), within_s=_AT_ONCE_S
        )
        if not self.findings.check_members(found, EnvironmentFiles):
            raise Unmet
        return found

    def plan(self, access: FileAccess, variables: Mapping[str, Any] | None = None) -> Confinement:
        """Return the plan for an access. Anything else ends this part of the check."""
        plan = self.findings.call(
            "confine()", lambda: self.environment.confine(access, self.work, variables or {}), within_s=_AT_ONCE_S
        )
        if not self.findings.check_members(plan, Confinement):
            raise Unmet
        whole: Confinement = add_defaults(plan, Confinement)
        return whole

    async def run_script(self, plan: Confinement, script: str, **env: str) -> Ended:
        """Run a script that must start, with exactly these variables."""
        what = f"the command {script[:60]!r}"
        try:
            argv = ("/bin/sh", "-c", script)
            return await self.runner.run(plan, argv, stdin=None, env={**plan.env, **env}, what=what)
        except (CommandFailed, SandboxError) as error:
            self.findings.note(f"{what} cannot be started: {error}")
            raise Unmet from error

    async def await_success(self, what: str, work: Awaitable[Any]) -> Any:
        """Await an awaitable that must succeed."""
        return await self.findings.wait_for(what, work, within_s=_WITHIN_S)

    async def await_error(self, what: str, work: Awaitable[Any], kind: type[OSError]) -> None:
        """Await an awaitable that must fail with an error of this kind."""
        try:
            found = await self.findings.wait_for(what, work, within_s=_WITHIN_S, allowed=(OSError,))
        except OSError as error:
            fits = isinstance(error, kind) and not isinstance(error, ConnectionError)
            self.findings.require(fits, f"{what} raises {type(error).__name__} ({error}), not {kind.__name__}")
        except Unmet:
            return
        else:
            self.findings.note(f"{what} returns {found!r:.80}; it must raise {kind.__name__}")

    async def text(self, path: str) -> str | None:
        """Return a file as it really is, if it exists."""
        try:
            return (await self.everything.read(path, _LIMIT)).decode("utf-8", "replace")
        except OSError:
            return None

    async def prepare(self) -> None:
        """Make the folders."""
        for path in (f"{self.work}/file", f"{self.work}/private", f"{self.work}/.git/config", f"{self.outside}/file"):
            await self.await_success(f"writing {path} without limits", self.everything.write(path, b"kept\n"))
            text = await self.text(path)
            self.findings.require(text == "kept\n", f"{path} was written, and reading it gives {text!r}")
        links = (
            f"ln -s '{self.outside}' '{self.work}/out' && ln -s '{self.work}/private' '{self.work}/link'"
            f" && ln -s file '{self.work}/alias'"
        )
        await self.run_script(self.plan(_FULL), links)


async def _check_commands(check: _Check) -> None:
    require = check.findings.require
    plan = check.plan(check.limited, {"set": {"CODEX_CHECK_SET": "set"}})
    os.environ["CODEX_CHECK_LEAK"] = "leaked"
    try:
        ended = await check.run_script(
            plan, 'pwd; echo "$GIVEN $CODEX_CHECK_SET$CODEX_CHECK_LEAK"; echo err >&2; exit 7', GIVEN="given α"
        )
    finally:
        del os.environ["CODEX_CHECK_LEAK"]
    require(ended.status == 7, f"a command that exits with 7 gives {ended}")
    require(ended.stderr == "err\n", f"what a command writes to stderr comes as {ended.stderr!r}")
    want = f"{check.work}\ngiven α set\n"
    require(ended.stdout == want, f"folder and variables come as {ended.stdout!r}, not {want!r}")
    large = await check.run_script(plan, "head -c 3000000 /dev/zero")
    require(len(large.stdout) == 3_000_000, f"of 3000000 bytes of output {len(large.stdout)} come")
    many = await asyncio.gather(*(check.run_script(plan, f"echo {number}; exit {number}") for number in range(6)))
    found = [(ended.status, ended.stdout) for ended in many]
    require(found == [(number, f"{number}\n") for number in range(6)], f"six commands at once give {found}")


async def _check_starting(check: _Check) -> None:
    """Check what cannot be started. A sandbox may notice only later that there is no such program."""
    for what, argv, cwd in (
        ("a program that does not exist", ("/no/such/program-4711",), check.work),
        ("a folder that does not exist", ("/bin/sh", "-c", "exit 0"), f"{check.work}/no such folder"),
    ):
        for access in (_FULL, check.limited):
            try:
                ended = await check.runner.run(check.plan(access), argv, stdin=None, env={}, cwd=cwd, what=what)
            except CommandFailed as error:
                check.findings.require(str(error).strip(), f"starting with {what} raises a CommandFailed without text")
            except SandboxError as error:
                check.findings.note(f"starting with {what} raises SandboxError ({error}), not CommandFailed")
            else:
                check.findings.require(ended.status != 0, f"a command with {what} ends with status 0")


async def _check_limits(check: _Check) -> None:
    """Check that commands cannot exceed their permissions. The effects are inspected without restrictions."""
    limited, read_only = check.plan(check.limited), check.plan(check.read_only)
    attempts = (
        (limited, "write where it may", f"{check.work}/file", True),
        (limited, "write outside of its folders", f"{check.outside}/file", False),
        (limited, "write through a symlink that leads out", f"{check.work}/out/file", False),
        (limited, "write into a protected folder", f"{check.work}/.git/config", False),
        (read_only, "write where nothing may be written", f"{check.work}/file", False),
    )
    for plan, what, path, may in attempts:
        ended = await check.run_script(plan, f"echo written >> '{path}'")
        found = await check.text(path) == "kept\nwritten\n"
        if found != may:
            check.findings.note(f"a command {'cannot' if may else 'can'} {what}: {ended}")
        await check.await_success(f"writing {path} without limits", check.everything.write(path, b"kept\n"))
    for name in ("private", "link"):
        ended = await check.run_script(limited, f"cat '{check.work}/{name}'")
        check.findings.require("kept" not in ended.stdout, f"a command can read what it may not ({name})")
    ended = await check.run_script(check.plan(_FULL), f"echo free > '{check.outside}/free'; cat '{check.work}/private'")
    is_free = await check.text(f"{check.outside}/free") == "free\n" and ended.stdout == "kept\n"
    check.findings.require(is_free, f"a command without limits cannot read and write everything: {ended}")


async def _check_unenforced(check: _Check) -> None:
    """Check that unenforceable permissions are refused: the environment cannot restrict commands to the network of some hosts."""
    for what, access in (
        ("a network through a proxy", check.limited.evolve(network=NetworkMode.PROXY)),
        ("a limit on memory", check.limited.evolve(limits=check.limited.limits.evolve(memory_bytes=1 << 20))),
    ):
        try:
            plan = check.environment.confine(access, check.work, {})
            # What may be refused only at the start, or be enforced: this takes 8 MB, and a proxy that is nowhere.
            ended = await check.run_script(
                add_defaults(plan, Confinement), "x=$(head -c 8000000 /dev/zero | tr '\\0' x); echo ${#x}"
            )
        except SandboxError as error:
            check.findings.require(error.hint, f"confine() refuses {what} without a hint")
        except Unmet:
            continue
        else:
            is_enforced = what != "a network through a proxy" and "8000000" not in ended.stdout
            check.findings.require(
                is_enforced, f"confine() takes {what} and does not enforce it; it must raise SandboxError"
            )


async def _check_processes(check: _Check) -> None:
    require, work = check.findings.require, check.work
    script = f"sleep 300 & echo $! > '{work}/pid'; echo ready; wait"
    with _Output() as output:
        child = await _start(check, check.plan(_FULL), script, output)
        require(child.pid == 0, f"the pid of a process there is {child.pid}, not 0: it is no process of this machine")
        await output.ready(check.findings)
        child.signal(signal.SIGKILL)
        first = await check.await_success("wait() after SIGKILL", child.wait())
        second = await check.await_success("a second wait()", child.wait())
        require(first == second != 0, f"two waits for a killed child give {first} and {second}")
        with contextlib.suppress(Unmet):
            check.findings.call("signal() after the end", lambda: child.signal(signal.SIGTERM), within_s=_AT_ONCE_S)
    pid = f"$(cat '{work}/pid')"
    lives = f"kill -0 {pid} && ! grep -q ' Z ' /proc/{pid}/stat"
    ended = await check.run_script(
        check.plan(_FULL), f"for n in 1 2 3 4 5 6 7 8 9; do {lives} || exit; sleep 0.1; done; echo lives"
    )
    require("lives" not in ended.stdout, "a signal does not reach the whole group: a background child lives on")


async def _check_terminal(check: _Check) -> None:
    """Check that a command with ``tty`` has a terminal and reads typed input."""
    with _Output() as output:
        plan = check.plan(_FULL)
        child = await _start(check, plan, "test -t 0 && test -t 1 && echo ends; read x; echo got $x", output, tty=True)
        terminal = child.take_terminal()
        if terminal is None:
            child.signal(signal.SIGKILL)
            check.findings.note("take_terminal() returns None, but the terminal of the launch is one of this machine")
            return
        with (
            socket.socket(fileno=terminal)
            if _is_socket(terminal)
            else os.fdopen(terminal, "r+b", buffering=0) as stream
        ):
            os.write(stream.fileno(), b"typed\n")
            await check.await_success("a command on a terminal", child.wait())
            said = await asyncio.get_running_loop().run_in_executor(None, _read_all, stream.fileno())
    check.findings.require("ends" in said, f"with tty, the command's input and output are no terminals: {said!r}")
    check.findings.require("got typed" in said, f"with tty, what is typed does not reach the command: {said!r}")


async def _check_files(check: _Check) -> None:
    files, work, require = check.files(check.limited), check.work, check.findings.require
    deep = f"{work}/new/deep/data"
    await check.await_success("write() below folders that do not exist", files.write(deep, _BYTES))
    data: object = await check.await_success("read()", files.read(deep, len(_BYTES)))
    require(data == _BYTES, "a file is not read as it was written")
    await check.await_error("read() of more bytes than its limit", files.read(deep, len(_BYTES) - 1), OSError)
    await check.await_error("read() of a file that does not exist", files.read(f"{work}/none", 1), FileNotFoundError)
    await check.await_error("read() of a folder", files.read(f"{work}/new", _LIMIT), OSError)
    await check.await_error("list() of a folder that does not exist", files.list(f"{work}/none"), FileNotFoundError)
    entries: Sequence[EnvironmentEntry] = await check.await_success("list()", files.list(work))
    found = [(entry.name, entry.kind) for entry in entries]
    want = [(".git", "folder"), ("file", "file"), ("new", "folder")]
    ordered = [entry for entry in found if entry in want]
    require(ordered == want and found == sorted(found), f"list() returns {found}; {want} are in the folder")
    real = await check.await_success("real_path()", files.real_path(f"{work}/out/none/x"))
    require(real == f"{check.outside}/none/x", f"real_path() of a path through a symlink returns {real!r}")
    await check.await_success("remove() of a symlink", files.remove(f"{work}/alias"))
    gone, kept = await check.text(f"{work}/alias") is None, await check.text(f"{work}/file") == "kept\n"
    require(gone and kept, "remove() of a symlink does not remove the symlink alone")
    await check.await_success("remove()", files.remove(deep))
    require(await check.text(deep) is None, "remove() leaves a file")
    await check.await_error("remove() of a file that does not exist", files.remove(deep), FileNotFoundError)


async def _check_permissions(check: _Check) -> None:
    files, read_only = check.files(check.limited), check.files(check.read_only)
    for who, what, path in (
        (files, "outside of the folders", f"{check.outside}/file"),
        (files, "through a symlink that leads out", f"{check.work}/out/file"),
        (files, "in a protected folder", f"{check.work}/.git/config"),
        (read_only, "where nothing may be written", f"{check.work}/file"),
    ):
        await check.await_error(f"write() {what}", who.write(path, b"x"), PermissionError)
        await check.await_error(f"remove() {what}", who.remove(path), PermissionError)
        text = await check.text(path)
        check.findings.require(text == "kept\n", f"write() or remove() {what} has an effect: {text!r}")
        await check.await_success(f"writing {path} without limits", check.everything.write(path, b"kept\n"))
    for name in ("private", "link"):
        await check.await_error(
            f"read() of what must not be read ({name})", files.read(f"{check.work}/{name}", _LIMIT), PermissionError
        )


async def _check_approved(check: _Check) -> None:
    """Check that an approval opens up one path, and nothing else."""
    files, path, other = check.files(check.limited), f"{check.outside}/approved", f"{check.outside}/file"
    wider = check.findings.call("with_writable()", lambda: files.with_writable((path,)), within_s=_AT_ONCE_S)
    if not check.findings.check_members(wider, EnvironmentFiles):
        raise Unmet
    await check.await_error("write() of what was approved for others", files.write(path, b"x"), PermissionError)
    await check.await_error("write() beside what was approved", wider.write(other, b"x"), PermissionError)
    await check.await_success("write() of what was approved", wider.write(path, b"approved"))
    text = await check.text(path)
    check.findings.require(text == "approved", f"write() of what was approved leaves {text!r}")
    await check.await_success("remove() of what was approved", wider.remove(path))


_PARTS: tuple[Callable[[_Check], Awaitable[None]], ...] = (
    _check_commands,
    _check_starting,
    _check_limits,
    _check_unenforced,
    _check_processes,
    _check_terminal,
    _check_files,
    _check_permissions,
    _check_approved,
)


class _Output:
    """A pipe for the output of a command, and a null device for its input."""

    def __init__(self) -> None:
        self.null = os.open(os.devnull, os.O_RDONLY)
        self.reading, self.writing = os.pipe()

    def __enter__(self) -> _Output:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in (self.null, self.reading, self.writing):
            os.close(descriptor)

    async def ready(self, findings: Findings) -> None:
        """Wait for the first output."""
        reading = asyncio.get_running_loop().run_in_executor(None, os.read, self.reading, 4096)
        try:
            await findings.wait_for("the first output of a command", asyncio.shield(reading), within_s=_WITHIN_S)
        finally:
            os.write(self.writing, b"\n")  # so that nobody reads on


async def _start(check: _Check, plan: Confinement, script: str, output: _Output, *, tty: bool = False) -> ChildProcess:
    launch = Launch(
        argv=("/bin/sh", "-c", script),
        cwd=check.work,
        env=dict(plan.env),
        stdin=output.null,
        stdout=output.writing,
        stderr=output.writing,
        tty=tty,
    )
    child = await check.await_success(f"starting {script[:40]!r}", plan.start(launch))
    if not check.findings.check_members(child, ChildProcess):
        raise Unmet
    whole: ChildProcess = add_defaults(child, ChildProcess)
    return whole


def _is_socket(descriptor: int) -> bool:
    import stat

    return stat.S_ISSOCK(os.fstat(descriptor).st_mode)


def _read_all(descriptor: int) -> str:
    said = b""
    with contextlib.suppress(OSError):
        while data := os.read(descriptor, 4096):
            said += data
    return said.decode("utf-8", "replace")
