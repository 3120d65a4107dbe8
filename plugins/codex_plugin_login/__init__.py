"""The commands ``login`` and ``logout``: API keys, ChatGPT in the browser or with a device code, and access tokens.

They write what Codex writes, and Codex reads it. The provider ``openai`` uses it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from codex_framework import PluginContext, hookimpl

if TYPE_CHECKING:
    import click

__all__ = ["codex_commands"]


@hookimpl
def codex_commands(plugin: PluginContext) -> Iterable[click.Command]:
    """Offer ``codex-framework login`` and ``codex-framework logout``."""
    from codex_plugin_login.cli import login_command, logout_command

    return [login_command(plugin), logout_command(plugin)]
