"""The model provider for the Messages API, with its built-in table."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from codex_framework import ModelClient, ModelInfo, ModelProvider, ProviderInfo

__all__ = ["MessagesProvider"]

_VERSION = "2023-06-01"
"""The version of the API (header ``anthropic-version``)."""


class MessagesProvider(ModelProvider):
    """The model provider for servers with the Messages API (``wire_api = "messages"``).

    Args:
        config: The merged configuration, which determines where logins are stored and which are permitted.
    """

    name = "messages"
    builtin: Mapping[str, ProviderInfo] = {
        "anthropic": ProviderInfo(
            id="anthropic",
            name="Anthropic",
            base_url="https://api.anthropic.com/v1",
            wire_api="messages",
            env_key="ANTHROPIC_API_KEY",
            env_key_instructions="Create a key at https://console.anthropic.com and set ANTHROPIC_API_KEY to it.",
        )
    }

    def __init__(self, config: Mapping[str, Any] = MappingProxyType({})) -> None:
        self._config = config

    def open(self, info: ProviderInfo, env: Mapping[str, str]) -> ModelClient:
        """Return a client. No request is sent yet.

        Raises:
            ModelError: The URL, the key or an option is missing or unusable.
        """
        from codex_contrib_anthropic.body import BodyWriter
        from codex_contrib_anthropic.client import MessagesClient
        from codex_contrib_anthropic.options import MessagesOptions
        from codex_lib_model_client.addresses import COMMON_OPTIONS, check_options, post_address
        from codex_lib_model_client.credentials import credentials
        from codex_lib_model_client.headers import common_headers

        check_options(info, COMMON_OPTIONS | MessagesOptions.KEYS)
        url, _ = post_address(info, "/messages")
        options = MessagesOptions.of(info)
        key, tokens = credentials(info, env, self._config)
        headers = {"anthropic-version": _VERSION}
        if options.betas:
            headers["anthropic-beta"] = ",".join(options.betas)
        if key is not None and info.env_key:
            # The key of a variable goes into the header of this API; tokens for gateways are bearer tokens.
            info = info.evolve(http_headers={"x-api-key": key, **info.http_headers})
            key = None
        headers |= common_headers(info, env, key)
        return MessagesClient(info, env, url, headers, BodyWriter(options), tokens=tokens)

    def model(self, slug: str) -> ModelInfo | None:
        """Return the description of a model, or None if it is not a Claude model."""
        from codex_contrib_anthropic.catalogue import described

        return described(slug)
