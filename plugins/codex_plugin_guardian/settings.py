"""The settings of the plugin."""

from __future__ import annotations

from codex_framework import Value

__all__ = ["Settings"]


class Settings(Value, kw_only=True):
    """The table ``[framework.plugins.guardian]``.

    Attributes:
        model: Another model of the same provider. Without it, the model of the turn.
        reasoning_effort: The reasoning effort of the reviewing model. An empty string means that of the turn.
    """

    model: str | None = None
    reasoning_effort: str = "low"
