"""The keys of a plugin's settings class, for display: type, default and meaning."""

from __future__ import annotations

import enum
import inspect
import json
import re
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, Literal, NamedTuple

__all__ = ["PluginKey", "plugin_keys"]

_WORDS: Mapping[Any, str] = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    Any: "anything",
}
_PLURALS = {"a string": "strings", "an integer": "integers", "a number": "numbers", "a table": "tables"}


class PluginKey(NamedTuple):
    """A setting of a plugin.

    Attributes:
        name: The key in the plugin's table.
        type: The type in words.
        default: In TOML notation. Empty if the key is optional without a value, ``required`` if it must be set.
        meaning: The description from the class's docstring, in one line.
    """

    name: str
    type: str
    default: str
    meaning: str


def plugin_keys(kind: type[Any]) -> list[PluginKey]:
    """Return the settings of an attrs class, in the order of its fields."""
    import attrs

    from codex_framework.contract.protocol.variants import wire_fields

    try:
        hints = typing.get_type_hints(kind)
    except Exception:  # a name that only a type checker knows
        hints = {}
    fields = {field.name: field for field in attrs.fields(kind)}
    meanings = _meanings(kind)
    return [
        PluginKey(word, _type_text(hints.get(name, Any)), _default(fields[name].default), meanings.get(name, ""))
        for name, word in wire_fields(kind)  # type: ignore[arg-type]  # classes are hashable
    ]


def _type_text(kind: Any) -> str:
    if kind in _WORDS:
        return _WORDS[kind]
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return _join_words([json.dumps(part) for part in parts])
    if origin in (typing.Union, types.UnionType):
        return _join_words([_type_text(part) for part in parts if part is not types.NoneType])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"a table of {_plural(parts[-1])}"
    if isinstance(origin, type) and issubclass(origin, (Sequence, frozenset, set)):
        return f"a list of {_plural(parts[0])}"
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _join_words([json.dumps(member.value) for member in kind])
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return "a path (a string)"
    return "a table"


def _plural(kind: Any) -> str:
    said = _type_text(kind)
    return _PLURALS.get(said, f"values, each {said}")


def _join_words(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _default(value: Any) -> str:
    import attrs

    if value is attrs.NOTHING:
        return "required"
    if isinstance(value, attrs.Factory):  # type: ignore[arg-type]  # a class, whatever its stub says
        value = [] if value.factory in (list, tuple, set, frozenset) else {}
    if value is None:
        return ""
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, (tuple, list, set, frozenset)):
        return f"[{', '.join(map(_default, value))}]"
    if isinstance(value, (str, bool, int, float)):
        return json.dumps(value, ensure_ascii=False)
    return "{}" if isinstance(value, Mapping) else str(value)


def _meanings(kind: type[Any]) -> dict[str, str]:
    """Return the descriptions of attributes from docstrings, including base classes."""
    found: dict[str, str] = {}
    for owner in reversed(kind.__mro__):
        section = re.search(r"^Attributes:\n((?:[ \t]+\S.*\n?|\n)+)", inspect.cleandoc(owner.__doc__ or ""), re.M)
        for name, text in re.findall(r"^    (\w+): ((?:.+\n?(?:     +.*\n?)*))", section[1] if section else "", re.M):
            found[name] = " ".join(text.split())
    return found
