"""The settings of the plugin."""

from __future__ import annotations

from codex_framework import Value

__all__ = ["Settings"]


class Settings(Value, kw_only=True):
    """The table ``[framework.plugins.trace]``.

    Attributes:
        file: The file to which a trace is appended. A relative path begins in $CODEX_HOME. Empty means that no trace is written.
        content: Whether the trace contains the text of prompts, replies, calls and outputs.
    """

    file: str = ""
    content: bool = True
