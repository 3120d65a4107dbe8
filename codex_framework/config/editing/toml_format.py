"""Values, keys and tables in TOML notation, written by tomlkit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["key_text", "section_lines", "value_text"]


def key_text(path: Sequence[str | int]) -> str:
    """Return a dotted key. Array indexes are left out, as in headers."""
    import tomlkit

    return tomlkit.key([part for part in path if isinstance(part, str)]).as_string()


def value_text(value: Any, before: str = "") -> str:
    """Return a value on one line.

    Args:
        value: Any value that TOML supports.
        before: The text that the value replaces. If it is a single-quoted string, a new string is single-quoted too.
    """
    import tomlkit

    if isinstance(value, Mapping):
        members = ", ".join(f"{key_text([name])} = {value_text(part)}" for name, part in value.items())
        return f"{{ {members} }}" if members else "{}"
    if isinstance(value, list):
        return f"[{', '.join(value_text(part) for part in value)}]"
    if (
        isinstance(value, str)
        and before[:1] == "'"
        and before[:3] != "'''"
        and value.isprintable()
        and "'" not in value
    ):
        return f"'{value}'"
    text: str = tomlkit.item(value).as_string()
    return text


def section_lines(path: Sequence[str | int], table: Mapping[str, Any], *, is_element: bool = False) -> list[str]:
    """Return the lines of a table, with its header. Nested tables get their own headers.

    Args:
        path: The key of the table.
        table: Its entries.
        is_element: Whether the table is an element of an array of tables.
    """
    name = key_text(path)
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    tables = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    lines = []
    if plain or not tables or is_element:
        lines.append(f"[[{name}]]" if is_element else f"[{name}]")
        lines += [f"{key_text([key])} = {value_text(value)}" for key, value in plain.items()]
    for key, value in tables.items():
        lines += ["", *section_lines((*path, key), value)] if lines else section_lines((*path, key), value)
    return lines
