"""``[framework.plugins]``: disabled plugins, preferred plugins for names that several offer, one-file plugins, and unknown names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from codex_framework.contract.errors import ConfigError
from codex_framework.contract.value import Value
from codex_framework.loader.imports import config_problem
from codex_framework.loader.plugin import LoadedPlugin
from codex_framework.loader.report import PluginProblem

if TYPE_CHECKING:
    from codex_framework.config import Config

__all__ = ["KEYS", "Selection", "find_unmatched_names"]

_SLUG = "plugin-name"
_SECTION = ("framework", "plugins")

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
        return cls(*(_strings(plugins, key) for key in KEYS))


def _strings(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value):
        return tuple(value)
    raise ConfigError(
        f"framework.plugins.{key} is not a list of {'paths' if key == 'paths' else 'plugin names'}",
        key=f"framework.plugins.{key}",
        hint=f'Write it like this: {key} = ["{"~/plugins/words.py" if key == "paths" else "shell"}"].',
    )


def find_unmatched_names(
    config: Config, selection: Selection, plugins: Sequence[LoadedPlugin], offered: Mapping[str, Iterable[str]]
) -> tuple[PluginProblem, ...]:
    """Note every name that matches nothing. A note that probably concerns an installed plugin is added to its report.

    Args:
        offered: The available names for each key of ``[framework]`` that selects an object.

    Returns:
        The notes that do not concern a particular plugin.
    """
    by_name = {loaded.name: loaded for loaded in reversed(plugins)}
    found: list[PluginProblem] = []
    for near, problem in (*_names(config, selection, by_name), *_tables(config, by_name)):
        if near is None:
            found.append(problem)
        else:
            by_name[near].problems.append(problem)
    return (*found, *_choices(config, offered))


def _names(
    config: Config, selection: Selection, by_name: Mapping[str, LoadedPlugin]
) -> Iterator[tuple[str | None, PluginProblem]]:
    seen = set()
    for key in ("disabled", "prefer"):
        for index, name in enumerate(getattr(selection, key)):
            if name not in by_name and name not in seen:
                seen.add(name)
                fact = f"the configuration names the plugin {name!r}, which is not installed"
                yield _unknown(config, (*_SECTION, key, index), name, fact, by_name)


def _tables(config: Config, by_name: Mapping[str, LoadedPlugin]) -> Iterator[tuple[str | None, PluginProblem]]:
    section = config.get("framework.plugins", {})
    for name, table in section.items():
        if name in KEYS or not isinstance(table, Mapping) or not _is_written_by_user(config, name):
            continue
        loaded = by_name.get(name)
        key = (*_SECTION, name)
        if loaded is None:
            fact = f"the configuration has settings for the plugin {name!r}, which is not installed"
            yield _unknown(config, key, name, fact, by_name)
        elif loaded.usable and table and loaded.settings is None and not loaded.context.has_settings:
            fact = f"the settings of the plugin {name!r} have no effect: the plugin declares none"
            hint = "Remove the table. If it is your plugin, return the class of its settings from codex_settings."
            yield name, config_problem(config.error(key, fact, hint=hint, slug="config-unknown"))
        elif loaded.usable and loaded.settings is not None:
            yield from ((name, problem) for problem in _unknown_keys(config, loaded))


def _unknown_keys(config: Config, loaded: LoadedPlugin) -> Iterator[PluginProblem]:
    """Return the keys that the settings class does not have, if unknown keys are not errors."""
    from codex_framework.config.plugin_tables import unknown_settings

    for error in unknown_settings(config, loaded.name, loaded.settings):
        yield config_problem(error)


def _is_written_by_user(config: Config, name: str) -> bool:
    """Return whether the user wrote a table; some are set by options of the command line."""
    from codex_framework.config.keys import lookup

    layers = [layer.name for layer in config.layers if lookup(layer.table, (*_SECTION, name)) is not None]
    return layers != ["flags"]


def _choices(config: Config, offered: Mapping[str, Iterable[str]]) -> Iterator[PluginProblem]:
    for word, offers in offered.items():
        wanted, names = config.get(f"framework.{word}"), list(offers)
        if isinstance(wanted, str) and wanted not in names:
            noun = word.replace("_", " ")
            fact = f"the configuration chooses the {noun} {wanted!r}, which no plugin offers"
            hint = _suggestion(wanted, names) or f"Choose one of: {', '.join(names) or 'none'}."
            yield config_problem(config.error(("framework", word), fact, hint=hint, slug=_SLUG))


def _unknown(
    config: Config, key: Sequence[str | int], name: str, fact: str, by_name: Mapping[str, LoadedPlugin]
) -> tuple[str | None, PluginProblem]:
    import difflib

    near = next(iter(difflib.get_close_matches(name, by_name, n=1)), None)
    hint = f"Did you mean {near!r}?" if near else "Remove it, or install the package that provides the plugin."
    return near, config_problem(config.error(key, fact, hint=hint, slug=_SLUG))


def _suggestion(name: str, names: Iterable[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, list(names), n=1)
    return f"Did you mean {near[0]!r}?" if near else ""
