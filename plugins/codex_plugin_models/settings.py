"""The settings of the plugin."""

from __future__ import annotations

from codex_framework import Value

__all__ = ["Settings"]


class Settings(Value, kw_only=True):
    """The table ``[framework.plugins.models]``.

    Attributes:
        refresh: Whether OpenAI's server is asked for its list of models, at most every five minutes and only with a login of
            ChatGPT.
    """

    refresh: bool = True
