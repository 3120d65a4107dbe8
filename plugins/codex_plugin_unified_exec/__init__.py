"""The default command tools: ``exec_command`` starts a command, ``write_stdin`` goes on with one that is still running."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework import Tool, hookimpl
from codex_plugin_unified_exec.exec_command import ExecCommand
from codex_plugin_unified_exec.write_stdin import WriteStdin

__all__ = ["codex_tools"]


@hookimpl
def codex_tools() -> Iterable[Tool]:
    """Both tools, as the model knows them."""
    return [ExecCommand(), WriteStdin()]
