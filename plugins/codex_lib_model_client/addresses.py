"""The address of a model server, and the options in its table."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlencode, urlsplit

from codex_framework.contract.errors import ModelError
from codex_framework.contract.roles.models import ProviderInfo
from codex_framework.contract.urls import shown_url

__all__ = ["COMMON_OPTIONS", "check_options", "is_azure", "post_address", "takes_images"]

_AZURE = (".openai.azure.com", ".cognitiveservices.azure.com", ".azure-api.net")

COMMON_OPTIONS = frozenset(
    {
        "auth",
        "input_modalities",
        "record",
        "remote_compaction",
        "request_compression",
        "supports_websockets",
        "websocket_connect_timeout_ms",
    }
)
"""Supported keys of every provider's table that are not fields of ``ProviderInfo``.

``remote_compaction`` and the two keys for WebSockets have an effect with the Responses API only.
"""


def check_options(info: ProviderInfo, supported: Collection[str] = COMMON_OPTIONS) -> None:
    """Check that all keys of the table are supported.

    Raises:
        ModelError: A key is unknown, or is ``aws``, which only Codex supports.
    """
    for key in info.options:
        if key == "aws":
            raise ModelError(
                f"[model_providers.{info.id}] asks for credentials from `{key}`, which is unsupported",
                info="bad_request",
                slug="provider-option",
                hint="Use env_key, experimental_bearer_token, http_headers or auth.",
            )
        if key not in supported:
            from difflib import get_close_matches

            from codex_framework.contract.value import fields_of

            known = [
                *(field.name for field in fields_of(ProviderInfo) if field.name not in ("id", "options")),
                *supported,
            ]
            suggestions = get_close_matches(key, known, 1) or sorted(known)
            raise ModelError(
                f"[model_providers.{info.id}] has an unknown key: {key}",
                info="bad_request",
                slug="provider-option",
                hint=f"Remove it, or write {' or '.join(suggestions)}.",
            )


def takes_images(info: ProviderInfo) -> bool:
    """Return whether a provider's ``input_modalities`` have images. Without the key, they do.

    Raises:
        ModelError: It is not a list of strings.
    """
    if "input_modalities" not in info.options:
        return True
    from codex_lib_model_client.table import OptionReader

    return "image" in OptionReader(info).texts("input_modalities")


def post_address(info: ProviderInfo, path: str) -> tuple[str, str]:
    """Return the URL of an endpoint below ``base_url``, and its host.

    Raises:
        ModelError: ``base_url`` is missing or unusable.
    """
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
    return parts._replace(path=parts.path.rstrip("/") + path, query=query, fragment="").geturl(), host


def is_azure(host: str) -> bool:
    """Return whether a host belongs to Azure."""
    return host.endswith(_AZURE)


def _bad_url(info: ProviderInfo, fact: str) -> ModelError:
    hint = f'Set base_url = "https://host/v1" in [model_providers.{info.id}].'
    return ModelError(fact, info="bad_request", slug="base-url", hint=hint)
