"""The settings of the plugin."""

from __future__ import annotations

from codex_framework import Value

__all__ = ["Settings"]


class Settings(Value, kw_only=True):
    """The table ``[framework.plugins.local_models]``. The command line sets it.

    Attributes:
        oss: Whether a local provider was requested (``--oss``).
        provider: The provider (``--local-provider``): ``ollama`` or ``lmstudio``.
    """

    oss: bool = False
    provider: str | None = None
