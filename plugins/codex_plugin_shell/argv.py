"""The tools that take a command as a list of words: ``shell`` and the native ``local_shell``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from codex_framework import (
    Argument,
    CallView,
    CommandRequest,
    FunctionSpec,
    NativeSpec,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolOutput,
    TurnFacts,
    arguments_schema,
    parse_arguments,
    shell_argv,
)
from codex_framework.toolkit.environments import ENVIRONMENT_ID, in_environment, with_environments
from codex_framework.toolkit.permission_arguments import ARGUMENTS, permission_fields, with_additional
from codex_plugin_shell.offering import offered_tool

__all__ = ["LocalShell", "Shell"]

_ARGUMENTS = {
    "command": Argument("strings", 'Program and arguments, usually ["bash", "-lc", SCRIPT].', required=True),
    "workdir": Argument(
        "string", "The folder to run it in, absolute or relative to the turn's folder, which is the default."
    ),
    "timeout_ms": Argument("u64", "Time limit in milliseconds. Default 10000.", aliases=("timeout",)),
    "environment_id": ENVIRONMENT_ID,
    **ARGUMENTS,
}

_ACTION = {
    "command": Argument("strings", required=True),
    "working_directory": Argument("string"),
    "timeout_ms": Argument("u64"),
    "env": Argument("any"),
}


_SPEC = FunctionSpec(
    "shell",
    "Runs a program and returns its output and exit code. The program receives the words unchanged: for pipes, globs and "
    'variables, run ["bash", "-lc", SCRIPT]. Set workdir rather than using cd.',
    arguments_schema(_ARGUMENTS),
)


class Shell(Tool):
    """Runs a program with arguments and waits for its end."""

    parallel_safe = True
    reads = frozenset({"config", "model", "environments"})
    tells_clients = True
    aliases = ("container.exec",)
    spec = _SPEC

    def offered(self, turn: TurnFacts) -> bool:
        """Return whether this is the command tool of the turn."""
        return offered_tool(turn) == "shell"

    def spec_for(self, turn: TurnFacts) -> FunctionSpec:
        """Return the spec, with ``additional_permissions`` if they are enabled."""
        return with_environments(with_additional(_SPEC, turn), turn)

    def view(self, call: ToolCall) -> CallView | None:
        """Return the call as ``Bash``."""
        from codex_framework.toolkit.command_views import argv_view

        return argv_view(call)

    def with_arguments(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolCall:
        """Return the call with another command."""
        from codex_framework.toolkit.command_views import with_argv_script

        return with_argv_script(call, arguments)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Run one call."""
        arguments = parse_arguments(call.arguments, _ARGUMENTS)
        context = in_environment(context, arguments.get("environment_id"))
        return await _run(
            arguments["command"],
            arguments.get("workdir"),
            arguments.get("timeout_ms"),
            permission_fields(arguments),
            context,
        )


class LocalShell(Tool):
    """The shell tool that is native to some models."""

    parallel_safe = True
    reads = frozenset({"config", "model"})
    tells_clients = True
    spec = NativeSpec("local_shell", "local_shell")

    def offered(self, turn: TurnFacts) -> bool:
        """Return whether this is the command tool of the turn."""
        return offered_tool(turn) == "local_shell"

    def view(self, call: ToolCall) -> CallView | None:
        """Return the call as ``Bash``."""
        from codex_framework.toolkit.command_views import argv_view

        return argv_view(call)

    def with_arguments(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolCall:
        """Return the call with another command."""
        from codex_framework.toolkit.command_views import with_argv_script

        return with_argv_script(call, arguments)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Run one call: a native one, or a function call of the same name with the arguments of ``shell``."""
        if call.kind != "local_shell":
            return await Shell().run(call, context)
        action = parse_arguments(call.arguments, _ACTION)
        context = in_environment(context, None)
        return await _run(
            action["command"],
            action.get("working_directory"),
            action.get("timeout_ms"),
            {"env": _variables(action.get("env"))},
            context,
        )


async def _run(
    command: Sequence[str],
    workdir: str | None,
    timeout_ms: int | None,
    fields: Mapping[str, Any],
    context: ToolContext,
) -> ToolOutput:
    if not command:
        raise ToolError("command must name a program: it is an empty list")
    from codex_lib_shell_script.actions import command_actions
    from codex_plugin_shell.report import json_report
    from codex_plugin_shell.running import DEFAULT_TIMEOUT_MS, run_to_end

    limit = DEFAULT_TIMEOUT_MS if timeout_ms is None else timeout_ms
    script = _script(command)
    if (context.config.get("shell_environment_policy") or {}).get("experimental_use_profile") is True:
        import shlex

        script = shlex.join(command) if script is None else script
        command = shell_argv(script, login=True, shell=context.shell)
    request = CommandRequest(
        argv=tuple(command),
        cwd=workdir or None,
        timeout_ms=limit,
        script=script,
        actions=command_actions(command, script),
        **fields,
    )
    return json_report(context, await run_to_end(request, context), limit)


def _script(command: Sequence[str]) -> str | None:
    """Return the script in ``bash -lc SCRIPT`` and similar commands."""
    if len(command) != 3 or command[1] not in ("-c", "-lc"):
        return None
    from codex_framework.toolkit.programs import is_shell

    return command[2] if is_shell(command[0]) else None


def _variables(env: object) -> dict[str, str]:
    if env is None:
        return {}
    if not isinstance(env, Mapping) or not all(isinstance(value, str) for value in env.values()):
        raise ToolError("failed to parse function arguments: env must map names to strings")
    return dict(env)
