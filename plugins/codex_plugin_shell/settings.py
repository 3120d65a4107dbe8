"""The settings of the plugin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from codex_framework import Value

__all__ = ["Settings", "selected_tool"]


class Settings(Value, kw_only=True):
    """The table ``[framework.plugins.shell]``.

    Attributes:
        offer: The tool to offer for all models. By default, the model's properties decide.
    """

    offer: Literal["shell", "shell_command", "local_shell"] | None = None


def selected_tool(config: Mapping[str, Any]) -> str | None:
    """Return the tool that the configuration of a thread selects, which may differ from the kernel's."""
    table: Any = config
    for key in ("framework", "plugins", "shell"):
        table = table.get(key) if isinstance(table, Mapping) else None
    return table.get("offer") if isinstance(table, Mapping) else None
