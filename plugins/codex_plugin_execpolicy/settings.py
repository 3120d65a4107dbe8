"""The settings of the plugin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codex_framework import Value

__all__ = ["Settings", "own_setting"]


class Settings(Value, kw_only=True):
    """The table ``[framework.plugins.execpolicy]``.

    Attributes:
        ignore_rules: Whether to ignore all rules except the administrator's.
    """

    ignore_rules: bool = False


def own_setting(config: Mapping[str, Any], name: str, default: Any) -> Any:
    """Return a setting from a thread's configuration, which may differ from the kernel's, or the default."""
    table: Any = config
    for key in ("framework", "plugins", "execpolicy"):
        table = table.get(key) if isinstance(table, Mapping) else None
    value = table.get(name) if isinstance(table, Mapping) else None
    return value if isinstance(value, bool) else default
