"""Sub-agents: tools with which the model starts further agents, talks with them and waits for them; and mail between agents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from codex_framework import Component, ContextSource, EventMsg, OpHandler, PluginContext, hookimpl
from codex_framework.toolkit.exports import lazy_exports

if TYPE_CHECKING:
    from codex_plugin_sub_agents.component import SubAgents
    from codex_plugin_sub_agents.mail import Communication, InterAgentCommunication
else:
    __getattr__ = lazy_exports(__name__, {"mail": "Communication InterAgentCommunication"})

__all__ = [
    "Communication",
    "InterAgentCommunication",
    "codex_components",
    "codex_context_sources",
    "codex_events",
    "codex_ops",
    "codex_settings",
]

_made: WeakKeyDictionary[PluginContext, SubAgents] = WeakKeyDictionary()
"""The component of each kernel."""


def _component(plugin: PluginContext) -> SubAgents:
    if plugin not in _made:
        from codex_plugin_sub_agents.component import SubAgents

        _made[plugin] = SubAgents(plugin.layers)
    return _made[plugin]


@hookimpl
def codex_settings() -> type[Any]:
    """Declare the table ``[framework.plugins.sub_agents]``."""
    from codex_plugin_sub_agents.settings import Settings

    return Settings


@hookimpl
def codex_components(plugin: PluginContext) -> Iterable[Component]:
    """Offer the component that gives threads the tools for sub-agents."""
    return [_component(plugin)]


@hookimpl
def codex_context_sources(plugin: PluginContext) -> Iterable[ContextSource]:
    """Offer ``agent_team``, which tells an agent of a team who it is."""
    from codex_plugin_sub_agents.team_context import AgentTeam

    return [AgentTeam(_component(plugin))]


@hookimpl
def codex_events() -> Iterable[type[EventMsg]]:
    """Declare the events by which older clients learn about agents."""
    from codex_plugin_sub_agents.events import EVENTS

    return EVENTS


@hookimpl
def codex_ops() -> Iterable[OpHandler[Any]]:
    """Offer the handler of the op ``inter_agent_communication``."""
    from codex_plugin_sub_agents.mail_handler import MailHandler

    return [MailHandler()]
