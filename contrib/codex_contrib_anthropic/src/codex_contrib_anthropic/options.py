"""The keys of a provider's table that only this plugin has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from codex_framework import ModelError, ProviderInfo, Value
from codex_framework.contract.value import field

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
        given = {key: value for key, value in info.options.items() if key in cls.KEYS}
        for key in ("betas", "input_modalities", "omit_fields"):
            if key in given:
                given[key] = _texts(info, key, given[key])
        for key, words in (("thinking", _THINKING), ("cache", _CACHE)):
            if given.get(key, words[0]) not in words:
                raise _wrong(info, key, f"is {given[key]!r}", f"Use one of: {', '.join(words)}.")
        for key, least in (("max_tokens", 1), ("thinking_budget", 1024)):
            if key in given and (type(given[key]) is not int or given[key] < least):
                raise _wrong(info, key, f"is {given[key]!r}", f"Write a number of tokens, at least {least}.")
        fields = given.get("request_fields", {})
        if not isinstance(fields, Mapping):
            raise _wrong(info, "request_fields", "is not a table", "Write request_fields = { temperature = 0.2 }.")
        for key in ("request_fields", "omit_fields"):
            for name in given.get(key, ()):
                if name in _FIXED:
                    raise _wrong(info, key, f"names {name!r}, which is always sent", "Remove it.")
        return cls(**given)


def _texts(info: ProviderInfo, key: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, (list, tuple)) or not all(isinstance(one, str) for one in value):
        raise _wrong(info, key, "is not a list of strings", f'Write {key} = ["..."].')
    return tuple(value)


def _wrong(info: ProviderInfo, key: str, what: str, hint: str) -> ModelError:
    fact = f"model_providers.{info.id}.{key} {what}"
    return ModelError(fact, info="bad_request", slug="provider-option", hint=hint)
