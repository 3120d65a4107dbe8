"""The execution of every command: policy, approval, sandbox, process and events.

All commands go through :class:`CommandRunner`, including commands of ``shell``, ``exec_command`` and tools of other plugins.
The command policies give a verdict. The approval policy turns it into "run", "ask" or "refuse". A sandbox is planned for the
turn's access. The process is started and reported. Its output is streamed as events, with a limit on memory. Its end is
reported. If the sandbox seems to have refused the command and the policy permits it, the user is asked to run it again without
the sandbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from codex_framework.commands.approval import command_requirement, judge_actor, may_retry, policy_actor
from codex_framework.commands.confinement import Confinements, make_plan
from codex_framework.commands.gates import CLOSE_S, end_gate, make_gate
from codex_framework.commands.process.environment import command_environment, guarded_environment
from codex_framework.commands.shells import user_shell
from codex_framework.contract.errors import SandboxError, ToolError, ToolRefused, described
from codex_framework.contract.permissions.file_access import FileAccess, NetworkMode
from codex_framework.contract.protocol.events.thread import BackgroundEvent, WarningEvent
from codex_framework.contract.protocol.policies import SandboxPermissions
from codex_framework.contract.roles.commands import (
    CommandRequest,
    CommandResult,
    RunningCommand,
)
from codex_framework.contract.roles.environments import Environment
from codex_framework.contract.roles.networks import NetworkGate, NetworkProxy, NetworkTarget
from codex_framework.contract.roles.policies import CommandPolicy, CommandVerdict, Verdict
from codex_framework.contract.roles.provenance import Actor
from codex_framework.contract.roles.sandboxes import Confinement
from codex_framework.contract.value import Value
from codex_framework.toolkit.faults import Label
from codex_framework.toolkit.selected_environments import NO_ENVIRONMENT

if TYPE_CHECKING:
    from codex_framework.commands.approval_prompts import ApprovalPrompts
    from codex_framework.commands.caller import Caller
    from codex_framework.commands.execution import Execution
    from codex_framework.config.credentials import Credentials

__all__ = ["CommandRunner", "Confinements"]

_ON_FAILURE_QUESTION = "command failed; retry without sandbox?"


class ExecutionPlan(Value, kw_only=True):
    """The permissions of one execution.

    Attributes:
        allowed: Whether a command policy lets it run without asking.
    """

    access: FileAccess
    allowed: bool = False


class CommandRunner:
    """The runner for the commands of one thread."""

    def __init__(
        self,
        *,
        policies: Callable[[], tuple[CommandPolicy, ...]],
        confinements: Confinements,
        environment_policy: Mapping[str, Any],
        keep_variables: Sequence[str] = (),
        credentials: Callable[[], Credentials | None] = lambda: None,
        environ: Mapping[str, str],
        extra_env: Mapping[str, str],
        search_path: Callable[[], str | None],
        limit_text: Callable[[str], str],
        proxy: NetworkProxy | None = None,
        environments: Mapping[str, Environment] = MappingProxyType({}),
    ) -> None:
        self._make_policies = policies
        self._confinements = confinements
        self._inherited: Callable[[], dict[str, str]] = lambda: command_environment(
            environment_policy, environ, keep=keep_variables, credentials=credentials()
        )
        self._extra_env = extra_env
        self._search_path = search_path
        self._limit_text = limit_text
        self._proxy = proxy
        self._environments = environments
        self._variables = environment_policy
        self._gates: set[asyncio.Task[None]] = set()

    @cached_property
    def _policies(self) -> tuple[CommandPolicy, ...]:
        """The command policies, made for the first command because many threads run none."""
        return self._make_policies()

    @cached_property
    def questions(self) -> ApprovalPrompts:
        """The questions to the user."""
        from codex_framework.commands.approval_prompts import ApprovalPrompts

        return ApprovalPrompts(self._policies)

    @cached_property
    def _policy_env(self) -> dict[str, str]:
        """The environment that the policy lets through, computed for the first command because many threads run none."""
        return self._inherited()

    def forget_environment(self) -> None:
        """Compute the environment again for the next command, because other variables are secret now."""
        self.__dict__.pop("_policy_env", None)

    async def run(self, request: CommandRequest, call: Caller) -> CommandResult:
        """Run a command to its end. If the sandbox refused it, the user may approve running it again without the sandbox.

        Raises:
            ToolRefused, ToolError: As for :meth:`start`.
        """
        execution = await self.start(request, call)
        result = await _wait(execution.running)
        if execution.refused_host:
            from codex_framework.commands.approval_prompts import HOST_REFUSED

            raise ToolRefused(HOST_REFUSED)
        retried = await self.retry(execution)
        return result if retried is None else await _wait(retried.running)

    async def retry(self, execution: Execution) -> Execution | None:
        """Wait for the end of a command. If the sandbox refused it, ask whether to start it again without the sandbox.

        Returns:
            The second execution, or None if asking is not allowed, or if the user refused.

        Raises:
            ToolRefused, ToolError: See :meth:`start`.
        """
        request, call = execution.request, execution.call
        result = await execution.running.wait()
        without_sandbox = execution.access.without_sandbox
        if (
            not result.denied
            or result.timed_out
            or not may_retry(call.approval_policy)
            or execution.was_blocked
            or execution.refused_host
            or without_sandbox.confines_files
            or without_sandbox.fixed
        ):
            return None
        call.emit(BackgroundEvent(f"Execution failed: the sandbox refused access (exit code {result.exit_code})"))
        try:  # also if the command was approved: whoever approved it in the sandbox has not approved it without
            await self.questions.command(request, call, execution.cwd, reason=_ON_FAILURE_QUESTION, retry=True)
        except ToolRefused:
            return None
        call.emit(BackgroundEvent("retrying command without sandbox"))
        return await self.start(request, call, ExecutionPlan(access=without_sandbox))

    async def run_as_user(self, request: CommandRequest, call: Caller) -> CommandResult:
        """Run a command that the user typed, without approval and without a sandbox.

        Raises:
            ToolError: It could not be started, or the turn has no environment.
        """
        if call.turn.environments == ():
            raise ToolError("shell is unavailable in this session", hint="Select an environment.")
        access = FileAccess(full=True, network=NetworkMode.ON, elsewhere=call.access.elsewhere)
        execution = await self.start(request, call, ExecutionPlan(access=access))
        return await _wait(execution.running)

    async def start_plugin_process(
        self,
        argv: Sequence[str],
        *,
        access: FileAccess,
        cwd: Path,
        env: Mapping[str, str],
        inherit_env: bool = True,
        **options: Any,
    ) -> RunningCommand:
        """Start a process of a plugin, without approval and without events for clients. Its stdin stays open.

        Args:
            inherit_env: Whether it inherits the environment of commands.
            options: ``lossless``, ``grace_s``, ``tty`` and ``terminal_size`` of ``start_command``.

        Raises:
            CommandFailed: It could not be started.
            SandboxError: No sandbox here can enforce the access.
        """
        confinement = self._confinements.plan(access, cwd)
        inherited = {**self._policy_env, **self._extra_env} if inherit_env else {}
        whole = {**inherited, **confinement.env, **env}
        gate = make_gate(access, self._proxy)
        from codex_framework.commands.process.running import start_command

        start = start_command(
            confinement, argv=tuple(argv), cwd=str(cwd), env=whole, keep_stdin_open=True, gate=gate, **options
        )
        if gate is None:
            return await start
        try:
            command = await start
        except BaseException:
            await end_gate(gate, lambda _: None)
            raise
        task = asyncio.create_task(_end_with(command, gate))
        self._gates.add(task)
        task.add_done_callback(self._gates.discard)
        return command

    async def wait_for_gates(self) -> None:
        """Wait until the gates of plugins' processes are closed, after these processes have ended."""
        if self._gates:
            await asyncio.wait(self._gates, timeout=CLOSE_S)

    async def start(self, request: CommandRequest, call: Caller, plan: ExecutionPlan | None = None) -> Execution:
        """Start a command.

        Args:
            plan: The permissions of the command, if they are decided already. Otherwise policies and approvals decide.

        Raises:
            ToolRefused: A policy, reviewer, user or sandbox refused the command.
            ToolError: The command cannot be started.
        """
        from codex_framework.commands.execution import Execution

        if call.turn.environments == ():
            raise ToolError(NO_ENVIRONMENT)
        execution = Execution(request, call, _folder(request, call), self._limit_text)
        try:
            plan = plan or await self._authorize(request, call, execution.cwd)
            confinement = self._plan(plan.access, call)
            gate = make_gate(plan.access, self._proxy, partial(self._ask_about_host, request, call, execution))
        except SandboxError as error:
            call.refused(Actor(role="sandbox"), str(error))
            if error.slug == "plugin":  # the author of the sandbox has to know, not only the model
                call.emit(WarningEvent(f"{error}. {error.hint}", slug=error.slug))
            execution.show_unstarted(str(error), "declined")
            raise ToolRefused(f"{error}. {error.hint}".strip()) from error
        except ToolRefused as error:
            execution.show_unstarted(str(error), "declined")
            raise
        try:
            argv, env = await self._launch(request, call, confinement, plan)
            await execution.start(plan.access, confinement, argv, env, gate)
        except BaseException as error:
            if gate is not None:
                await end_gate(gate, call.emit)
            if isinstance(error, ToolError):
                execution.show_failed_start(error)
            raise
        return execution

    def _plan(self, access: FileAccess, call: Caller) -> Confinement:
        """Return the plan for an access in the environment of a call. Raises SandboxError."""
        environment = self._environments.get(call.turn.environment_id)
        if environment is None:
            return self._confinements.plan(access, call.cwd)
        confine = partial(environment.confine, access, str(call.cwd), self._variables)
        return make_plan(confine, Label("environment", environment.id, ""))

    async def _authorize(self, request: CommandRequest, call: Caller, cwd: Path) -> ExecutionPlan:
        """Return the plan for the command, once all policies and approvals permit it.

        Raises:
            ToolRefused: The command was refused.
        """
        verdict, judge = self._verdict(request, call)
        try:
            requirement = command_requirement(call.approval_policy, request.escalate, verdict, fixed=call.access.fixed)
        except ToolRefused as error:
            call.decided("denied", "config")
            call.refused(_refuser(call, verdict, judge), str(error))
            raise
        widens = request.escalate == SandboxPermissions.WITH_ADDITIONAL_PERMISSIONS and not requirement.unconfined
        try:
            access = _widen_access(request, call) if widens else call.access
        except ToolRefused as error:
            call.refused(Actor(role="permissions"), str(error))
            raise
        if requirement.ask:
            if not requirement.unconfined:
                self._plan(access, call)  # nobody is asked about a command that cannot be confined
            await self.questions.command(
                request,
                call,
                cwd,
                reason=requirement.reason,
                amendment=requirement.amendment,
                precaution=requirement.precaution,
            )
        else:
            call.decided("approved", "config")
        return ExecutionPlan(
            access=access.without_sandbox if requirement.unconfined else access,
            allowed=verdict is not None and not requirement.ask,
        )

    async def _ask_about_host(
        self, request: CommandRequest, call: Caller, execution: Execution, target: NetworkTarget
    ) -> bool:
        """Ask the user about a host that no rule allows. A refusal ends the command."""
        from codex_framework.commands.approval_prompts import HostRefused

        try:
            return await self.questions.host(target, request, call, execution.cwd)
        except HostRefused:
            execution.refuse_host()
            return False

    async def warm(self, access: FileAccess, cwd: Path, config: Mapping[str, Any]) -> None:
        """Prepare for the first command while the model responds, without waiting. Errors are left to that command.

        If commands run in a login shell by default, the user's profile is read too.
        """
        import codex_framework.commands.execution  # noqa: F401  # with all that a command needs

        with contextlib.suppress(Exception):  # the first command will meet and report the same error
            await self._confinements.warm(access, cwd)
        if config.get("allow_login_shell") is False or not _snapshots(config):
            return
        with contextlib.suppress(SandboxError):
            plan = self._confinements.plan_for_profile(access, cwd)
            if plan is not self._confinements.unconfined_plan:  # its profile is read only when a command needs it
                self._confinements.logins.begin(plan, user_shell(), self._policy_env)

    def _verdict(self, request: CommandRequest, call: Caller) -> tuple[CommandVerdict | None, CommandPolicy | None]:
        """Return the most severe verdict, and the policy that gave it first."""
        facts = call.turn
        worst: CommandVerdict | None = None
        judge: CommandPolicy | None = None
        for policy in self._policies:
            try:
                verdict = policy.judge(request, facts)
            except Exception as error:  # a broken policy must not let anything through
                reason = f"rejected: command policy {policy.name!r} failed: {described(error)}"
                return CommandVerdict(verdict=Verdict.FORBID, reason=reason), policy
            if verdict is not None and (worst is None or _weight(verdict) > _weight(worst)):
                worst, judge = verdict, policy
        return worst, judge

    async def _launch(
        self, request: CommandRequest, call: Caller, confinement: Confinement, plan: ExecutionPlan
    ) -> tuple[Sequence[str], dict[str, str]]:
        """Return argv and environment of the request, or a plain shell with the variables of the profile."""
        if plan.access.elsewhere:  # which makes the variables of commands itself
            return request.argv, {**_public(self._extra_env), **call.env, **confinement.env, **request.env}
        argv, base = request.argv, self._policy_env
        if _is_login_script(request) and _snapshots(call.config):
            profile_plan = self._confinements.plan_for_profile(plan.access, call.cwd)
            login_env = await self._confinements.logins.find(profile_plan, argv[0], base)
            if login_env is not None:
                # The variables that described the profile's own sandbox are omitted.
                sandbox_names = profile_plan.env.keys() - base.keys()
                argv, base = (
                    (argv[0], "-c", argv[2]),
                    {name: text for name, text in login_env.items() if name not in sandbox_names},
                )
        env = {**base, **self._extra_env, **call.env, **confinement.env, **request.env}
        programs = self._search_path()
        if programs:
            env["PATH"] = f"{programs}{os.pathsep}{env.get('PATH') or os.defpath}"
        if plan.allowed:
            env = guarded_environment(env, None if plan.access == call.access else call.access)
        return argv, env


