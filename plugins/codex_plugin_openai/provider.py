"""The provider: what it is called, whom it knows, how it opens."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode, urlsplit

import attrs

from codex_framework import ModelClient, ModelError, ModelInfo, ProviderInfo
from codex_plugin_openai.catalogue import known_model

__all__ = ["ResponsesProvider"]

_AZURE = (".openai.azure.com", ".cognitiveservices.azure.com", ".azure-api.net")
_OPTIONS = frozenset({"auth", "record", "supports_websockets", "websocket_connect_timeout_ms"})
"""Keys of a table that are not in ``ProviderInfo`` and yet right. Those on websockets are for Codex; SSE needs none of them."""


class ResponsesProvider:
    """Everything that speaks the Responses wire (``wire_api = "responses"``)."""

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
        """A client; nothing is sent yet.

        Raises:
            ModelError: No URL, no key, or one that cannot be used.
        """
        from codex_plugin_openai.client import ResponsesClient
        from codex_plugin_openai.credentials import api_key
        from codex_plugin_openai.headers import standing_headers

        _check_options(info)
        url, host = _address(info)
        tokens = None
        if "auth" in info.options:
            from codex_plugin_openai.token_command import TokenCommand

            tokens = TokenCommand.of(info, env)
        headers = standing_headers(info, env, None if tokens else api_key(info, env))
        return ResponsesClient(info, env, url, headers, tokens=tokens, store=host.endswith(_AZURE))

    def model(self, slug: str) -> ModelInfo | None:
        """What is known of a model."""
        return known_model(slug)


def _check_options(info: ProviderInfo) -> None:
    """Keys of the table that nobody reads are mistakes, and one that Codex reads cannot be served here."""
    for key in info.options:
        if key == "aws":
            raise ModelError(
                f"[model_providers.{info.id}] asks for credentials by `{key}`, which this provider cannot do",
                info="bad_request",
                slug="provider-option",
                hint="Use env_key, experimental_bearer_token, http_headers or auth.",
            )
        if key not in _OPTIONS:
            from difflib import get_close_matches

            known = [
                *(field.name for field in attrs.fields(ProviderInfo) if field.name not in ("id", "options")),
                *_OPTIONS,
            ]
            meant = get_close_matches(key, known, 1) or sorted(known)
            raise ModelError(
                f"[model_providers.{info.id}] has an unknown key: {key}",
                info="bad_request",
                slug="provider-option",
                hint=f"Remove it, or write {' or '.join(meant)}.",
            )


def _address(info: ProviderInfo) -> tuple[str, str]:
    """Where to post, and the host in it."""
    if not info.base_url:
        raise _bad_url(info, f"the model provider {info.id!r} has no base_url")
    try:
        parts = urlsplit(info.base_url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise _bad_url(
            info, f"the base_url {info.base_url!r} of the model provider {info.id!r} is no URL: {error}"
        ) from error
    if parts.scheme not in ("http", "https") or not host or not info.base_url.isascii() or " " in info.base_url:
        raise _bad_url(
            info, f"the base_url {info.base_url!r} of the model provider {info.id!r} is no http or https URL"
        )
    query = "&".join(part for part in (parts.query, urlencode(dict(info.query_params))) if part)
    path = parts.path.rstrip("/") + "/responses"
    return parts._replace(path=path, query=query, fragment="").geturl(), host


def _bad_url(info: ProviderInfo, fact: str) -> ModelError:
    hint = f'Write base_url = "https://host/v1" into [model_providers.{info.id}].'
    return ModelError(fact, info="bad_request", slug="base-url", hint=hint)
