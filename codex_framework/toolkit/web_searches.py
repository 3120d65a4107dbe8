"""The web search mode that a configuration selects: the setting ``web_search`` and its older forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["web_search_mode"]

_FEATURES = {"web_search_request": "live", "web_search": "live", "web_search_cached": "cached"}


def web_search_mode(config: Mapping[str, Any]) -> str:
    """Return the value of ``web_search``, or the equivalent of its older forms: ``live``, ``cached`` or ``disabled``.

    They are ``tools.web_search`` and ``tools.web_search_request``, and before them the features of these names.
    """
    if (mode := config.get("web_search")) is not None:
        return str(mode)
    tools, features = config.get("tools"), config.get("features")
    if isinstance(tools, Mapping):
        older = tools.get("web_search", tools.get("web_search_request"))
        if isinstance(older, bool):
            return "live" if older else "disabled"
    if isinstance(features, Mapping):
        return next((mode for name, mode in _FEATURES.items() if features.get(name) is True), "disabled")
    return "disabled"
