"""The provider of models over the Responses API: its name, built-in providers, and clients."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode, urlsplit

from codex_framework import ModelClient, ModelError, ModelInfo, ModelProvider, ProviderInfo
from codex_plugin_openai.catalogue import known_model

__all__ = ["ResponsesProvider"]

_AZURE = (".openai.azure.com", ".cognitiveservices.azure.com", ".azure-api.net")
_OPTIONS = frozenset({"auth", "record", "supports_websockets", "websocket_connect_timeout_ms"})
"""Supported keys of a table that are not in ``ProviderInfo``. Those for websockets are read by Codex only; SSE does not need them."""


class ResponsesProvider(ModelProvider):
    """Providers with the Responses API (``wire_api = "responses"``)."""

    name = "responses"
    builtin: Mapping[str, ProviderInfo] = {
        info.id: info
        for info in (
            ProviderInfo(id="openai", name="OpenAI", base_url="https://api.openai.com/v1", requires_openai_auth=True),
            ProviderInfo(id="ollama", name="Ollama", base_url="http://localhost:11434/v1"),
            ProviderInfo(id="lmstudio", name="LM Studio", base_url="http://localhost:1234/v1"),
        )
    }

    def open(self, info: ProviderInfo, env: Mapping[str, str]) -> ModelClient:
        """Return a client. Nothing is sent yet.

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
        """Return the facts about a model, or None if it is unknown."""
        return known_model(slug)


def _check_options(info: ProviderInfo) -> None:
    """Refuse keys that nothing reads, because they are mistakes, and ``aws``, which only Codex supports."""
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
            info, f"the base_url {info.base_url!r} of the model provider {info.id!r} is not a URL: {error}"
        ) from error
    if parts.scheme not in ("http", "https") or not host or not info.base_url.isascii() or " " in info.base_url:
        raise _bad_url(
            info, f"the base_url {info.base_url!r} of the model provider {info.id!r} is not an http or https URL"
        )
    query = "&".join(part for part in (parts.query, urlencode(dict(info.query_params))) if part)
    path = parts.path.rstrip("/") + "/responses"
    return parts._replace(path=path, query=query, fragment="").geturl(), host


def _bad_url(info: ProviderInfo, fact: str) -> ModelError:
    hint = f'Set base_url = "https://host/v1" in [model_providers.{info.id}].'
    return ModelError(fact, info="bad_request", slug="base-url", hint=hint)
