"""The execution of commands, which all three tools share."""

from __future__ import annotations

from codex_framework import CommandRequest, CommandResult, ToolContext, ToolError, ToolRefused

__all__ = ["DEFAULT_TIMEOUT_MS", "run_to_end"]

DEFAULT_TIMEOUT_MS = 10_000
"""The default of ``timeout_ms`` (Codex's)."""


async def run_to_end(request: CommandRequest, context: ToolContext) -> CommandResult:
    """Run a command.

    Raises:
        ToolRefused: It must not run, or command tools are disabled. A model can call them nevertheless.
        ToolError: It could not be started; the text gives the reason.
    """
    if (context.config.get("features") or {}).get("shell_tool") is False:
        raise ToolRefused("command tools are switched off in the configuration (features.shell_tool = false)")
    try:
        return await context.run(request)
    except ToolRefused:
        raise
    except ToolError as error:
        raise ToolError(f"execution error: {error.fact}", slug=error.slug, hint=error.hint) from error
