"""The settings of the plugin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codex_framework import Value

__all__ = ["Settings", "own_setting"]


class Settings(Value, kw_only=True):
    """The table ``[framework.plugins.read_file]``.

    Attributes:
        offer: Whether to offer the tools. Without it, they are offered to models that have no command sessions or know them.
    """

    offer: bool | None = None


def own_setting(config: Mapping[str, Any], name: str, default: Any) -> Any:
    """Return a setting from a thread's configuration, which may differ from the kernel's, or the default."""
    table: Any = config
    for key in ("framework", "plugins", "read_file"):
        table = table.get(key) if isinstance(table, Mapping) else None
    value = table.get(name) if isinstance(table, Mapping) else None
    return value if isinstance(value, bool) else default
