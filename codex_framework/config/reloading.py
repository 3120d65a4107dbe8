"""Changes of a running thread's configuration: the user's file read again, and keys that a client replaces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from codex_framework.config.checking import check_layer, check_tables
from codex_framework.config.config import Config, Layer
from codex_framework.config.key import Lifetime
from codex_framework.config.keys import format_key, lookup, merge, nest_value, split_key
from codex_framework.config.layers import limit_projects, merge_layers, read_layer, remove_key
from codex_framework.config.schema import Facts, find_keys
from codex_framework.contract.errors import ConfigError

__all__ = ["reload_config", "replace_values"]

_OF_OTHERS = frozenset(("desktop", "notice", "projects", "tui"))
"""Tables that other programs write and that no thread reads; a change of them is not worth a sentence."""

_SHOWN = 8


def reload_config(config: Config, environ: Mapping[str, str]) -> tuple[Config, str]:
    """Read the user's files again, and return the configuration with the changes that a running thread can apply.

    The files of the system and of projects are not read again, because a command of the thread may have written the project's
    files. If the user no longer trusts a project, its values of these keys are removed.

    Args:
        environ: The environment, used for ``HOME``.

    Returns:
        The configuration, and sentences about the changes that wait for another thread or that a constraint replaces. Both may
        be empty.

    Raises:
        ConfigError: A file cannot be read, is not TOML, or has a misspelt key or a wrong value.
    """
    layers = _layers(config, environ)
    tables = merge_layers(layers)
    unknown_keys = lookup(tables, ("framework", "unknown_keys"))
    warnings = [
        warning
        for layer in layers
        if layer.name in ("user", "profile")
        for warning in check_layer(layer, unknown_keys)
        if warning not in config.warnings
    ]
    again = config.evolve(tables=tables, layers=layers, warnings=(*config.warnings, *warnings))
    check_tables(again)
    again = again.constrained()
    changed = _differences((), config.tables, again.tables)
    late = [key for key in changed if not _reloadable(key) and key[0] not in _OF_OTHERS]
    told = [sentence for sentence in again.warnings if sentence not in config.warnings]
    sentences = " ".join(filter(None, (_waiting(config, late), *told)))
    keys = [key for tables in (config.tables, again.tables) for key in find_keys(tables, _lasts_for_turn)]
    return again.evolve(tables=_copy_values(config.tables, dict.fromkeys(keys), again.tables)), sentences


def replace_values(config: Config, values: Mapping[str, Any]) -> Config:
    """Return the configuration with the values of some keys replaced, tables as a whole, above everything else.

    Args:
        values: By dotted key. None removes a key.

    Raises:
        ConfigError: A key is unknown, has the wrong type, or cannot change in a running thread.
    """
    keys = {key: split_key(key) for key in values}
    given: dict[str, Any] = {}
    for key, segments in keys.items():
        if not _reloadable(segments):
            raise ConfigError(
                f"config: `{key}` cannot change in a running thread",
                path="config",
                key=key,
                hint="Set it in the configuration of the thread when you start it.",
            )
        if values[key] is not None:
            given = merge(given, nest_value(segments, values[key]))
    below = [layer for layer in config.layers if not (layer.replaces and set(layer.replaces) <= set(keys.values()))]
    layer = Layer("override", "config", given, replaces=tuple(keys.values()))
    check_layer(layer, lookup(config.tables, ("framework", "unknown_keys")) or "error")
    tables = _copy_values(config.tables, tuple(keys.values()), given)
    whole = config.evolve(tables=tables, layers=(*below, layer))
    check_tables(whole)
    return whole.constrained()


def _layers(config: Config, environ: Mapping[str, str]) -> tuple[Layer, ...]:
    """Return the layers, with the user's files read again."""
    home = str(config.codex_home / "config.toml")
    user = None if config.ignores_user else read_layer("user", config.codex_home / "config.toml", environ)
    found: list[Layer] = [layer for layer in config.layers if layer.name == "system"]
    found += () if user is None else (user,)
    for layer in config.layers:
        if layer.name != "profile":
            continue
        if not layer.prefix:
            again = read_layer("profile", Path(layer.path), environ)
            found += () if again is None else (again,)
        elif layer.path != home:
            found.append(layer)
        elif user is not None and isinstance(table := lookup(user.table, layer.prefix), Mapping):
            found.append(layer.evolve(table=table, text=user.text))
    assigned = [layer for layer in config.layers if layer.name in ("override", "flags")]
    projects = [layer for layer in config.layers if layer.name == "project"]
    return (*found, *limit_projects(merge_layers((*found, *assigned)), projects, config.cwd), *assigned)


def _reloadable(key: Sequence[str]) -> bool:
    return any(find_keys(nest_value(key, {}), _lasts_for_turn))


def _lasts_for_turn(key: Facts) -> bool:
    return key.lasts is Lifetime.TURN


def _differences(place: tuple[str, ...], old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the keys of values that differ."""
    for name in {**old, **new}:
        before, after = old.get(name), new.get(name)
        tables = [value for value in (before, after) if isinstance(value, Mapping)]
        if tables and all(value is None or isinstance(value, Mapping) for value in (before, after)):
            yield from _differences((*place, name), before or {}, after or {})
        elif before != after:
            yield (*place, name)


def _copy_values(
    tables: Mapping[str, Any], keys: Iterable[Sequence[str]], source: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return tables in which some keys have the values that they have in another table."""
    for key in keys:
        if lookup(tables, key) is not None:
            tables = remove_key(tables, key)
        value = lookup(source, key)
        if value is not None:
            tables = merge(tables, nest_value(key, value))
    return tables


def _waiting(config: Config, keys: Sequence[Sequence[str]]) -> str:
    if not keys:
        return ""
    names = ", ".join(f"`{format_key(key)}`" for key in keys[:_SHOWN])
    more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
    path = config.codex_home / "config.toml"
    return f"{path}: these changes do not apply to a running thread: {names}{more}. Start another session to use them."
