"""The keys of a provider's table that only this plugin has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import urlsplit

from codex_framework import ProviderInfo, Value
from codex_framework.contract.value import field
from codex_lib_model_client.table import OptionReader

__all__ = ["MessagesOptions"]

_THINKING = ("auto", "adaptive", "budget", "none")
_CACHE = ("5m", "1h", "none")
_FIXED = ("messages", "model", "stream", "system", "tools")
"""Fields of the body that are the request itself."""

_SEARCH = re.compile(r"auto|none|web_search_20\d{6}")
_OWN_HOST = ".anthropic.com"
_MEGABYTE = 1024 * 1024


class MessagesOptions(Value, kw_only=True):
    """Options for servers that need different requests.

    Attributes:
        max_tokens: The maximum length of a response in tokens. None uses the model's limit, at most 32,000.
        thinking: ``adaptive``, ``budget`` or ``none``. With ``auto``, the model's name decides.
        thinking_budget: Tokens of thinking, with ``budget``. None takes a number for the reasoning effort.
        cache: How long the server keeps the beginning of a request: ``5m``, ``1h``, or ``none``.
        betas: Names for the header ``anthropic-beta``.
        web_search_tool: The version of the tool, ``none``, or ``auto``: the basic one, for models that are known to have it.
        web_search_max_uses: The maximum number of searches of one request. None means no limit.
        max_image_bytes: The longest image, in bytes of base64.
        max_request_bytes: The longest request, in bytes. Images get three quarters of it.
        request_fields: Added to the body of every request.
        omit_fields: Left out of the body of every request.
    """

    KEYS: ClassVar[frozenset[str]] = frozenset(
        {
            *("max_tokens", "thinking", "thinking_budget", "cache", "betas"),
            *("web_search_tool", "web_search_max_uses", "max_image_bytes", "max_request_bytes"),
            *("request_fields", "omit_fields"),
        }
    )

    max_tokens: int | None = None
    thinking: str = "auto"
    thinking_budget: int | None = None
    cache: str = "5m"
    betas: tuple[str, ...] = ()
    web_search_tool: str = "auto"
    web_search_max_uses: int | None = None
    max_image_bytes: int = 10 * _MEGABYTE
    max_request_bytes: int = 32_000_000
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
        search = info.options.get("web_search_tool", "auto")
        if not isinstance(search, str) or not _SEARCH.fullmatch(search):
            hint = "Use auto, none, or a version such as web_search_20250305."
            raise read.wrong("web_search_tool", f"is {search!r}", hint)
        # Others may pass requests on to Bedrock or Google Cloud, which take less.
        is_own = f".{urlsplit(info.base_url or '').hostname or ''}".endswith(_OWN_HOST)
        image_bytes = read.count("max_image_bytes", least=1, noun="bytes")
        request_bytes = read.count("max_request_bytes", least=1, noun="bytes")
        return cls(
            max_tokens=read.count("max_tokens", least=1, noun="tokens"),
            thinking=read.choice("thinking", _THINKING),
            thinking_budget=read.count("thinking_budget", least=1024, noun="tokens"),
            cache=read.choice("cache", _CACHE),
            betas=read.texts("betas"),
            web_search_tool=search,
            web_search_max_uses=read.count("web_search_max_uses", least=1, noun="searches"),
            max_image_bytes=image_bytes or (10 if is_own else 5) * _MEGABYTE,
            max_request_bytes=request_bytes or (32_000_000 if is_own else 20_000_000),
            request_fields=added,
            omit_fields=omitted,
        )