def _public(variables: Mapping[str, str]) -> dict[str, str]:
    """Return variables without the path of a folder of this machine."""
    return {name: value for name, value in variables.items() if name != "CODEX_HOME"}


async def _end_with(command: RunningCommand, gate: NetworkGate) -> None:
    """Close the gate of a plugin's process when the process has ended."""
    await command.wait()
    await end_gate(gate, lambda _: None)


async def _wait(command: RunningCommand) -> CommandResult:
    """Wait for the end. If the caller is cancelled, end the command."""
    try:
        return await command.wait()
    except asyncio.CancelledError:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(command.kill())
        raise


def _refuser(call: Caller, verdict: CommandVerdict | None, judge: CommandPolicy | None) -> Actor:
    """Return who refuses a command: a command policy, or the approval policy, which forbids the question of one."""
    actor = None if judge is None else judge_actor(judge)
    if actor is not None and verdict is not None and verdict.verdict is Verdict.FORBID:
        return actor
    causes = () if actor is None else (f"{actor.role} {actor.name!r}",)
    return policy_actor(call.approval_policy, causes)


def _is_login_script(request: CommandRequest) -> bool:
    return request.script is not None and request.argv[1:] == ("-lc", request.script)


def _snapshots(config: Mapping[str, Any]) -> bool:
    return (config.get("features") or {}).get("shell_snapshot") is not False


def _widen_access(request: CommandRequest, call: Caller) -> FileAccess:
    """Return the turn's access with the additional permissions of the call.

    Raises:
        ToolRefused: The call requests nothing, or requests denied permissions.
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
    from codex_framework.commands.approval_prompts import widened_access

    try:
        return widened_access(request.additional, call)
    except ValueError as error:
        raise ToolRefused(f"additional permissions refused: {error}") from error


def _folder(request: CommandRequest, call: Caller) -> Path:
    if request.cwd is None:
        return call.cwd
    return Path(os.path.normpath(call.cwd / request.cwd))


def _weight(verdict: CommandVerdict) -> tuple[Verdict, bool]:
    """Return how severe a verdict is. A question that needs an answer outweighs a precaution."""
    return verdict.verdict, not verdict.precaution
