"""The settings of ``[memories]`` that concern the mode of threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from codex_framework import ConfigError, ConfigLayer

__all__ = ["MemorySettings", "memory_settings"]

_EXTERNAL = ("disable_on_external_context", "no_memories_if_mcp_or_web_search")


class MemorySettings(NamedTuple):
    """The settings.

    Attributes:
        disables_new: Whether new threads are ``disabled``.
        marks_external: Whether threads that used the web or an MCP server become ``polluted``.
    """

    disables_new: bool
    marks_external: bool

    @property
    def learns_from_all(self) -> bool:
        """Whether no thread gets another mode than the default."""
        return not (self.disables_new or self.marks_external)


def memory_settings(config: Mapping[str, Any], layers: Sequence[ConfigLayer]) -> MemorySettings:
    """Return the settings. The file of a project can only let less be learnt than the user's files.

    Args:
        config: The merged configuration.
        layers: Its sources.

    Raises:
        ConfigError: A setting is neither true nor false.
    """
    return MemorySettings(
        disables_new=_is(config, layers, ("generate_memories",), strict=False),
        marks_external=_is(config, layers, _EXTERNAL, strict=True),
    )


def _is(config: Mapping[str, Any], layers: Sequence[ConfigLayer], names: Sequence[str], *, strict: bool) -> bool:
    """Return whether a setting has its strict value, in the configuration or in that without the files of projects."""
    without_projects = None
    for layer in layers:
        if layer.name != "project" and (given := _configured_value(layer.table, names)) is not None:
            without_projects = given
    return strict in (_configured_value(config, names), without_projects)


def _configured_value(config: Mapping[str, Any], names: Sequence[str]) -> bool | None:
    table = config.get("memories")
    for name in names:
        value = table.get(name) if isinstance(table, Mapping) else None
        if isinstance(value, bool):
            return value
        if value is not None:
            key = f"memories.{name}"
            raise ConfigError(f"config: `{key}` must be true or false", path="config", key=key, hint="Correct it.")
    return None
