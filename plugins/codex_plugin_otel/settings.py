"""The settings of the plugin."""

from __future__ import annotations

from codex_framework import Value

__all__ = ["Settings"]


class Settings(Value, kw_only=True):
    """The table ``[framework.plugins.otel]``.

    Attributes:
        log_tool_content: Whether log records contain the arguments and outputs of tool calls, as in Codex. Spans and metrics
            never do.
        flush_timeout_s: Time limit for sending the remaining data when the kernel closes, in seconds; at most 4.
    """

    log_tool_content: bool = True
    flush_timeout_s: float = 3.0
