"""The model provider for the Chat Completions API."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from codex_framework import ModelClient, ModelInfo, ModelProvider, ProviderInfo

__all__ = ["ChatProvider"]


class ChatProvider(ModelProvider):
    """The model provider for servers with the Chat Completions API (``wire_api = "chat"``).

    Args:
        config: The merged configuration, which determines where logins are stored and which are permitted.
    """

    name = "chat"

    def __init__(self, config: Mapping[str, Any] = MappingProxyType({})) -> None:
        self._config = config

    def open(self, info: ProviderInfo, env: Mapping[str, str]) -> ModelClient:
        """Return a client. No request is sent yet.

        Raises:
            ModelError: The URL, the key or an option is missing or unusable.
        """
        from codex_lib_model_client.addresses import COMMON_OPTIONS, check_options, is_azure, post_address
        from codex_lib_model_client.credentials import credentials
        from codex_lib_model_client.headers import common_headers
        from codex_plugin_chat.body import BodyWriter
        from codex_plugin_chat.client import ChatClient
        from codex_plugin_chat.options import ChatOptions

        check_options(info, COMMON_OPTIONS | ChatOptions.KEYS)
        options = ChatOptions.of(info)
        url, host = post_address(info, "/chat/completions")
        key, tokens = credentials(info, env, self._config)
        headers = common_headers(info, env, key)
        bodies = BodyWriter(options, is_openai=host == "api.openai.com" or is_azure(host))
        return ChatClient(info, env, url, headers, bodies, tokens=tokens)

    def model(self, slug: str) -> ModelInfo | None:
        """Return the description of a model, or None if it is unknown. No model has tool search or groups of tools over this API."""
        from codex_framework.toolkit.model_catalogue import known_model

        known = known_model(slug)
        return None if known is None else known.evolve(tool_search=False, namespaces=False, lite=False)
