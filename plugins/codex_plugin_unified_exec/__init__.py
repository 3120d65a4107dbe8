"""The default command tools: ``exec_command`` starts a command, ``write_stdin`` continues with a running one."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework import Tool, hookimpl
from codex_plugin_unified_exec.exec_command import ExecCommand
from codex_plugin_unified_exec.write_stdin import WriteStdin

__all__ = ["codex_tools"]


@hookimpl
def codex_tools() -> Iterable[Tool]:
    """Offer both tools."""
    return [ExecCommand(), WriteStdin()]
