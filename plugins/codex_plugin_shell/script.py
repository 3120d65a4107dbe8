"""The tool that takes a command as a script: ``shell_command``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codex_framework import (
    Argument,
    CommandRequest,
    FunctionSpec,
    ToolCall,
    ToolContext,
    ToolError,
    ToolOutput,
    TurnFacts,
    parse_arguments,
    shell_argv,
)
from codex_framework.toolkit.permission_arguments import ARGUMENTS, SCHEMA, permission_fields, with_additional
from codex_plugin_shell.offering import offered_tool
from codex_plugin_shell.report import text_report
from codex_plugin_shell.running import DEFAULT_TIMEOUT_MS, run_to_end

__all__ = ["ShellCommand"]

_FIELDS = {
    "command": Argument("string", required=True),
    "workdir": Argument("string"),
    "timeout_ms": Argument("u64", aliases=("timeout",)),
    "login": Argument("boolean"),
    **ARGUMENTS,
}

_PARAMETERS = {
    "type": "object",
    "properties": {
        "command": {"type": "string", "description": "The script to run in the user's shell."},
        "workdir": {
            "type": "string",
            "description": "The folder to run it in, absolute or relative to the turn's folder, which is the default.",
        },
        "timeout_ms": {"type": "number", "description": "End it after so many milliseconds. Default 10000."},
        "login": {
            "type": "boolean",
            "description": "Run it in a login shell, which reads the user's profile. Default true.",
        },
        **SCHEMA,
    },
    "required": ["command"],
    "additionalProperties": False,
}


class ShellCommand:
    """Runs a script in the user's shell and waits for its end."""

    parallel_safe = True
    tells_clients = True
    spec = FunctionSpec(
        "shell_command",
        "Runs a shell script and returns its output and exit code. Set workdir rather than using cd.",
        _PARAMETERS,
    )

    def offered(self, facts: TurnFacts) -> bool:
        """In turns whose command tool is this one."""
        return offered_tool(facts) == "shell_command"

    def spec_for(self, facts: TurnFacts) -> FunctionSpec:
        """With ``additional_permissions`` where they are switched on."""
        return with_additional(self.spec, facts)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Carry out one call."""
        arguments = parse_arguments(call.arguments, _FIELDS)
        timeout_ms = arguments.get("timeout_ms", DEFAULT_TIMEOUT_MS)
        request = CommandRequest(
            argv=shell_argv(arguments["command"], login=_login(arguments, context.config)),
            cwd=arguments.get("workdir") or None,
            timeout_ms=timeout_ms,
            script=arguments["command"],
            **permission_fields(arguments),
        )
        return text_report(context, await run_to_end(request, context), timeout_ms)


def _login(arguments: Mapping[str, Any], config: Mapping[str, Any]) -> bool:
    allowed = config.get("allow_login_shell", True)
    wanted = arguments.get("login", allowed)
    if wanted and not allowed:
        raise ToolError("login shells are switched off in the configuration; leave `login` out or set it to false")
    return bool(wanted)
