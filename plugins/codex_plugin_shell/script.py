"""The tool that takes a command as a script: ``shell_command``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
    TurnFacts,
    arguments_schema,
    parse_arguments,
    shell_argv,
)
from codex_framework.toolkit.environments import ENVIRONMENT_ID, in_environment, with_environments
from codex_framework.toolkit.permission_arguments import ARGUMENTS, permission_fields, with_additional
from codex_plugin_shell.offering import offered_tool

__all__ = ["ShellCommand"]

_ARGUMENTS = {
    "command": Argument("string", "The script to run in the user's shell.", required=True),
    "workdir": Argument(
        "string", "The folder to run it in, absolute or relative to the turn's folder, which is the default."
    ),
    "timeout_ms": Argument("u64", "Time limit in milliseconds. Default 10000.", aliases=("timeout",)),
    "login": Argument("boolean", "Run it in a login shell, which reads the user's profile. Default true."),
    "environment_id": ENVIRONMENT_ID,
    **ARGUMENTS,
}


_SPEC = FunctionSpec(
    "shell_command",
    "Runs a shell script and returns its output and exit code. Set workdir rather than using cd.",
    arguments_schema(_ARGUMENTS),
)


class ShellCommand(Tool):
    """Runs a script in the user's shell and waits for its end."""

    parallel_safe = True
    reads = frozenset({"config", "model", "environments"})
    tells_clients = True
    spec = _SPEC

    def offered(self, turn: TurnFacts) -> bool:
        """Return whether this is the command tool of the turn."""
        return offered_tool(turn) == "shell_command"

    def spec_for(self, turn: TurnFacts) -> FunctionSpec:
        """Return the spec, with ``additional_permissions`` if they are enabled."""
        return with_environments(with_additional(_SPEC, turn), turn)

    def view(self, call: ToolCall) -> CallView | None:
        """Return the call as ``Bash``."""
        from codex_framework.toolkit.command_views import script_view

        return script_view(call, "command")

    def with_arguments(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolCall:
        """Return the call with another command."""
        from codex_framework.toolkit.command_views import with_script

        return with_script(call, "command", arguments)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Run one call."""
        from codex_lib_shell_script.actions import command_actions
        from codex_plugin_shell.report import text_report
        from codex_plugin_shell.running import DEFAULT_TIMEOUT_MS, run_to_end

        arguments = parse_arguments(call.arguments, _ARGUMENTS)
        context = in_environment(context, arguments.get("environment_id"))
        timeout_ms = arguments.get("timeout_ms", DEFAULT_TIMEOUT_MS)
        argv = shell_argv(arguments["command"], login=_login(arguments, context.config), shell=context.shell)
        request = CommandRequest(
            argv=argv,
            cwd=arguments.get("workdir") or None,
            timeout_ms=timeout_ms,
            script=arguments["command"],
            actions=command_actions(argv, arguments["command"]),
            **permission_fields(arguments),
        )
        return text_report(context, await run_to_end(request, context), timeout_ms)


def _login(arguments: Mapping[str, Any], config: Mapping[str, Any]) -> bool:
    allowed = config.get("allow_login_shell", True)
    wanted = arguments.get("login", allowed)
    if wanted and not allowed:
        raise ToolError("login shells are switched off in the configuration; leave `login` out or set it to false")
    return bool(wanted)
