"""The target of a webhook: URL, headers and signatures, none of which appears in messages."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping

from codex_framework import Value
from codex_framework.contract.errors import ConfigError
from codex_framework.contract.value import field
from codex_plugin_notify.settings import Webhook

__all__ = ["Target", "signature", "target"]

_URL = re.compile(r"(https?)://(?:[^/?#@\s]*@)?([^/?#@\s]+)(?:[/?#]\S*)?", re.IGNORECASE)
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_OWN = ("content-length", "content-type", "host", "transfer-encoding")
_LONGEST_CLOSE_S = 4.0
"""Notifiers have five seconds for their end."""


class Target(Value, kw_only=True):
    """A webhook that can be posted to.

    Attributes:
        shown: Its scheme and host, for messages. The rest of a URL is often a secret.
        headers: With the values of variables filled in.
        secret: The key of signatures. Empty if requests are not signed.
        retry_s: How long a message is sent again after failures, in seconds.
        environ: The variables that name certificates.
    """

    url: str = field(repr=False)
    shown: str
    headers: Mapping[str, str] = field(factory=dict, repr=False)
    secret: bytes = field(default=b"", repr=False)
    timeout_s: float = 10.0
    retry_s: float = 60.0
    close_timeout_s: float = 3.0
    environ: Mapping[str, str] = field(factory=dict, repr=False)


def target(name: str, table: Webhook, environ: Mapping[str, str]) -> Target:
    """Return the target of a table.

    Raises:
        ConfigError: The URL or a header is missing or not valid, or a variable is not set. No value appears in the error.
    """
    key = f"framework.plugins.notify.webhooks.{name}"
    url = _url(key, table, environ)
    match = _URL.fullmatch(url)
    if match is None:
        named = f"the variable {table.url_env_var}" if table.url_env_var else f"`{key}.url`"
        raise ConfigError(f"{named} is not a URL", key=f"{key}.url", hint="Write a URL with http:// or https://.")
    return Target(
        url=url,
        shown=f"{match[1].lower()}://{match[2]}",
        headers=_headers(key, table, environ),
        secret=_secret(key, table.secret_env_var, environ),
        timeout_s=max(table.timeout_s, 0.01),
        retry_s=max(table.retry_s, 0.0),
        close_timeout_s=min(max(table.close_timeout_s, 0.0), _LONGEST_CLOSE_S),
        environ={word: environ[word] for word in ("SSL_CERT_FILE", "SSL_CERT_DIR") if environ.get(word)},
    )


def signature(secret: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the signature of a request, in the form of Standard Webhooks."""
    signed = b".".join((message_id.encode(), str(timestamp).encode(), body))
    return f"v1,{base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()}"


def _url(key: str, table: Webhook, environ: Mapping[str, str]) -> str:
    if bool(table.url) == bool(table.url_env_var):
        fact = f"`{key}` needs either url or url_env_var"
        raise ConfigError(fact, key=key, hint="Set url_env_var if the URL contains a secret, else url.")
    return table.url or _variable(f"{key}.url_env_var", table.url_env_var, environ)


def _variable(key: str, name: str, environ: Mapping[str, str]) -> str:
    value = environ.get(name, "").strip()
    if not value:
        state = "empty" if name in environ else "not set"
        raise ConfigError(f"`{key}` names the variable {name}, which is {state}", key=key, hint=f"Set {name}.")
    return value


def _secret(key: str, name: str, environ: Mapping[str, str]) -> bytes:
    if not name:
        return b""
    value = _variable(f"{key}.secret_env_var", name, environ)
    if not value.startswith("whsec_"):
        return value.encode("utf-8", "surrogateescape")
    try:
        return base64.b64decode(value.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        fact = f"the variable {name} begins with whsec_, but its rest is not base64"
        hint = f"Copy the secret again, or remove whsec_ from {name} if it is not a secret of Standard Webhooks."
        raise ConfigError(fact, key=f"{key}.secret_env_var", hint=hint) from None


def _headers(key: str, table: Webhook, environ: Mapping[str, str]) -> dict[str, str]:
    headers = {name.lower(): value for name, value in table.http_headers.items()}
    for name, variable in table.env_http_headers.items():
        headers[name.lower()] = _variable(f"{key}.env_http_headers.{name}", variable, environ)
    for name, value in headers.items():
        if name in _OWN or name.startswith("webhook-") or not _HEADER_NAME.fullmatch(name):
            fact = f"`{key}` sets the header {name[:80]!r}, which cannot be set"
            raise ConfigError(fact, key=key, hint="Remove the header.")
        if not value.isprintable() or not value.isascii():
            fact = f"`{key}` has a value of the header {name!r} with characters that a header cannot contain"
            raise ConfigError(fact, key=key, hint="Fix the value, or the variable that contains it.")
    return headers
