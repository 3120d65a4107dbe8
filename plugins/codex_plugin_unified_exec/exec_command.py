"""The tool ``exec_command``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

from codex_framework import (
    Argument,
    CallView,
    CommandRequest,
    FunctionSpec,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolOutput,
    ToolRefused,
    TurnFacts,
    arguments_schema,
    parse_arguments,
    shell_argv,
)
from codex_framework.contract.roles.commands import RunningCommand
from codex_framework.toolkit.environments import ENVIRONMENT_ID, in_environment, with_environments
from codex_framework.toolkit.permission_arguments import ARGUMENTS, permission_fields, with_additional
from codex_framework.toolkit.variables import PLAIN_TERMINAL
from codex_plugin_unified_exec.offering import RESULT, is_offered

__all__ = ["ExecCommand"]

R = TypeVar("R")

_DEFAULT_YIELD_MS = 10_000
_SHORTEST_YIELD_MS = 250
_LONGEST_YIELD_MS = 30_000
"""Bounds of ``yield_time_ms`` (Codex)."""

_DRAIN_MS = 100
"""How long to wait for output of background jobs after the command's end, in milliseconds (Codex's)."""

_ARGUMENTS = {
    "cmd": Argument("string", "The shell script to run.", required=True),
    "workdir": Argument(
        "string", "The folder to run it in, absolute or relative to the turn's folder, which is the default."
    ),
    "shell": Argument("string", "The shell that runs it. The default is the user's."),
    "login": Argument("boolean", "Run it in a login shell, which reads the user's profile. Default true."),
    "tty": Argument(
        "boolean",
        "Run it on a terminal, for programs that need one or that you want to type into. Default false: "
        "plain pipes, and nothing on stdin.",
    ),
    "yield_time_ms": Argument(
        "u64",
        "How long to wait for its end, in milliseconds (250 to 30000, default 10000). If it is still "
        "running then, you get the output so far and a session ID.",
    ),
    "max_output_tokens": Argument(
        "usize", "Maximum output in tokens. The middle of longer output is omitted. Default 10000."
    ),
    "environment_id": ENVIRONMENT_ID,
    **ARGUMENTS,
}


_SPEC = FunctionSpec(
    "exec_command",
    "Runs a shell command. Returns its output and exit code, or, if it is still running when the yield time is over, the "
    "output so far and a session ID to go on with in write_stdin.",
    arguments_schema(_ARGUMENTS),
    result=RESULT,
)


class ExecCommand(Tool):
    """Runs a script, and returns its output, or a session if it takes longer."""

    parallel_safe = True
    reads = frozenset({"config", "model", "environments"})
    tells_clients = True
    spec = _SPEC

    def offered(self, turn: TurnFacts) -> bool:
        """Return whether these are the command tools of the turn."""
        return is_offered(turn)

    def spec_for(self, turn: TurnFacts) -> FunctionSpec:
        """Return the spec, with ``additional_permissions`` if they are enabled."""
        return with_environments(with_additional(_SPEC, turn), turn)

    def view(self, call: ToolCall) -> CallView | None:
        """Return the call as ``Bash``."""
        from codex_framework.toolkit.command_views import script_view

        return script_view(call, "cmd")

    def with_arguments(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolCall:
        """Return the call with another command."""
        from codex_framework.toolkit.command_views import with_script

        return with_script(call, "cmd", arguments)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Run one call."""
        from codex_plugin_unified_exec.report import report
        from codex_plugin_unified_exec.sessions import sessions_of

        if (context.config.get("features") or {}).get("shell_tool") is False:  # a plugin can call what is not offered
            raise ToolRefused("command tools are switched off in the configuration (features.shell_tool = false)")
        arguments = parse_arguments(call.arguments, _ARGUMENTS)
        context = in_environment(context, arguments.get("environment_id"))
        request = _request(arguments, context)
        wanted = arguments.get("yield_time_ms", _DEFAULT_YIELD_MS)
        yield_ms = min(max(wanted, _SHORTEST_YIELD_MS), _LONGEST_YIELD_MS)
        running = await _start_command(context.start(request), request)
        started = time.monotonic()  # after the approval, whose time does not count
        exit_code = await _wait_or_kill(running, yield_ms)
        if exit_code and (retried := await _start_command(context.retry(running), request)) is not None:
            running, started = retried, time.monotonic()
            exit_code = await _wait_or_kill(running, yield_ms)
        session = None
        if exit_code is None:
            session = await sessions_of(context).keep(
                running,
                tty=request.tty,
                call_id=context.call_id,
                script=arguments["cmd"],
                cwd=str(context.cwd / (request.cwd or "")),
            )
        return report(
            context,
            running.take(),
            wall_s=time.monotonic() - started,
            exit_code=exit_code,
            session_id=None if session is None else session.id,
            max_tokens=arguments.get("max_output_tokens"),
        )


def _request(arguments: Mapping[str, Any], context: ToolContext) -> CommandRequest:
    from codex_lib_shell_script.actions import command_actions

    login = _login(arguments, context.config)
    argv = shell_argv(arguments["cmd"], login=login, shell=arguments.get("shell") or context.shell)
    return CommandRequest(
        argv=argv,
        cwd=arguments.get("workdir") or None,
        env=PLAIN_TERMINAL,
        tty=arguments.get("tty", False),
        source="unified_exec_startup",
        drain_ms=_DRAIN_MS,
        script=arguments["cmd"],
        actions=command_actions(argv, arguments["cmd"]),
        **permission_fields(arguments),
    )


def _login(arguments: Mapping[str, Any], config: Mapping[str, Any]) -> bool:
    allowed = config.get("allow_login_shell", True)
    wanted = arguments.get("login", allowed)
    if wanted and not allowed:
        raise ToolError("login shells are switched off in the configuration; leave `login` out or set it to false")
    return bool(wanted)


async def _wait_or_kill(running: RunningCommand, yield_ms: int) -> int | None:
    """Wait for the end. If the call is cancelled, end the command: the model does not know its session id."""
    from codex_plugin_unified_exec.sessions import wait_for_end

    try:
        return await wait_for_end(running, yield_ms)
    except asyncio.CancelledError:
        await asyncio.shield(running.kill())
        raise


async def _start_command(start: Awaitable[R], request: CommandRequest) -> R:
    """Return the result of a start. Raise its errors in Codex's form, which models know."""
    try:
        return await start
    except ToolRefused as error:
        if request.escalate != "use_default" and error.fact != "rejected by user":
            raise  # the requested permissions are invalid, and no process was created
        raise ToolRefused(_rejection(error.fact), slug=error.slug, hint=error.hint) from error
    except ToolError as error:
        fact = f"Failed to create unified exec process: {error.fact}"
        raise ToolError(_rejection(fact), slug=error.slug, hint=error.hint) from error


def _rejection(fact: str) -> str:
    """Return the error in Codex's form, which models know."""
    return f"exec_command failed: CreateProcess {{ message: {_quote_text(f'Rejected({_quote_text(fact)})')} }}"


_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"})


def _quote_text(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'
