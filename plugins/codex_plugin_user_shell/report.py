"""How a person's command stands in the conversation (the form is Codex's; by its tags it is known not to be a message)."""

from __future__ import annotations

from codex_framework import CommandResult, Message, ModelInfo
from codex_framework.contract.protocol.items import user_message
from codex_framework.toolkit.truncation import line_count, truncate

__all__ = ["ABORTED", "record_of"]

_ABORTED_TEXT = "command aborted by user"

ABORTED = CommandResult(
    exit_code=-1,
    stdout="",
    stderr=_ABORTED_TEXT,
    output=_ABORTED_TEXT,
    total_bytes=0,
    omitted_bytes=0,
    duration_s=0.0,
)
"""What is recorded of a command that an interrupt has ended."""


def record_of(command: str, result: CommandResult, model: ModelInfo, timeout_ms: int = 0) -> Message:
    """Return the item for the conversation. The output is shortened as the model's policy says.

    Args:
        timeout_ms: The limit of a command that ran out of time.
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
