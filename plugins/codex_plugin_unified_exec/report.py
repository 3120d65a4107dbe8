"""The output for the model: a few header lines and the truncated output of the command."""

from __future__ import annotations

import os

from codex_framework import CallView, OutputView, ToolContext, ToolOutput
from codex_framework.contract.roles.commands import OutputWindow

__all__ = ["report"]

DEFAULT_MAX_TOKENS = 10_000
"""The default of ``max_output_tokens`` (Codex's). The model's own limit applies too, if it is smaller."""


def report(
    context: ToolContext,
    window: OutputWindow,
    *,
    wall_s: float,
    exit_code: int | None,
    session_id: int | None,
    max_tokens: int | None,
    call_id: str | None = None,
    script: str | None = None,
) -> ToolOutput:
    """Return the output of a call.

    Args:
        wall_s: How long the call has waited, in seconds.
        exit_code: None while the command is running; ``session_id`` is then set.
        max_tokens: ``max_output_tokens`` of the call.
        call_id: The call that started the command, if it is an earlier one.
        script: The script of that call.
    """
    lines = [f"Chunk ID: {os.urandom(3).hex()}", f"Wall time: {wall_s:.4f} seconds"]
    if exit_code is not None:
        lines.append(f"Process exited with code {exit_code}")
    if session_id is not None:
        lines.append(f"Process running with session ID {session_id}")
    tokens = -(-window.total_bytes // 4)
    lines += [f"Original token count: {tokens}", "Output:", _shortened(context, window, tokens, max_tokens)]
    call = None if script is None else CallView(name="Bash", arguments={"command": script})
    view = OutputView(response=window.text, call=call, call_id=call_id, finished=exit_code is not None)
    return ToolOutput("\n".join(lines), success=not exit_code, truncate=False, view=view)


def _shortened(context: ToolContext, window: OutputWindow, tokens: int, max_tokens: int | None) -> str:
    text = window.text
    short = context.limit_text(text, max_tokens=DEFAULT_MAX_TOKENS if max_tokens is None else max_tokens)
    if short == text:
        return text
    if window.omitted_bytes:
        missing = f"... {window.omitted_bytes} bytes omitted ..."
    else:
        missing = f"Total output lines: {text.count(chr(10)) + (not text.endswith(chr(10)))}"
    return f"Warning: truncated output (original token count: {tokens})\n{missing}\n\n{short}"
