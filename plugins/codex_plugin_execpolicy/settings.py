"""The settings of the plugin."""

from __future__ import annotations

from codex_framework import Value

__all__ = ["Settings"]


class Settings(Value, kw_only=True):
    """The table ``[framework.plugins.execpolicy]``.

    Attributes:
        ignore_rules: Whether to ignore all rules but those of the system's administrator.
    """

    ignore_rules: bool = False
