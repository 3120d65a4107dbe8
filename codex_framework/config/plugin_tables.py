"""A plugin's own settings: the table ``[framework.plugins.<name>]`` as an instance of the plugin's class."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from codex_framework.config.config import Config
from codex_framework.config.keys import format_key
from codex_framework.contract.errors import ConfigError
from codex_framework.contract.value import Value, fields_of

__all__ = ["plugin_settings", "unknown_settings"]

T = TypeVar("T")
Path = tuple[str | int, ...]


def plugin_settings(config: Config, name: str, kind: type[T]) -> T:
    """Return the settings of a plugin.

    With ``[framework] unknown_keys = "warn"``, keys that the class does not have are left out.

    Args:
        config: The configuration.
        name: The plugin's entry-point name.
        kind: An attrs class. Every field without a default must be in the table.

    Raises:
        ConfigError: A key is unknown, missing or of the wrong type; the fact names file, line and key.
    """
    key = ("framework", "plugins", name)
    table = config.get(format_key(key), {})
    if not isinstance(table, Mapping):
        raise config.error(
            key, f"`{format_key(key)}` is not a table", hint=f"Write [{format_key(key)}].", slug="config-type"
        )
    if not table and not _needs_value(kind):
        return kind()  # without cattrs, which takes 40 ms to import
    if config.get("framework.unknown_keys") != "warn":
        for error in unknown_settings(config, name, kind):
            raise error
    return _read(config, key, name, kind, table)


def unknown_settings(config: Config, name: str, kind: type[Any] | None) -> Iterator[ConfigError]:
    """Return an error for each key of a plugin's table that its class does not have, nested classes included."""
    key = ("framework", "plugins", name)
    for path, known in _unknown(kind, config.get(format_key(key), {}), ()):
        word = str(path[-1])
        place = format_key(path)
        yield config.error(
            (*key, *path),
            f"the plugin {name!r} has no setting {place!r}; its settings{_table_text(path)}: {', '.join(known) or 'none'}",
            hint=f"{_suggestion(word, known)}Fix or remove it.",
            slug="config-unknown",
        )


def _read(config: Config, key: Path, name: str, kind: type[T], table: Mapping[str, Any]) -> T:
    from codex_framework.contract.protocol.wire import WireError, read

    try:
        return read(kind, table, where=format_key(key))
    except WireError as error:
        first, _, place = str(error).partition(";")[0].rpartition(" @ ")
        path = _segments(place.removeprefix(format_key(key)))
        missing = first.startswith("required field missing")
        if first == "invalid value":  # what cattrs says of every ValueError; the class may have said more
            first = _reason(error.__cause__) or first
        elif first.startswith(_WRONG_TYPE):
            first = f"it must be {_NOUNS.get(first.removeprefix(_WRONG_TYPE), 'a table')}"
        hint = f"Add {path[-1]} to [{format_key((*key, *path[:-1]))}]." if missing and path else "Fix the value."
        raise config.error(
            (*key, *path),
            f"invalid settings of the plugin {name!r}: `{place}`: {first}",
            hint=hint,
            slug="config-type",
        ) from error


_WRONG_TYPE = "invalid value for type, expected "
_NOUNS = {
    **dict.fromkeys(("tuple", "list", "Sequence", "set", "frozenset"), "a list"),
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
}
"""The names of types in TOML. All other types are tables."""


def _reason(error: BaseException | None) -> str:
    """Return the text of the innermost exception."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return "" if error is None else str(error)


def _segments(place: str) -> Path:
    """Return the keys of a place like ``.servers['a'].words[0]``."""
    import re

    found: list[str | int] = []
    for bare, position, quoted in re.findall(r"\.?([^.\[\]]+)(?![^\[]*\])|\[(\d+)\]|\['([^']*)'\]", place):
        found.append(int(position) if position else bare or quoted)
    return tuple(found)


def _needs_value(kind: type[Any]) -> bool:
    if issubclass(kind, Value):
        return any(field.required for field in fields_of(kind))
    import attrs

    return any(field.default is attrs.NOTHING and field.init for field in attrs.fields(kind))


def _unknown(kind: Any, value: Any, path: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Return the paths of keys that a type does not have, each with the keys that are known in its place."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        classes = [part for part in parts if hasattr(part, "__attrs_attrs__")]
        if len(classes) == 1:
            yield from _unknown(classes[0], value, path)
    elif hasattr(kind, "__attrs_attrs__") and isinstance(value, Mapping):
        fields = _fields(kind)
        for word, part in value.items():
            if word in fields:
                yield from _unknown(fields[word], part, (*path, word))
            else:
                yield (*path, word), tuple(fields)
    elif isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(value, Mapping):
        for word, part in value.items():
            yield from _unknown(parts[-1], part, (*path, word))
    elif parts and isinstance(value, list):
        for index, part in enumerate(value):
            yield from _unknown(parts[0], part, (*path, index))


def _fields(kind: Any) -> dict[str, Any]:
    """Return the keys of a class of settings and their types."""
    from codex_framework.contract.protocol.variants import wire_fields

    try:
        hints = typing.get_type_hints(kind)
    except Exception:  # a name that only a type checker knows: what is below it is not looked into
        hints = {}
    tag = {"type": str} if getattr(kind, "type", None) and "type" not in hints else {}
    return {**tag, **{word: hints.get(name) for name, word in wire_fields(kind)}}


def _table_text(path: Path) -> str:
    return f" in {format_key(path[:-1])!r}" if len(path) > 1 else ""


def _suggestion(word: str, known: tuple[str, ...]) -> str:
    import difflib

    near = difflib.get_close_matches(word, known, n=1)
    return f"Did you mean {near[0]!r}? " if near else ""
