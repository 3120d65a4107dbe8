"""Command policy: recognises harmless and dangerous commands, and applies the user's ``.rules`` files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from codex_framework import CommandPolicy, ContextSource, PluginContext, hookimpl

if TYPE_CHECKING:
    import click

__all__ = ["codex_command_policies", "codex_commands", "codex_context_sources", "codex_settings"]


@hookimpl
def codex_settings() -> type[Any]:
    """Declare the table ``[framework.plugins.execpolicy]``."""
    from codex_plugin_execpolicy.settings import Settings

    return Settings


@hookimpl
def codex_command_policies(plugin: PluginContext) -> Iterable[CommandPolicy]:
    """Offer the policy ``execpolicy``."""
    from codex_plugin_execpolicy.layers import RuleLayers
    from codex_plugin_execpolicy.policy import ExecPolicy
    from codex_plugin_execpolicy.settings import Settings

    return [ExecPolicy(RuleLayers(ignore_rules=plugin.settings(Settings).ignore_rules), plugin.environ)]


@hookimpl
def codex_context_sources(plugin: PluginContext) -> Iterable[ContextSource]:
    """Offer the source that lists allowed prefixes for the model, and warns the user about invalid rules."""
    from codex_plugin_execpolicy.announcement import RulesAnnouncement
    from codex_plugin_execpolicy.layers import RuleLayers
    from codex_plugin_execpolicy.settings import Settings

    return [RulesAnnouncement(RuleLayers(ignore_rules=plugin.settings(Settings).ignore_rules))]


@hookimpl
def codex_commands(plugin: PluginContext) -> Iterable[click.Command]:
    """Offer ``codex-framework execpolicy``."""
    from codex_framework import LazyCommand

    return [
        LazyCommand(
            "execpolicy",
            "Check the rules for commands, and add to them.",
            "codex_plugin_execpolicy.cli:execpolicy",
            obj=plugin,
            group="Configure",
        )
    ]
