"""The settings of the plugin."""

from __future__ import annotations

from codex_framework import Value

__all__ = ["Settings"]


class Settings(Value, kw_only=True):
    """The table ``[framework.plugins.dynamic_tools]``.

    Attributes:
        timeout_s: Time limit for a client's answer to a call, in seconds. Without it, the turn's end is the only limit.
    """

    timeout_s: float | None = None
