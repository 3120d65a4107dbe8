"""The default command tools: ``exec_command`` starts a command, ``write_stdin`` continues with a running one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from codex_framework import OpHandler, Tool, hookimpl
from codex_plugin_unified_exec.background import ListHandler, TerminateHandler
from codex_plugin_unified_exec.exec_command import ExecCommand
from codex_plugin_unified_exec.write_stdin import WriteStdin

__all__ = ["codex_ops", "codex_tools"]


@hookimpl
def codex_tools() -> Iterable[Tool]:
    """Offer both tools."""
    return [ExecCommand(), WriteStdin()]


@hookimpl
def codex_ops() -> Iterable[OpHandler[Any]]:
    """Offer the handlers of the ops with which clients see and end commands that run in the background."""
    return [ListHandler(), TerminateHandler()]
