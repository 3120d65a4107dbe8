"""The output of ``codex-framework config get``."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from codex_framework.config.config import Config, Origin
from codex_framework.config.editing.toml_format import section_lines, value_text
from codex_framework.config.keys import format_key, lookup
from codex_framework.config.secrecy import without_secrets

__all__ = ["FoundSetting", "find_settings", "format_settings"]


@attrs.frozen
class FoundSetting:
    """A setting in one layer, or the merged result.

    Attributes:
        value: The value.
        origins: The origin of each part: of the value itself, or of each key of a table.
        layer: The layer's name; empty for the result.
    """

    value: Any
    origins: Mapping[tuple[str, ...], Origin | None]
    layer: str = ""


def find_settings(config: Config, key: tuple[str, ...]) -> list[FoundSetting]:
    """Return the result first, then the setting of each layer from highest to lowest precedence. Empty if it is not set."""
    value = lookup(config.tables, key)
    if value is None:
        return []
    parts = {path: config.origin(format_key(path)) if path else None for path, _ in _parts(value, key)}
    results = [FoundSetting(value, parts)]
    for layer in reversed(config.layers):
        value = lookup(layer.table, key)
        if value is not None:
            results.append(
                FoundSetting(value, {path: layer.origin(path) for path, _ in _parts(value, key)}, layer.name)
            )
    return results


def format_settings(
    results: Sequence[FoundSetting], key: tuple[str, ...], *, origin: bool, every: bool, as_json: bool, secrets: bool
) -> str:
    """Return the text to print.

    Args:
        results: The result of :func:`find_settings`.
        key: The key.
        origin: Whether to print files and lines.
        every: Whether to print all layers.
        as_json: Whether to print JSON.
        secrets: Whether to print secrets.
    """
    if not secrets:
        results = [attrs.evolve(result, value=without_secrets(result.value, key)) for result in results]
    if as_json:
        return json.dumps(_as_json(results, key, every=every), indent=2, ensure_ascii=False)
    if every:
        return "\n".join(line for result in results[1:] for line in _with_origins(result, key))
    if origin:
        return "\n".join(_with_origins(results[0], key))
    value = results[0].value
    if isinstance(value, str):
        return value
    if not isinstance(value, Mapping):
        return value_text(value)
    return "\n".join(section_lines(key, value) if key else _root_lines(value))


def _root_lines(table: Mapping[str, Any]) -> list[str]:
    plain = {name: value for name, value in table.items() if not isinstance(value, Mapping)}
    lines = [f"{format_key([name])} = {value_text(value)}" for name, value in plain.items()]
    for name, value in table.items():
        if isinstance(value, Mapping):
            lines += ["", *section_lines((name,), value)] if lines else section_lines((name,), value)
    return lines


def _parts(value: Any, key: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Return the keys and values of a table and of the tables in it."""
    if not isinstance(value, Mapping) or (key and not value):
        yield key, value
        return
    for name, part in value.items():
        yield from _parts(part, (*key, name))


def _with_origins(result: FoundSetting, key: tuple[str, ...]) -> Iterator[str]:
    for path, value in _parts(result.value, key):
        yield f"{result.origins.get(path)}\t{format_key(path)} = {value_text(value)}"


def _as_json(results: Sequence[FoundSetting], key: tuple[str, ...], *, every: bool) -> dict[str, Any]:
    first = results[0]
    answer = {"key": format_key(key), "value": _plain(first.value), "origins": _origins(first)}
    if every:
        answer["layers"] = [
            {"layer": result.layer, "value": _plain(result.value), "origins": _origins(result)}
            for result in results[1:]
        ]
    return answer


def _origins(result: FoundSetting) -> dict[str, Any]:
    return {
        format_key(path): {"path": origin.path, "line": origin.line}
        for path, origin in result.origins.items()
        if origin is not None
    }


def _plain(value: Any) -> Any:
    """Return the value with dates and infinite numbers as strings, because JSON cannot represent them."""
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, (str, int, float)) else str(value)
