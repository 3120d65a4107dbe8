"""The older command tools: ``shell`` (argv), ``shell_command`` (a script) and the model's native ``local_shell``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from codex_framework import Tool, hookimpl
from codex_plugin_shell.argv import LocalShell, Shell
from codex_plugin_shell.script import ShellCommand

__all__ = ["codex_settings", "codex_tools"]


@hookimpl
def codex_settings() -> type[Any]:
    """Declare the table ``[framework.plugins.shell]``."""
    from codex_plugin_shell.settings import Settings

    return Settings


@hookimpl
def codex_tools() -> Iterable[Tool]:
    """Offer all three tools. A turn offers at most one of them to the model."""
    return [Shell(), ShellCommand(), LocalShell()]
