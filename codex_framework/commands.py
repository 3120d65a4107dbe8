"""The one way by which every command runs: policy, approval, sandbox, process, events.

``shell``, ``exec_command``, outside tools: all come through :class:`CommandPath`. In order: the command policies give a verdict;
the approval policy turns it into "run", "ask" or "refused"; a sandbox is planned from the turn's access; the process is started
and announced; its output streams as events and is capped in memory; its end is announced. A command that the sandbox seems to
have refused is offered once more without it, where the policy permits.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from codex_framework.approval import command_requirement, retry_allowed
from codex_framework.confinement import Confinements, denied, gate_for
from codex_framework.errors import CommandFailed, SandboxError, ToolError, ToolRefused
from codex_framework.process.environment import command_environment
from codex_framework.process.running import start_command
from codex_framework.protocol.events.command import (
    ExecCommandBeginEvent,
    ExecCommandEndEvent,
    ExecCommandOutputDeltaEvent,
)
from codex_framework.protocol.policies import SandboxPermissions
from codex_framework.questions import HOST_REFUSED, CallFacts, HostRefused, Questions, parsed
from codex_framework.roles.deciders import CommandPolicy, CommandVerdict, Verdict
from codex_framework.roles.networks import NetworkGate, NetworkProxy, NetworkTarget
from codex_framework.roles.sandboxes import Confinement, FileAccess
from codex_framework.roles.tools import CommandRequest, CommandResult, OutputChunk, OutputWindow, RunningCommand
from codex_framework.shells import user_shell
from codex_framework.value import Value

__all__ = ["AnnouncedCommand", "CallFacts", "CommandPath", "Confinements"]

_ON_FAILURE_QUESTION = "command failed; retry without sandbox?"


class _Way(Value, kw_only=True):
    """How a command is to run: what it may do, and whether somebody has approved the command itself.

    Who approves a command with additional permissions approves these, and not that it runs without a sandbox.
    """

    access: FileAccess
    approved: bool = False


class CommandPath:
    """The way of commands, for one thread."""

    def __init__(
        self,
        *,
        policies: tuple[CommandPolicy, ...],
        confinements: Confinements,
        environment_policy: Mapping[str, Any],
        keep_variables: Sequence[str] = (),
        environ: Mapping[str, str],
        extra_env: Mapping[str, str],
        search_path: Callable[[], str | None],
        limit_text: Callable[[str], str],
        proxy: NetworkProxy | None = None,
    ) -> None:
        self._policies = policies
        self._confinements = confinements
        self._inherited: Callable[[], dict[str, str]] = lambda: command_environment(
            environment_policy, environ, keep=keep_variables
        )
        self._extra_env = extra_env
        self._search_path = search_path
        self._limit_text = limit_text
        self._proxy = proxy
        self.questions = Questions(policies)

    @cached_property
    def _policy_env(self) -> dict[str, str]:
        """What the environment policy lets through. Worked out for the first command: many threads run none."""
        return self._inherited()

    async def start(self, request: CommandRequest, call: CallFacts) -> AnnouncedCommand:
        """Start a command.

        Raises:
            ToolRefused: Policy, reviewer, person or sandbox said no.
            ToolError: It could not be started.
        """
        return (await self._start(request, call))[0]

    async def run(self, request: CommandRequest, call: CallFacts) -> CommandResult:
        """Run a command to its end. Raises as :meth:`start`; where the sandbox refused it, it may run again without."""
        command, way = await self._start(request, call)
        result = await _ended(command)
        if command.refused_host:
            raise ToolRefused(HOST_REFUSED)
        lifted = way.access.lifted
        if not result.denied or not retry_allowed(call.approval_policy) or command.was_blocked or lifted.confines_files:
            return result
        if not way.approved:
            try:
                await self.questions.command(request, call, command.cwd, reason=_ON_FAILURE_QUESTION, retry=True)
            except ToolRefused:
                return result
        again, _ = await self._start(request, call, _Way(access=lifted, approved=True))
        return await _ended(again)

    async def _start(
        self, request: CommandRequest, call: CallFacts, way: _Way | None = None
    ) -> tuple[AnnouncedCommand, _Way]:
        cwd = _folder(request, call)
        try:
            way = way or await self._permitted(request, call, cwd)
            plan = self._confinements.plan(way.access, call.cwd)
            command = AnnouncedCommand(
                request, call, cwd, self._limit_text, confined=plan is not self._confinements.unconfined
            )
            gate = self._gate(way.access, request, call, command)
        except SandboxError as error:
            self._decline(request, call, cwd, str(error))
            raise ToolRefused(f"{error}. {error.hint}".strip()) from error
        except ToolRefused as error:
            self._decline(request, call, cwd, str(error))
            raise
        try:
            argv, env = await self._launch(request, call, plan, way.access)
            await command.start(plan, argv, env, gate)
        except BaseException:
            if gate is not None:
                await gate.aclose()
            raise
        return command, way

    async def _permitted(self, request: CommandRequest, call: CallFacts, cwd: Path) -> _Way:
        """What the command may do, once everybody who has a say has said yes.

        Raises:
            ToolRefused: Somebody said no.
        """
        requirement = command_requirement(call.approval_policy, request.escalate, self._verdict(request, call))
        widens = request.escalate == SandboxPermissions.WITH_ADDITIONAL_PERMISSIONS and not requirement.unconfined
        access = _widened(request, call) if widens else call.access
        if requirement.ask:
            await self.questions.command(request, call, cwd, reason=requirement.reason, amendment=requirement.amendment)
        return _Way(access=access.lifted if requirement.unconfined else access, approved=requirement.ask and not widens)

    def _gate(
        self, access: FileAccess, request: CommandRequest, call: CallFacts, command: AnnouncedCommand
    ) -> NetworkGate | None:
        """Its gate, where it needs one; a host that no rule allows is asked about. Raises as :func:`gate_for`."""

        async def ask(target: NetworkTarget) -> bool:
            try:
                return await self.questions.host(target, request, call, command.cwd)
            except HostRefused:
                command.refuse_host()
                return False

        return gate_for(access, self._proxy, ask)

    async def warm(self, access: FileAccess, cwd: Path, config: Mapping[str, Any]) -> None:
        """Get ready for the first command while the model is thinking. Waits for nothing; errors are left to that command.

        The person's profile is read too, where commands run in a login shell unless they say otherwise.
        """
        with contextlib.suppress(Exception):  # whatever a plugin raises here, the first command meets and reports
            await self._confinements.warm(access, cwd)
        if config.get("allow_login_shell") is False or not _snapshots(config):
            return
        with contextlib.suppress(SandboxError):
            plan = self._confinements.plan_for_profile(access, cwd)
            if plan is not self._confinements.unconfined:  # what nothing confines runs only when it is asked for
                self._confinements.logins.begin(plan, user_shell(), self._policy_env)

    def _verdict(self, request: CommandRequest, call: CallFacts) -> CommandVerdict | None:
        facts = call.for_policies()
        worst: CommandVerdict | None = None
        for policy in self._policies:
            try:
                verdict = policy.judge(request, facts)
            except Exception as error:  # a decider that is broken must not let anything through
                reason = f"rejected: command policy {policy.name!r} failed: {type(error).__name__}: {error}"
                return CommandVerdict(verdict=Verdict.FORBID, reason=reason)
            if verdict is not None and (worst is None or verdict.verdict > worst.verdict):
                worst = verdict
        return worst

    async def _launch(
        self, request: CommandRequest, call: CallFacts, plan: Confinement, access: FileAccess
    ) -> tuple[Sequence[str], dict[str, str]]:
        """The argv and the environment of the process: those of the request, or a plain shell that knows the profile."""
        argv, base = request.argv, self._policy_env
        if _is_login_script(request) and _snapshots(call.config):
            apart = self._confinements.plan_for_profile(access, call.cwd)
            found = await self._confinements.logins.find(apart, argv[0], base)
            if found is not None:
                told = apart.env.keys() - base.keys()  # what the profile was told of its sandbox
                argv, base = (argv[0], "-c", argv[2]), {name: text for name, text in found.items() if name not in told}
        env = {**base, **self._extra_env, **call.env, **plan.env, **request.env}
        programs = self._search_path()
        if programs:
            env["PATH"] = f"{programs}{os.pathsep}{env.get('PATH') or os.defpath}"
        return argv, env

    def _decline(self, request: CommandRequest, call: CallFacts, cwd: Path, reason: str) -> None:
        """Show clients a command that was refused: it begins and ends at once."""
        if request.announce:
            call.emit(_begin(request, call, cwd, None))
            result = CommandResult(
                exit_code=-1, stdout="", stderr=reason, output=reason, total_bytes=0, omitted_bytes=0, duration_s=0.0
            )
            call.emit(_end(request, call, cwd, None, result, reason, "declined"))


class AnnouncedCommand:
    """A running command whose beginning, output and end clients hear of."""

    def __init__(
        self, request: CommandRequest, call: CallFacts, cwd: Path, limit_text: Callable[[str], str], *, confined: bool
    ) -> None:
        self.cwd = cwd
        self._request = request
        self._call = call
        self._limit_text = limit_text
        self._confined = confined
        self._running: RunningCommand | None = None
        self._result: asyncio.Future[CommandResult] | None = None
        self._gate: NetworkGate | None = None
        self._stopping: asyncio.Task[None] | None = None
        self.refused_host = False
        self.was_blocked = False

    async def start(
        self, plan: Confinement, argv: Sequence[str], env: Mapping[str, str], gate: NetworkGate | None = None
    ) -> None:
        """Start it and announce it. Raises ToolError, ToolRefused."""
        try:
            self._running = await start_command(
                plan,
                argv=argv,
                cwd=str(self.cwd),
                env=env,
                tty=self._request.tty,
                stdin=self._request.stdin,
                timeout_ms=self._request.timeout_ms,
                drain_ms=self._request.drain_ms,
                on_chunk=self._chunk if self._request.announce else None,
                gate=gate,
            )
        except CommandFailed as error:
            raise ToolError(str(error), slug=error.slug, hint=error.hint) from error
        except SandboxError as error:
            raise ToolRefused(f"{error}. {error.hint}".strip()) from error
        if self._request.announce:
            self._call.emit(_begin(self._request, self._call, self.cwd, self._running.process_id))
        self._gate = gate
        self._result = asyncio.ensure_future(self._finish())
        if self.refused_host:  # it was quick, and so was the answer
            self.refuse_host()

    def refuse_host(self) -> None:
        """A person has refused the command a host: end it."""
        self.refused_host = True
        if self._running is not None and self._stopping is None:
            self._stopping = asyncio.ensure_future(self._running.kill())

    @property
    def process_id(self) -> int:
        """The operating system's process id."""
        return self._process.process_id

    @property
    def exit_code(self) -> int | None:
        """Its status, once it has ended."""
        return self._process.exit_code

    def chunks(self) -> AsyncIterator[OutputChunk]:
        """Output from now on."""
        return self._process.chunks()

    def take(self) -> OutputWindow:
        """What was printed since the last take."""
        return self._process.take()

    async def write(self, data: bytes) -> None:
        """Feed stdin."""
        await self._process.write(data)

    def interrupt(self) -> None:
        """Send SIGINT to the process group."""
        self._process.interrupt()

    async def kill(self) -> None:
        """End the process group and wait until the end was announced."""
        await self._process.kill()
        await self.wait()

    async def wait(self) -> CommandResult:
        """Wait for the end. A caller that is cancelled does not end the command."""
        assert self._result is not None
        return await asyncio.shield(self._result)

    @property
    def _process(self) -> RunningCommand:
        assert self._running is not None
        return self._running

    def _chunk(self, chunk: OutputChunk) -> None:
        self._call.emit(ExecCommandOutputDeltaEvent(call_id=self._call.call_id, stream=chunk.stream, chunk=chunk.data))

    async def _finish(self) -> CommandResult:
        result = await self._process.wait()
        if self._gate is not None:
            self.was_blocked = bool(self._gate.blocked)
            await self._gate.aclose()
        if denied(result, confined=self._confined):
            result = result.evolve(denied=True)
        if self._request.announce:
            status = "completed" if result.exit_code == 0 else "failed"
            formatted = self._limit_text(result.output)
            self._call.emit(_end(self._request, self._call, self.cwd, self.process_id, result, formatted, status))
        return result


