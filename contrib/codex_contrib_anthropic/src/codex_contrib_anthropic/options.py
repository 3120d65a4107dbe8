"""The keys of a provider's table that only this plugin has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from codex_framework import ProviderInfo, Value
from codex_framework.contract.value import field
from codex_framework.toolkit.model_server.table import OptionReader

__all__ = ["MessagesOptions"]

_THINKING = ("auto", "adaptive", "budget", "none")
_CACHE = ("5m", "1h", "none")
_FIXED = ("messages", "model", "stream", "system", "tools")
"""Fields of the body that are the request itself."""


class MessagesOptions(Value, kw_only=True):
    """What a server needs to be told differently.

    Attributes:
        max_tokens: The longest response, in tokens. None takes that of the model, at most 32,000.
        thinking: ``adaptive``, ``budget`` or ``none``. With ``auto``, the model's name decides.
        thinking_budget: Tokens of thinking, with ``budget``. None takes a number for the reasoning effort.
        cache: How long the server keeps the beginning of a request: ``5m``, ``1h``, or ``none``.
        betas: Names for the header ``anthropic-beta``.
        input_modalities: Without ``image``, images are replaced with a note.
        request_fields: Added to the body of every request.
        omit_fields: Left out of the body of every request.
    """

    KEYS: ClassVar[frozenset[str]] = frozenset(
        {
            *("max_tokens", "thinking", "thinking_budget", "cache", "betas"),
            *("input_modalities", "request_fields", "omit_fields"),
        }
    )

    max_tokens: int | None = None
    thinking: str = "auto"
    thinking_budget: int | None = None
    cache: str = "5m"
    betas: tuple[str, ...] = ()
    input_modalities: tuple[str, ...] = ("text", "image")
    request_fields: Mapping[str, Any] = field(factory=dict)
    omit_fields: tuple[str, ...] = ()

    @classmethod
    def of(cls, info: ProviderInfo) -> MessagesOptions:
        """Return the options in a provider's table.

        Raises:
            ModelError: One is invalid.
        """
        read = OptionReader(info)
        added, omitted = read.fields(_FIXED)
        return cls(
            max_tokens=read.count("max_tokens", least=1, noun="tokens"),
            thinking=read.choice("thinking", _THINKING),
            thinking_budget=read.count("thinking_budget", least=1024, noun="tokens"),
            cache=read.choice("cache", _CACHE),
            betas=read.texts("betas"),
            input_modalities=read.texts("input_modalities", ("text", "image")),
            request_fields=added,
            omit_fields=omitted,
        )
