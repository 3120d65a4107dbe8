"""Agent roles: files in ``$CODEX_HOME/agents`` and ``[agents.NAME] config_file``, and the built-in roles, as agents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from codex_framework import Agent, Component, ContextSource, PluginContext, hookimpl
from codex_plugin_agent_roles.builtin import BUILTIN

if TYPE_CHECKING:
    from codex_plugin_agent_roles.reading import Roles

__all__ = ["codex_agents", "codex_components", "codex_context_sources"]

_found: WeakKeyDictionary[PluginContext, Roles | None] = WeakKeyDictionary()
"""The roles of each kernel, read once."""


def _roles(plugin: PluginContext) -> Roles | None:
    """Return the user's roles, or None. Without roles, nothing more is imported."""
    if plugin not in _found:
        _found[plugin] = _read(plugin)
    return _found[plugin]


def _read(plugin: PluginContext) -> Roles | None:
    agents = plugin.config.get("agents")
    tables = agents.values() if isinstance(agents, dict) else ()
    named = any(isinstance(table, dict) and "config_file" in table for table in tables)
    if not named and not any(
        layer.folder is not None and (layer.folder / "agents").is_dir() for layer in plugin.layers
    ):
        return None
    from codex_plugin_agent_roles.reading import read_roles

    return read_roles(plugin.layers, plugin.codex_home)


@hookimpl
def codex_agents(plugin: PluginContext) -> Iterable[Agent[Any]]:
    """Offer the user's roles, and the built-in ones that they do not replace."""
    roles = _roles(plugin)
    own = {} if roles is None else {role.agent.name: role.agent for role in roles.roles}
    return [*own.values(), *(agent for agent in BUILTIN if agent.name not in own)]


@hookimpl
def codex_context_sources(plugin: PluginContext) -> Iterable[ContextSource]:
    """Offer ``agent_role``, the developer instructions of a thread's role."""
    roles = _roles(plugin)
    if roles is None or not any(role.instructions for role in roles.roles):
        return []
    from codex_plugin_agent_roles.context import RoleInstructions

    return [RoleInstructions({role.agent.name: role.instructions for role in roles.roles if role.instructions})]


@hookimpl
def codex_components(plugin: PluginContext) -> Iterable[Component]:
    """Offer the component that warns of files that cannot be used, if there are any."""
    roles = _roles(plugin)
    if roles is None or not roles.problems:
        return []
    from codex_plugin_agent_roles.component import RoleWarnings

    return [RoleWarnings(roles.problems)]