async def _ended(command: AnnouncedCommand) -> CommandResult:
    """Wait for the end; a cancelled caller takes the command with it."""
    try:
        return await command.wait()
    except asyncio.CancelledError:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(command.kill())
        raise


def _is_login_script(request: CommandRequest) -> bool:
    return request.script is not None and request.argv[1:] == ("-lc", request.script)


def _snapshots(config: Mapping[str, Any]) -> bool:
    return (config.get("features") or {}).get("shell_snapshot") is not False


def _widened(request: CommandRequest, call: CallFacts) -> FileAccess:
    """The turn's access with what the call asks for on top.

    Raises:
        ToolRefused: It asks for nothing, or for what is denied.
    """
    if (call.config.get("features") or {}).get("exec_permission_approvals") is not True:
        raise ToolRefused(
            "additional permissions are disabled; enable `features.exec_permission_approvals` before using"
            " `with_additional_permissions`"
        )
    if not request.additional:
        raise ToolRefused(
            "missing `additional_permissions`; provide at least one of `network` or `file_system` when using"
            " `with_additional_permissions`"
        )
    try:
        return call.realise(call.permissions.widened(request.additional, call.access, call.cwd))
    except ValueError as error:
        raise ToolRefused(f"additional permissions refused: {error}") from error


def _folder(request: CommandRequest, call: CallFacts) -> Path:
    if request.cwd is None:
        return call.cwd
    return Path(os.path.normpath(call.cwd / request.cwd))


def _begin(request: CommandRequest, call: CallFacts, cwd: Path, process_id: int | None) -> ExecCommandBeginEvent:
    return ExecCommandBeginEvent(
        call_id=call.call_id,
        turn_id=call.turn_id,
        command=request.argv,
        cwd=str(cwd),
        started_at_ms=_now_ms(),
        process_id=None if process_id is None else str(process_id),
        parsed_cmd=parsed(request),
        source=request.source,
    )


def _end(
    request: CommandRequest,
    call: CallFacts,
    cwd: Path,
    process_id: int | None,
    result: CommandResult,
    formatted: str,
    status: str,
) -> ExecCommandEndEvent:
    return ExecCommandEndEvent(
        call_id=call.call_id,
        turn_id=call.turn_id,
        command=request.argv,
        cwd=str(cwd),
        completed_at_ms=_now_ms(),
        stdout=result.stdout,
        stderr=result.stderr,
        aggregated_output=result.output,
        exit_code=result.exit_code,
        duration_s=result.duration_s,
        formatted_output=formatted,
        status=status,
        process_id=None if process_id is None else str(process_id),
        parsed_cmd=parsed(request),
        source=request.source,
    )


def _now_ms() -> int:
    return int(time.time() * 1000)
