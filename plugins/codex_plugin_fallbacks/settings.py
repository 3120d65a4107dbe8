"""The settings of the plugin. The kernel refuses them in a project's file, because they decide where conversations are sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codex_framework import PluginContext, Value
from codex_framework.contract.errors import ConfigError

__all__ = ["Fallback", "Settings", "settings_of"]

_TABLE = ("framework", "plugins", "fallbacks")


class Fallback(Value, kw_only=True):
    """A model that replaces a failed one.

    Attributes:
        model: Its name.
        provider: The id of its provider. By default, the configured provider (``model_provider``).
    """

    model: str
    provider: str | None = None


class Settings(Value, kw_only=True):
    """The table ``[framework.plugins.fallbacks]``.

    Attributes:
        model_fallbacks: The models to continue with, in order.
        return_after_s: How long a failed model is skipped, in seconds. Afterwards a new turn tries it again.
        longest_wait_s: The longest delay that a server may request before its model counts as failed, in seconds.
    """

    model_fallbacks: tuple[Fallback, ...] = ()
    return_after_s: float = 300.0
    longest_wait_s: float = 60.0


def settings_of(plugin: PluginContext) -> Settings:
    """Return the settings.

    Raises:
        ConfigError: A setting has the wrong type.
    """
    table = _lookup(plugin.config)
    table = table if isinstance(table, Mapping) else {}
    numbers = {name: _number(name, table[name]) for name in ("return_after_s", "longest_wait_s") if name in table}
    return Settings(model_fallbacks=_models(table.get("model_fallbacks", ())), **numbers)


def _lookup(tables: Mapping[str, Any]) -> Any:
    found: Any = tables
    for key in _TABLE:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _models(value: Any) -> tuple[Fallback, ...]:
    hint = 'Write model_fallbacks = [{ model = "gpt-5.4", provider = "azure" }].'
    if not isinstance(value, (list, tuple)):
        raise _wrong("model_fallbacks", "is not a list", hint)
    found: list[Fallback] = []
    for number, entry in enumerate(value, 1):
        known = isinstance(entry, Mapping) and not set(entry) - {"model", "provider"}
        if not known or not isinstance(entry.get("model"), str) or not entry["model"].strip():
            raise _wrong("model_fallbacks", f"has an entry (number {number}) that is no table with a model", hint)
        provider = entry.get("provider")
        if provider is not None and not isinstance(provider, str):
            raise _wrong("model_fallbacks", f"has an entry (number {number}) whose provider is not a text", hint)
        found.append(Fallback(model=entry["model"], provider=provider))
    return tuple(found)


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
        raise _wrong(name, f"is {value!r}, which is not a number of seconds", "Write 0 or more seconds.")
    return float(value)


def _wrong(key: str, what: str, hint: str) -> ConfigError:
    name = ".".join((*_TABLE, key))
    return ConfigError(f"`{name}` {what}", key=name, hint=hint, slug="config-type")
