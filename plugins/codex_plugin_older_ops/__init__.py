"""Operations of older Codex versions: they are accepted, and mean the operations of today."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from codex_framework import Component, EventMsg, OpHandler, PluginContext, hookimpl

__all__ = ["codex_components", "codex_events", "codex_ops", "codex_settings"]


@hookimpl
def codex_settings() -> type[Any]:
    """Declare the table ``[framework.plugins.older_ops]``."""
    from codex_plugin_older_ops.deltas import Settings

    return Settings


@hookimpl
def codex_events() -> Iterable[type[EventMsg]]:
    """Declare the three older events about text that is still being written."""
    from codex_plugin_older_ops.deltas import AgentMessageDelta, AgentReasoningDelta, AgentReasoningRawContentDelta

    return [AgentMessageDelta, AgentReasoningDelta, AgentReasoningRawContentDelta]


@hookimpl
def codex_components(plugin: PluginContext) -> Iterable[Component]:
    """Offer the component that sends these events, if they are wanted."""
    from codex_plugin_older_ops.deltas import OlderDeltas, Settings

    return [OlderDeltas()] if plugin.settings(Settings).deltas else []


@hookimpl
def codex_ops() -> Iterable[OpHandler[Any]]:
    """Offer the handlers of four older ops."""
    from codex_plugin_older_ops import ops

    return [ops.ConfigureHandler(), ops.TurnHandler(), ops.InputHandler(), ops.OverrideHandler()]
