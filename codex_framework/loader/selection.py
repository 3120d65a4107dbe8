"""``[framework.plugins]``: disabled plugins, preferred plugins for names that several offer, and one-file plugins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codex_framework.contract.errors import ConfigError
from codex_framework.contract.value import Value

__all__ = ["KEYS", "Selection"]

KEYS = ("disabled", "prefer", "paths")
"""The keys of ``[framework.plugins]`` that are not tables of plugins."""


class Selection(Value):
    """The values of :data:`KEYS`."""

    disabled: tuple[str, ...] = ()
    prefer: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    @classmethod
    def from_tables(cls, tables: Mapping[str, Any]) -> Selection:
        """Read them from the merged configuration.

        Raises:
            ConfigError: One of them is not a list of strings.
        """
        framework = tables.get("framework", {})
        plugins = framework.get("plugins", {}) if isinstance(framework, Mapping) else {}
        if not isinstance(plugins, Mapping):
            raise ConfigError(
                f"framework.plugins is {type(plugins).__name__}, not a table",
                key="framework.plugins",
                hint="Write a table: [framework.plugins].",
            )
        return cls(*(_names(plugins, key) for key in KEYS))


def _names(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value):
        return tuple(value)
    raise ConfigError(
        f"framework.plugins.{key} is not a list of {'paths' if key == 'paths' else 'plugin names'}",
        key=f"framework.plugins.{key}",
        hint=f'Write it like this: {key} = ["{"~/plugins/words.py" if key == "paths" else "shell"}"].',
    )
