"""Hides the credentials of requests in what servers say about them: careless servers repeat them in error messages."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

from codex_framework.contract.errors import ModelError
from codex_framework.contract.roles.models import ProviderInfo
from codex_framework.toolkit.hidden_texts import HIDDEN, SHORTEST, forms_of, without
from codex_lib_model_client.proxies import proxy_url

__all__ = ["CredentialFilter"]

_SHORTEST_HEADER = 12
"""Minimum length of hidden headers from the provider's table, which need not be credentials."""
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")
_SHORTENED = "..."
"""The end of a text of which only the beginning is shown."""
_KEPT = 8
"""Number of tokens of the past that are still hidden."""


class CredentialFilter:
    """Replaces the credentials of a provider in texts.

    Args:
        headers: The headers of every request.
        env: The environment, for headers that come from it.
    """

    def __init__(self, info: ProviderInfo, url: str, headers: Mapping[str, str], env: Mapping[str, str]) -> None:
        self._secrets = forms_of(
            (
                *_of_authorization(headers),
                *(text for text in map(str, info.http_headers.values()) if len(text) >= _SHORTEST_HEADER),
                *(env.get(variable, "").strip() for variable in info.env_http_headers.values()),
                *_of_url(url),
                *_of_proxies(env),
            )
        )
        self._tokens: list[str] = []

    def add(self, token: str) -> None:
        """Hide a token from now on."""
        if token not in self._tokens:
            self._tokens = [*self._tokens[1 - _KEPT :], token]

    def text(self, text: str) -> str:
        """Return a text without credentials."""
        return without(text, (*self._secrets, *forms_of(self._tokens)))

    def error(self, error: BaseException | None) -> None:
        """Remove credentials from the text of a ``ModelError``, which may contain text from the server."""
        if isinstance(error, ModelError):
            error.fact = self._without_cut_credential(self.text(error.fact))
            error.args = (error.fact, *error.args[1:])

    def _without_cut_credential(self, text: str) -> str:
        """Return a text without the beginning of a credential before the dots at its end."""
        shown = text.removesuffix(_SHORTENED)
        if shown == text:
            return text
        for secret in (*self._secrets, *forms_of(self._tokens)):
            for length in range(len(secret) - 1, SHORTEST - 1, -1):
                if shown.endswith(secret[:length]):
                    return f"{shown[:-length]}{HIDDEN}{_SHORTENED}"
        return text

    def body(self, body: bytes) -> bytes:
        """Return the body of a refusal without credentials."""
        return self.text(body.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _of_authorization(headers: Mapping[str, str]) -> Iterable[str]:
    for name, value in headers.items():
        if name.lower() == "authorization":
            yield value.partition(" ")[2].strip() or value
        elif name.lower() in ("api-key", "x-api-key"):
            yield value


def _of_proxies(env: Mapping[str, str]) -> Iterable[str]:
    for name, value in env.items():
        if name.lower() in _PROXIES:
            with contextlib.suppress(ValueError):  # no URL
                yield from _of_url(proxy_url(value.strip()))


def _of_url(url: str) -> Iterable[str]:
    parts = urlsplit(url)
    for name, value in parse_qsl(parts.query):
        if value and name != "api-version":
            yield value
    user, password = parts.username or "", parts.password or ""
    if password:
        yield password
        yield unquote(password)
        yield base64.b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
