"""The output for the model of a command that has ended, as JSON or as text."""

from __future__ import annotations

import json

from codex_framework import CommandResult, OutputView, ToolContext, ToolOutput

__all__ = ["json_report", "text_report"]


def json_report(context: ToolContext, result: CommandResult, timeout_ms: int) -> ToolOutput:
    """``{"output": ..., "metadata": {"exit_code": ..., "duration_seconds": ...}}``, the form of argv tools."""
    text = _result_text(result, timeout_ms)
    short = context.limit_text(text)
    output = short if short == text else f"{_size(text, result)}\n\n{short}"
    metadata = {"exit_code": result.exit_code, "duration_seconds": round(result.duration_s, 1)}
    report = {"output": output, "metadata": metadata}
    encoded = json.dumps(report, ensure_ascii=False, separators=(",", ":"))
    return ToolOutput(encoded, success=result.exit_code == 0, truncate=False, view=OutputView(response=text))


def text_report(context: ToolContext, result: CommandResult, timeout_ms: int) -> ToolOutput:
    """Return a few header lines and the output, the form of ``shell_command``."""
    text = _result_text(result, timeout_ms)
    short = context.limit_text(text)
    lines = [f"Exit code: {result.exit_code}", f"Wall time: {round(result.duration_s, 1):g} seconds"]
    if short != text:
        lines.append(_size(text, result))
    lines += ["Output:", short]
    return ToolOutput("\n".join(lines), success=result.exit_code == 0, truncate=False, view=OutputView(response=text))


def _result_text(result: CommandResult, timeout_ms: int) -> str:
    if result.timed_out:
        return f"command timed out after {timeout_ms} milliseconds\n{result.output}"
    return result.output


def _size(text: str, result: CommandResult) -> str:
    if result.omitted_bytes:
        return f"... {result.omitted_bytes} bytes omitted ..."
    return f"Total output lines: {text.count(chr(10)) + (not text.endswith(chr(10)))}"
