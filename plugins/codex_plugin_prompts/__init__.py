"""Custom prompts: files in ``$CODEX_HOME/prompts`` whose text replaces ``/prompts:NAME``, with arguments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from codex_framework import EventMsg, Interceptor, OpHandler, PluginContext, hookimpl

if TYPE_CHECKING:
    import click

__all__ = ["codex_commands", "codex_events", "codex_interceptors", "codex_ops"]


@hookimpl
def codex_interceptors(plugin: PluginContext) -> Iterable[Interceptor]:
    """Offer the interceptor that puts the text of a prompt in place of its name, if there is a folder with prompts."""
    if not (plugin.codex_home / "prompts").exists():
        return []
    from codex_plugin_prompts.interceptor import CustomPrompts

    return [CustomPrompts(plugin.codex_home)]


@hookimpl
def codex_ops(plugin: PluginContext) -> Iterable[OpHandler[Any]]:
    """Offer the handler of the op ``list_custom_prompts``."""
    from codex_plugin_prompts.request import ListCustomPromptsHandler

    return [ListCustomPromptsHandler(plugin.codex_home)]


@hookimpl
def codex_events() -> Iterable[type[EventMsg]]:
    """Declare ``list_custom_prompts_response``."""
    from codex_plugin_prompts.events import ListCustomPromptsResponseEvent

    return [ListCustomPromptsResponseEvent]


@hookimpl
def codex_commands(plugin: PluginContext) -> Iterable[click.Command]:
    """Offer ``codex-framework prompts``."""
    from codex_framework import LazyCommand

    return [
        LazyCommand(
            "prompts",
            "List your custom prompts, or print the text of one.",
            "codex_plugin_prompts.cli:prompts",
            obj=plugin,
            group="Configure",
        )
    ]
