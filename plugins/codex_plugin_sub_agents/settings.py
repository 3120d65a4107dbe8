"""The settings of the plugin. The limits are Codex's: ``agents.max_threads`` and ``agents.max_depth``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from codex_framework import ConfigLayer, Value

__all__ = ["Settings", "most_deep", "most_threads", "read_settings", "without_shorter_wait"]


class Settings(Value, kw_only=True):
    """The table ``[framework.plugins.sub_agents]``.

    Attributes:
        shortest_wait_ms: The shortest time limit of ``wait_agent``, in milliseconds. A shorter limit from the model is raised
            to it, because a model that polls costs a request each time (Codex's limit: 10000).
    """

    shortest_wait_ms: int = 10_000


def read_settings(config: Mapping[str, Any]) -> Settings:
    """Return the settings that a configuration contains, without checking them again."""
    shortest = _feature_table(config, "framework", "plugins", "sub_agents", "shortest_wait_ms")
    return Settings(shortest_wait_ms=shortest) if isinstance(shortest, int) else Settings()


def without_shorter_wait(settings: Settings, layers: Sequence[ConfigLayer]) -> Settings:
    """Return the settings without a shorter wait that a project has set: the user pays for the requests of a model that polls.

    Args:
        layers: The sources of the kernel's configuration.
    """
    of_user = Settings().shortest_wait_ms
    of_project: int | None = None
    for layer in layers:
        value = _feature_table(layer.table, "framework", "plugins", "sub_agents", "shortest_wait_ms")
        if isinstance(value, int) and layer.name == "project":
            of_project = value
        elif isinstance(value, int):
            of_user, of_project = value, None
    if of_project is not None and settings.shortest_wait_ms == of_project < of_user:
        return settings.evolve(shortest_wait_ms=of_user)
    return settings


def _feature_table(table: Any, *keys: str) -> Any:
    for key in keys:
        table = table.get(key) if isinstance(table, Mapping) else None
    return table


def most_threads(config: Mapping[str, Any], default: int = 6) -> int:
    """Return the maximum number of open sub-agents below one root thread."""
    return _number(config, "max_concurrent_threads_per_session", _number(config, "max_threads", default))


def most_deep(config: Mapping[str, Any]) -> int:
    """Return how deep sub-agents may be nested. 0 disables sub-agents."""
    return _number(config, "max_depth", 1)


def _number(config: Mapping[str, Any], key: str, default: int) -> int:
    agents = config.get("agents")
    value = agents.get(key) if isinstance(agents, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else default
