"""Skills: folders with a ``SKILL.md`` whose instructions the model reads when a task needs them, or when the user names them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from codex_framework import ContextSource, EventMsg, Interceptor, OpHandler, PluginContext, hookimpl

if TYPE_CHECKING:
    import click

    from codex_plugin_skills.sources import Sources

__all__ = [
    "codex_commands",
    "codex_config_keys",
    "codex_context_sources",
    "codex_events",
    "codex_interceptors",
    "codex_ops",
    "codex_settings",
]

_sources: WeakKeyDictionary[PluginContext, Sources] = WeakKeyDictionary()
"""The shared state of the objects of each kernel."""


def _shared_sources(plugin: PluginContext) -> Sources:
    if plugin not in _sources:
        from codex_plugin_skills.sources import Sources

        _sources[plugin] = Sources(plugin)
    return _sources[plugin]


@hookimpl
def codex_settings() -> type[Any]:
    """Declare the table ``[framework.plugins.skills]``."""
    from codex_plugin_skills.settings import Settings

    return Settings


@hookimpl
def codex_config_keys() -> Iterable[str]:
    """Claim ``[skills]``."""
    return ["skills"]


@hookimpl
def codex_context_sources(plugin: PluginContext) -> Iterable[ContextSource]:
    """Offer ``skills``, the list of the skills that the model may choose from."""
    from codex_plugin_skills.context import SkillList

    return [SkillList(_shared_sources(plugin))]


@hookimpl
def codex_interceptors(plugin: PluginContext) -> Iterable[Interceptor]:
    """Offer the interceptors that add named skills to an input, and that notice when the model uses one."""
    from codex_plugin_skills.interceptors import ImplicitUse, NamedSkills

    return [NamedSkills(_shared_sources(plugin)), ImplicitUse(_shared_sources(plugin))]


@hookimpl
def codex_ops(plugin: PluginContext) -> Iterable[OpHandler[Any]]:
    """Offer the handler of the op ``list_skills``."""
    from codex_plugin_skills.request import ListSkillsHandler

    return [ListSkillsHandler(_shared_sources(plugin))]


@hookimpl
def codex_events() -> Iterable[type[EventMsg]]:
    """Declare ``list_skills_response``."""
    from codex_plugin_skills.events import ListSkillsResponseEvent

    return [ListSkillsResponseEvent]


@hookimpl
def codex_commands(plugin: PluginContext) -> Iterable[click.Command]:
    """Offer ``codex-framework skills``."""
    from codex_framework import LazyCommand

    return [
        LazyCommand(
            "skills",
            "List the skills of this folder, and switch them on and off.",
            "codex_plugin_skills.cli:skills",
            obj=plugin,
            group="Configure",
        )
    ]
