"""The settings of the plugin."""

from __future__ import annotations

from codex_framework import Value

__all__ = ["Settings"]


class Settings(Value, kw_only=True):
    """The table ``[framework.plugins.guardian]``.

    Attributes:
        model: A model of the same provider. By default, the turn's model.
        reasoning_effort: The reasoning effort of the reviewing model. An empty string means the turn's effort.
    """

    model: str | None = None
    reasoning_effort: str = "low"
