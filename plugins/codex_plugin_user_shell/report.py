"""The form of a user's command in the conversation (Codex's form, whose tags distinguish it from a message)."""

from __future__ import annotations

from codex_framework import CommandResult, Message, ModelInfo, ToolError
from codex_framework.contract.protocol.items import user_message
from codex_framework.toolkit.truncation import line_count, truncate

__all__ = ["ABORTED", "not_started", "record_of"]


def _without_result(text: str) -> CommandResult:
    return CommandResult(
        exit_code=-1, stdout="", stderr=text, output=text, total_bytes=0, omitted_bytes=0, duration_s=0.0
    )


ABORTED = _without_result("command aborted by user")
"""The recorded result of a command that was interrupted."""


def not_started(error: ToolError) -> CommandResult:
    """Return the recorded result of a command that could not be started."""
    return _without_result(f"execution error: {error}")


def record_of(command: str, result: CommandResult, model: ModelInfo, timeout_ms: int = 0) -> Message:
    """Return the item for the conversation. The output is truncated by the model's policy.

    Args:
        timeout_ms: The time limit of a command that exceeded it.
    """
    return user_message(
        f"<user_shell_command>\n<command>\n{command}\n</command>\n<result>\n"
        f"Exit code: {result.exit_code}\n"
        f"Duration: {result.duration_s:.4f} seconds\n"
        f"Output:\n{_output(result, model, timeout_ms)}\n"
        "</result>\n</user_shell_command>"
    )


def _output(result: CommandResult, model: ModelInfo, timeout_ms: int) -> str:
    text = result.output
    if result.timed_out:
        text = f"command timed out after {timeout_ms} milliseconds\n{text}"
    short = truncate(text, model.truncation)
    if short == text:
        return text
    if result.omitted_bytes:
        return f"... {result.omitted_bytes} bytes omitted ...\n\n{short}"
    return f"Total output lines: {line_count(text)}\n\n{short}"
