"""The settings of the terminal."""

from __future__ import annotations

from codex_framework import Value

__all__ = ["Settings"]


class Settings(Value, kw_only=True):
    """The table ``[framework.plugins.terminal]``.

    Attributes:
        plain: Whether the conversation consists of plain lines without a screen, as screen readers need it.
    """

    plain: bool = False
