"""Sub-agents: tools with which the model starts further agents, talks with them and waits for them; and mail between agents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from codex_framework import Component, OpHandler, PluginContext, hookimpl
from codex_framework.toolkit.exports import exported

if TYPE_CHECKING:
    from codex_plugin_sub_agents.mail import Communication, InterAgentCommunication
else:
    __getattr__ = exported(__name__, {"mail": "Communication InterAgentCommunication"})

__all__ = ["Communication", "InterAgentCommunication", "codex_components", "codex_ops", "codex_settings"]


@hookimpl
def codex_settings() -> type[Any]:
    """Declare the table ``[framework.plugins.sub_agents]``."""
    from codex_plugin_sub_agents.settings import Settings

    return Settings


@hookimpl
def codex_components(plugin: PluginContext) -> Iterable[Component]:
    """Offer the component that gives threads the tools for sub-agents."""
    from codex_plugin_sub_agents.component import SubAgents

    return [SubAgents(plugin.layers)]


@hookimpl
def codex_ops() -> Iterable[OpHandler[Any]]:
    """Offer the handler of the op ``inter_agent_communication``."""
    from codex_plugin_sub_agents.mail import MailHandler

    return [MailHandler()]
