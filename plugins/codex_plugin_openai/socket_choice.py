"""For which providers WebSockets are used, and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from codex_framework import ProviderInfo

__all__ = ["socket_choice"]

_BUILTIN = "openai"
_FEATURE = "responses_websockets"


def socket_choice(info: ProviderInfo, config: Mapping[str, Any]) -> Literal["required", "tried"] | None:
    """Return whether requests to a provider wait for a WebSocket (``required``) or use one when it is open (``tried``).

    A table asks for WebSockets by ``supports_websockets``. The built-in provider of OpenAI tries them, unless
    ``features.responses_websockets`` is false.
    """
    wanted = info.options.get("supports_websockets")
    if wanted is True:
        return "required"
    if wanted is not None or info.id != _BUILTIN:
        return None
    features = config.get("features")
    is_off = isinstance(features, Mapping) and features.get(_FEATURE) is False
    return None if is_off else "tried"
