"""Entries of catalogues, in Codex's form, as properties of models."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from codex_framework import ModelInfo, ModelPrices

__all__ = ["EntryError", "entries_of", "model_of"]

_AGENT_TOOLS = ("v1", "v2", "disabled")

_SHELLS = {
    "default": "unified_exec",
    "unified_exec": "unified_exec",
    "shell_command": "shell_command",
    "shell": "shell",
    "local": "local",
    "disabled": "disabled",
}
_TOOL_MODES = {"direct": "direct", "code_mode": "code_mode", "code_mode_only": "code_mode_only"}
_LONGEST_NAME = 200
_MOST = 10**12
"""No window and no limit is larger, in tokens or bytes."""


class EntryError(ValueError):
    """A catalogue or an entry cannot be read. The text is a clause that says why."""


def entries_of(data: bytes | str) -> list[Any]:
    """Return the entries of a catalogue, ``{"models": [...]}``.

    Raises:
        EntryError: It is not a catalogue.
    """
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        place = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise EntryError(f"it is not valid JSON{place}") from None
    models = content.get("models") if isinstance(content, dict) else None
    if not isinstance(models, list):
        raise EntryError('it has no list "models"')
    return models


def model_of(entry: Any, *, trusted: bool) -> ModelInfo:
    """Return the properties that an entry describes. Missing values are as in Codex's own entries.

    Args:
        trusted: Whether the user wrote the entry. Base instructions of other entries are not used, because they describe
            Codex's tools.

    Raises:
        EntryError: The entry is not an object, has no name, or a value has the wrong type.
    """
    if not isinstance(entry, Mapping):
        raise EntryError("it is not an object")
    read = _Reader(entry)
    slug = read.text("slug")
    if not slug or len(slug) > _LONGEST_NAME or not slug.isprintable():
        raise EntryError('"slug" is missing or is no name')
    lite = read.flag("use_responses_lite", default=False)
    search = read.flag("supports_search_tool", default=False)
    summary = read.text("default_reasoning_summary")
    efforts = _efforts(entry)
    known = bool(efforts) or read.flag("supports_reasoning_summaries", default=True)
    modalities = entry.get("input_modalities", ["text", "image"])
    if not isinstance(modalities, list):
        raise EntryError('"input_modalities" is not a list')
    return ModelInfo(
        slug=slug,
        display_name=read.text("display_name"),
        context_window=read.count("context_window", 272_000),
        max_context_window=read.count("max_context_window", 0) or None,
        usable_percent=min(read.count("effective_context_window_percent", 95), 100),
        truncation=_truncation(entry),
        shell_type=_choice(entry, "shell_type", _SHELLS, "unified_exec"),
        apply_patch=_choice(entry, "apply_patch_tool_type", {"freeform": "freeform", "function": "function"}, None),
        parallel_tool_calls=read.flag("supports_parallel_tool_calls", default=not lite),
        reasoning=known,
        default_effort=read.text("default_reasoning_level") or None,
        efforts=efforts,
        default_summary=None if summary in ("", "none") else summary,
        verbosity=(read.text("default_verbosity") or None) if read.flag("support_verbosity", default=False) else None,
        supports_images="image" in modalities,
        image_detail_original=read.flag("supports_image_detail_original", default=False),
        tool_search=search and not lite,
        namespaces=search or lite,
        lite=lite,
        multi_agent=version if (version := read.text("multi_agent_version")) in _AGENT_TOOLS else None,
        tool_mode=_choice(entry, "tool_mode", _TOOL_MODES, "direct"),
        hidden=read.text("visibility") in ("hide", "none"),
        base_instructions=(read.text("base_instructions") or None) if trusted else None,
        prices=_prices(entry),
        compaction_hash=read.text("comp_hash") or None,
        extra_tools=_extra_tools(entry),
    )


class _Reader:
    """Reads values of an entry, and names the key of a value with the wrong type."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self._entry = entry

    def text(self, key: str) -> str:
        """Return a text. Empty if it is missing."""
        value = self._value(key, "", lambda value: isinstance(value, str), "a string")
        return str(value)

    def flag(self, key: str, *, default: bool) -> bool:
        """Return a truth value."""
        return bool(self._value(key, default, lambda value: isinstance(value, bool), "true or false"))

    def count(self, key: str, default: int) -> int:
        """Return a positive number."""
        value = self._value(
            key, default, lambda value: type(value) is int and 0 < value <= _MOST, "a positive whole number"
        )
        return int(value)

    def _value(self, key: str, default: Any, fits: Callable[[Any], bool], kind: str) -> Any:
        value = self._entry.get(key)
        if value is None:
            return default
        if not fits(value):
            raise EntryError(f'"{key}" is not {kind}')
        return value


def _efforts(entry: Mapping[str, Any]) -> tuple[str, ...]:
    levels = entry.get("supported_reasoning_levels") or []
    if not isinstance(levels, list):
        raise EntryError('"supported_reasoning_levels" is not a list')
    found = [level.get("effort") if isinstance(level, Mapping) else level for level in levels]
    named = tuple(effort for effort in found if isinstance(effort, str))
    if len(named) < len(found):
        raise EntryError('"supported_reasoning_levels" has an entry without "effort"')
    return named


def _extra_tools(entry: Mapping[str, Any]) -> tuple[str, ...]:
    names = entry.get("experimental_supported_tools") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise EntryError('"experimental_supported_tools" is not a list of names')
    return tuple(names)


def _truncation(entry: Mapping[str, Any]) -> tuple[str, int]:
    policy = entry.get("truncation_policy")
    if policy is None:
        return "tokens", 10_000
    if isinstance(policy, Mapping):
        mode, limit = policy.get("mode"), policy.get("limit")
        if mode in ("tokens", "bytes") and type(limit) is int and 0 <= limit <= _MOST:
            return str(mode), limit
    raise EntryError('"truncation_policy" is not {"mode": "tokens" or "bytes", "limit": NUMBER}')


def _choice(entry: Mapping[str, Any], key: str, choices: Mapping[str, str], default: Any) -> Any:
    value = entry.get(key)
    if value is None:
        return default
    if not isinstance(value, str) or value not in choices:
        raise EntryError(f'"{key}" is not one of {", ".join(choices)}')
    return choices[value]


def _prices(entry: Mapping[str, Any]) -> ModelPrices | None:
    prices = entry.get("prices")
    if prices is None:
        return None
    try:
        return ModelPrices(**prices)
    except (TypeError, ValueError):
        fact = '"prices" is not {"input": NUMBER, "output": NUMBER}, with "cached_input", "cache_write" and "currency" if known'
        raise EntryError(fact) from None
