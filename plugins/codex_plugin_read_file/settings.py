"""The settings of the plugin."""

from __future__ import annotations

from codex_framework import Value

__all__ = ["Settings"]


class Settings(Value, kw_only=True):
    """The table ``[framework.plugins.read_file]``.

    Attributes:
        offer: Whether to offer the tools. Without it, they are offered to models that have no command sessions.
    """

    offer: bool | None = None
