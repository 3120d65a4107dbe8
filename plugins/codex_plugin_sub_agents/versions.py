"""The group of tools of a thread, and the settings of the second group (``features.multi_agent_v2``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from codex_framework import ConfigError, ConfigLayer, ModelInfo, ThreadContext, Value
from codex_plugin_sub_agents.settings import Settings, most_deep, most_threads

__all__ = [
    "FIRST",
    "NONE",
    "SECOND",
    "Rules",
    "TeamSettings",
    "deepest",
    "is_possible",
    "recorded_version",
    "team_settings",
    "version",
]

NONE, FIRST, SECOND = "disabled", "v1", "v2"

_TABLE = "features.multi_agent_v2"

_LONGEST_MS = 3_600_000

_NESTING = 8
"""How deep agents are nested at most if the model knows the second group and ``agents.max_depth`` is not set. Codex has no limit."""


class TeamSettings(Value):
    """The settings of the second group.

    Attributes:
        places: The maximum number of open sub-agents below a root thread.
        shortest_ms, default_ms, longest_ms: The time limits of a wait, in milliseconds.
        group: The name of the group of tools.
        waits: Whether there is ``wait_agent``.
        shows_types: Whether the model gets agent types and nicknames.
        explains: Whether the model's context explains how the team works.
    """

    places: int = 3
    shortest_ms: int = 10_000
    default_ms: int = 30_000
    longest_ms: int = _LONGEST_MS
    group: str = "collaboration"
    waits: bool = True
    shows_types: bool = False
    explains: bool = True


def version(config: Mapping[str, Any], model: ModelInfo) -> str:
    """Return the group of tools for a root thread: ``v1``, ``v2`` or ``disabled``.

    As in Codex, ``features.multi_agent_v2`` comes first, then ``agents.enabled = false``, then the model, then
    ``features.multi_agent``.
    """
    if _feature(config) is True:
        return SECOND
    if _table(config, "agents").get("enabled") is False:
        return NONE
    if model.multi_agent == SECOND:
        return SECOND
    if model.multi_agent == NONE or _table(config, "features").get("multi_agent") is False:
        return NONE
    return FIRST


def is_possible(config: Mapping[str, Any]) -> bool:
    """Return whether a thread can get any tools, whatever its model is."""
    if _table(config, "agents").get("max_depth") == 0:
        return False
    return _feature(config) is True or _table(config, "agents").get("enabled") is not False


def deepest(config: Mapping[str, Any], model: ModelInfo) -> int:
    """Return how deep agents of the second group may be nested.

    ``agents.max_depth`` decides. Without it, agents of a model that knows the group can start further ones, as in Codex.
    """
    given = _table(config, "agents").get("max_depth")
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    return _NESTING if model.multi_agent == SECOND else 1


def team_settings(config: Mapping[str, Any], settings: Settings, layers: Sequence[ConfigLayer]) -> TeamSettings:
    """Return the settings of the second group.

    Args:
        settings: The plugin's table, whose ``shortest_wait_ms`` applies unless ``min_wait_timeout_ms`` is set.
        layers: The sources of the kernel's configuration. A project's file can only raise the shortest wait, because the user
            pays for the requests of a model that polls.

    Raises:
        ConfigError: A value has the wrong type or is out of range.
    """
    found = _table(config, "features").get("multi_agent_v2")
    table = found if isinstance(found, Mapping) else {}
    places = _number(table, "max_concurrent_threads_per_session", 1)
    shortest = _number(table, "min_wait_timeout_ms", 0)
    shortest = (
        settings.shortest_wait_ms if shortest is None else _shortest_wait(shortest, settings.shortest_wait_ms, layers)
    )
    longest = _number(table, "max_wait_timeout_ms", 1) or _LONGEST_MS
    default = _number(table, "default_wait_timeout_ms", 1)
    if shortest > longest:
        raise _wrong("min_wait_timeout_ms", "must be at most max_wait_timeout_ms")
    if default is not None and not shortest <= default <= longest:
        raise _wrong("default_wait_timeout_ms", "must be between min_wait_timeout_ms and max_wait_timeout_ms")
    group = table.get("tool_namespace", "collaboration")
    if not isinstance(group, str) or not group.replace("_", "").isalnum() or not group.isascii() or len(group) > 40:
        raise _wrong("tool_namespace", "must be 1 to 40 letters, digits and underscores")
    return TeamSettings(
        places=most_threads(config, 3) if places is None else places - 1,
        shortest_ms=shortest,
        default_ms=min(max(30_000, shortest), longest) if default is None else default,
        longest_ms=longest,
        group=group,
        waits=_flag(table, "wait_agent_enabled", default=True),
        shows_types=not _flag(table, "hide_spawn_agent_metadata", default=True),
        explains=_flag(table, "usage_hint_enabled", default=True),
    )


def _feature(config: Mapping[str, Any]) -> bool | None:
    """Return whether the feature is switched on or off, or None."""
    value = _table(config, "features").get("multi_agent_v2")
    value = value.get("enabled") if isinstance(value, Mapping) else value
    return value if isinstance(value, bool) else None


def _table(config: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = config.get(key)
    return value if isinstance(value, Mapping) else {}


def _shortest_wait(wanted: int, default: int, layers: Sequence[ConfigLayer]) -> int:
    """Return the shortest wait. A project's file cannot lower the user's value."""
    of_user, of_project = default, False
    for layer in layers:
        value = _table(_table(layer.table, "features"), "multi_agent_v2").get("min_wait_timeout_ms")
        if isinstance(value, int):
            of_project = layer.name == "project"
            of_user = of_user if of_project else value
    return max(wanted, of_user) if of_project else wanted


def _number(table: Mapping[str, Any], key: str, least: int) -> int | None:
    value = table.get(key)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _LONGEST_MS:
        raise _wrong(key, f"must be a whole number from {least} to {_LONGEST_MS}")
    return value


def _flag(table: Mapping[str, Any], key: str, *, default: bool) -> bool:
    value = table.get(key, default)
    if not isinstance(value, bool):
        raise _wrong(key, "must be true or false")
    return value


def _wrong(key: str, fact: str) -> ConfigError:
    return ConfigError(
        f"config: `{_TABLE}.{key}` {fact}", path="config", key=f"{_TABLE}.{key}", hint="Correct it, or remove it."
    )


class Rules:
    """The rules for all threads below one root thread. The first turn of the root thread decides it.

    Args:
        layers: The sources of the kernel's configuration.
        recorded: The group of tools that the root thread had before it was resumed. None if the first turn decides.

    Attributes:
        version: The group of tools: ``v1``, ``v2`` or ``disabled``. None before the first turn.
    """

    def __init__(self, settings: Settings, layers: Sequence[ConfigLayer], *, recorded: str | None = None) -> None:
        self._settings = settings
        self._layers = layers
        self._recorded = recorded
        self._decided_by: tuple[Mapping[str, Any], ModelInfo] | None = None
        self._deepest = 0
        self._options: TeamSettings | None = None
        self.version: str | None = None

    def decide(self, config: Mapping[str, Any], model: ModelInfo) -> None:
        """Decide everything for a root thread with a configuration and a model, unless it is decided already."""
        if self._decided_by is None:
            self._decided_by = config, model
            self.version = self._recorded or version(config, model)
            self._deepest = deepest(config, model) if self.version == SECOND else most_deep(config)

    def hold_for(self, config: Mapping[str, Any], model: ModelInfo) -> bool:
        """Return whether they lead to the same decision."""
        decided_by = self._decided_by
        return decided_by is not None and decided_by[0] is config and decided_by[1].multi_agent == model.multi_agent

    def may_start(self, depth: int) -> bool:
        """Return whether a thread at this depth may start agents."""
        return depth < self._deepest

    @property
    def options(self) -> TeamSettings:
        """The settings of the second group. Raises ConfigError."""
        if self._options is None:
            config = {} if self._decided_by is None else self._decided_by[0]
            self._options = team_settings(config, self._settings, self._layers)
        return self._options


def recorded_version(root: ThreadContext) -> str | None:
    """Return the group of tools that a root thread had before it was resumed."""
    if root.origin != "resumed":
        return None
    entries = root.entries("agent")
    if entries:
        return SECOND if "path" in entries[-1] else FIRST
    found = root.meta.extra.get("multi_agent_version")
    return found if found in (FIRST, SECOND) else None
