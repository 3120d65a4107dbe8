"""The model provider for the Responses API, with its built-in provider tables."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from codex_framework import ModelClient, ModelInfo, ModelProvider, ProviderInfo
from codex_plugin_openai.shared_access import SharedAccess

__all__ = ["ResponsesProvider"]

_OPENAI_URL = "https://api.openai.com/v1"


def _local(provider: str, name: str, port: int) -> ProviderInfo:
    # A local server processes the whole prompt before it responds, which takes minutes without a GPU.
    return ProviderInfo(id=provider, name=name, base_url=f"http://localhost:{port}/v1", response_timeout_ms=300_000)


def _with_local_address(info: ProviderInfo, env: Mapping[str, str]) -> ProviderInfo:
    """Return a provider of local models where the environment says that it listens (Codex's variables)."""
    if info.id not in ("ollama", "lmstudio"):
        return info
    from codex_lib_model_client.local_servers import local_url

    return info.evolve(base_url=local_url(info.base_url or "", env))


class ResponsesProvider(ModelProvider):
    """The model provider for servers with the Responses API (``wire_api = "responses"``).

    Args:
        config: The merged configuration, which determines where logins are stored and which are permitted.
        shared: The credentials of providers, if other objects use them too.
    """

    name = "responses"
    builtin: Mapping[str, ProviderInfo] = {
        info.id: info
        for info in (
            ProviderInfo(id="openai", name="OpenAI", base_url=_OPENAI_URL, requires_openai_auth=True),
            _local("ollama", "Ollama", 11434),
            _local("lmstudio", "LM Studio", 1234),
        )
    }

    def __init__(self, config: Mapping[str, Any] = MappingProxyType({}), shared: SharedAccess | None = None) -> None:
        self._config = config
        self._shared = shared or SharedAccess(config)

    def open(self, info: ProviderInfo, env: Mapping[str, str]) -> ModelClient:
        """Return a client. No request is sent yet.

        Raises:
            ModelError: The URL or the key is missing or unusable.
        """
        from codex_lib_model_client.addresses import check_options, is_azure, post_address
        from codex_lib_model_client.headers import common_headers
        from codex_plugin_openai.client import ResponsesClient
        from codex_plugin_openai.socket_choice import socket_choice

        check_options(info)
        info = _with_local_address(info, env)
        found = self._shared.of(info, env)
        if found.base_url is not None and info.base_url == _OPENAI_URL:
            info = info.evolve(base_url=found.base_url)
        url, host = post_address(info, "/responses")
        headers = common_headers(info, env, found.key)
        compacts = self._compacts(info, azure=is_azure(host))
        if compacts:
            headers.setdefault("x-codex-beta-features", "remote_compaction_v2")
        # As in Codex, which compresses requests to OpenAI itself with a login of ChatGPT.
        compresses = found.base_url is not None and info.name == "OpenAI" and self._has("enable_request_compression")
        client = ResponsesClient(
            info,
            env,
            url,
            headers,
            tokens=found.tokens,
            store=is_azure(host),
            compresses=compresses,
            sockets=socket_choice(info, self._config),
            metadata=self._config.get("responses_api_metadata") or {},
        )
        client.compacts = compacts
        return client

    def _compacts(self, info: ProviderInfo, *, azure: bool) -> bool:
        """Return whether a provider's servers shorten conversations: OpenAI and Azure, by name or host, as in Codex.

        Raises:
            ModelError: The table's ``remote_compaction`` is neither true nor false.
        """
        wanted = info.options.get("remote_compaction")
        if wanted is not None and not isinstance(wanted, bool):
            from codex_framework import ModelError

            raise ModelError(
                f"remote_compaction in [model_providers.{info.id}] is neither true nor false",
                info="bad_request",
                slug="provider-option",
                hint="Write true if the server knows `compaction_trigger`; otherwise remove the key.",
            )
        if not self._has("remote_compaction_v2"):
            return False
        return (azure or info.name == "OpenAI" or info.name.lower() == "azure") if wanted is None else wanted

    def _has(self, feature: str) -> bool:
        """Return whether a feature is on that only the configuration turns off."""
        features = self._config.get("features")
        return not isinstance(features, Mapping) or features.get(feature) is not False

    def model(self, slug: str) -> ModelInfo | None:
        """Return the description of a model, or None if it is unknown."""
        from codex_framework.toolkit.model_catalogue import known_model

        return known_model(slug)
