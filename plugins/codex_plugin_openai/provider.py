"""The model provider for the Responses API, with its built-in provider tables."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode, urlsplit

from codex_framework import ModelClient, ModelError, ModelInfo, ModelProvider, ProviderInfo
from codex_framework.contract.urls import shown_url
from codex_plugin_openai.catalogue import known_model

__all__ = ["ResponsesProvider"]

_AZURE = (".openai.azure.com", ".cognitiveservices.azure.com", ".azure-api.net")
_OPTIONS = frozenset({"auth", "record", "supports_websockets", "websocket_connect_timeout_ms"})
"""Supported keys of a provider's table that are not fields of ``ProviderInfo``.

Only Codex reads the keys for websockets; SSE does not need them.
"""


def _local(provider: str, name: str, port: int) -> ProviderInfo:
    # A local server processes the whole prompt before it responds, which takes minutes without a GPU.
    return ProviderInfo(id=provider, name=name, base_url=f"http://localhost:{port}/v1", response_timeout_ms=300_000)


class ResponsesProvider(ModelProvider):
    """The model provider for servers with the Responses API (``wire_api = "responses"``)."""

    name = "responses"
    builtin: Mapping[str, ProviderInfo] = {
        info.id: info
        for info in (
            ProviderInfo(id="openai", name="OpenAI", base_url="https://api.openai.com/v1", requires_openai_auth=True),
            _local("ollama", "Ollama", 11434),
            _local("lmstudio", "LM Studio", 1234),
        )
    }

    def open(self, info: ProviderInfo, env: Mapping[str, str]) -> ModelClient:
        """Return a client. No request is sent yet.

        Raises:
            ModelError: The URL or the key is missing or unusable.
        """
        from codex_plugin_openai.client import ResponsesClient
        from codex_plugin_openai.credentials import api_key
        from codex_plugin_openai.headers import common_headers

        _check_options(info)
        url, host = _address(info)
        tokens = None
        if "auth" in info.options:
            from codex_plugin_openai.token_command import TokenCommand

            tokens = TokenCommand.of(info, env)
        headers = common_headers(info, env, None if tokens else api_key(info, env))
        return ResponsesClient(info, env, url, headers, tokens=tokens, store=host.endswith(_AZURE))

    def model(self, slug: str) -> ModelInfo | None:
        """Return the description of a model, or None if it is unknown."""
        return known_model(slug)


def _check_options(info: ProviderInfo) -> None:
    """Raise ModelError for unknown keys, and for ``aws``, which only Codex supports."""
    for key in info.options:
        if key == "aws":
            raise ModelError(
                f"[model_providers.{info.id}] asks for credentials from `{key}`, which is unsupported",
                info="bad_request",
                slug="provider-option",
                hint="Use env_key, experimental_bearer_token, http_headers or auth.",
            )
        if key not in _OPTIONS:
            from difflib import get_close_matches

            from codex_framework.contract.value import fields_of

            known = [
                *(field.name for field in fields_of(ProviderInfo) if field.name not in ("id", "options")),
                *_OPTIONS,
            ]
            suggestions = get_close_matches(key, known, 1) or sorted(known)
            raise ModelError(
                f"[model_providers.{info.id}] has an unknown key: {key}",
                info="bad_request",
                slug="provider-option",
                hint=f"Remove it, or write {' or '.join(suggestions)}.",
            )


def _address(info: ProviderInfo) -> tuple[str, str]:
    """Return the URL to post to, and its host."""
    if not info.base_url:
        raise _bad_url(info, f"the model provider {info.id!r} has no base_url")
    try:
        parts = urlsplit(info.base_url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise _bad_url(
            info, f"the base_url {shown_url(info.base_url)!r} of the model provider {info.id!r} is not a URL"
        ) from error
    if parts.scheme not in ("http", "https") or not host or not info.base_url.isascii() or " " in info.base_url:
        raise _bad_url(
            info,
            f"the base_url {shown_url(info.base_url)!r} of the model provider {info.id!r} is not an http or https URL",
        )
    query = "&".join(part for part in (parts.query, urlencode(dict(info.query_params))) if part)
    path = parts.path.rstrip("/") + "/responses"
    return parts._replace(path=path, query=query, fragment="").geturl(), host


def _bad_url(info: ProviderInfo, fact: str) -> ModelError:
    hint = f'Set base_url = "https://host/v1" in [model_providers.{info.id}].'
    return ModelError(fact, info="bad_request", slug="base-url", hint=hint)
