"""The output for the model: a few header lines and the truncated output of the command."""

from __future__ import annotations

import os

from codex_framework import CallView, OutputView, ToolContext, ToolOutput
from codex_framework.contract.roles.commands import OutputWindow
from codex_framework.toolkit.truncation import truncate

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
    limit = DEFAULT_MAX_TOKENS if max_tokens is None else max_tokens
    shown = _shorten_output(window, tokens, context.limit_text(window.text, max_tokens=limit))
    lines += [f"Original token count: {tokens}", "Output:", shown]
    ended = {} if exit_code is None else {"exit_code": exit_code}
    running = {} if session_id is None else {"session_id": session_id}
    result = {
        "chunk_id": lines[0].removeprefix("Chunk ID: "),
        "wall_time_seconds": round(wall_s, 6),
        **ended,
        **running,
        "original_token_count": tokens,
        "output": window.text if max_tokens is None else _for_programs(context, window, tokens, max_tokens),
    }
    call = None if script is None else CallView(name="Bash", arguments={"command": script})
    view = OutputView(response=window.text, call=call, call_id=call_id, finished=exit_code is not None)
    return ToolOutput("\n".join(lines), success=not exit_code, truncate=False, view=view, result=result)


def _for_programs(context: ToolContext, window: OutputWindow, tokens: int, max_tokens: int) -> str:
    """Return the output that a program requested, without the limit for the model's own calls."""
    return _shorten_output(window, tokens, truncate(context.redact(window.text), ("tokens", max_tokens)))


def _shorten_output(window: OutputWindow, tokens: int, short: str) -> str:
    text = window.text
    if short == text:
        return text
    if window.omitted_bytes:
        missing = f"... {window.omitted_bytes} bytes omitted ..."
    else:
        missing = f"Total output lines: {text.count(chr(10)) + (not text.endswith(chr(10)))}"
    return f"Warning: truncated output (original token count: {tokens})\n{missing}\n\n{short}"
