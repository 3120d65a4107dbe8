"""Interprets a server's refusal of a request: who may help, and the error for users."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from codex_framework import Value
from codex_framework.contract.urls import without_queries
from codex_plugin_mcp.errors import ConnectionFailed, FailureKind
from codex_plugin_mcp.texts import one_line, plain

if TYPE_CHECKING:
    import httpx

__all__ = ["Authorization", "HttpRefused", "Refusal", "login_required", "refused"]

_TEXT = 200
_SECRET = 8
"""Shortest value of a header that is taken for a secret."""

_NOT_SECRET = frozenset(
    {"accept", "accept-encoding", "connection", "content-length", "content-type", "host", "mcp-method", "mcp-name"}
    | {"mcp-protocol-version", "user-agent"}
)
_PARAMETER = re.compile(r'([A-Za-z_][\w*-]*)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')


class Refusal(Value):
    """A response with a status of 400 or more.

    Attributes:
        status: The status code.
        phrase: The reason phrase.
        challenge: The value of ``WWW-Authenticate``, or an empty text.
        text: The beginning of the body on one line. Empty if the body is a page, or not printable.
    """

    status: int
    phrase: str
    challenge: str
    text: str

    @classmethod
    def of(cls, response: httpx.Response, body: bytes) -> Refusal:
        """Return the refusal that a response expresses."""
        challenge = ", ".join(response.headers.get_list("www-authenticate"))
        phrase = one_line(response.reason_phrase, 60)
        return cls(response.status_code, phrase, plain(challenge, 8_192), _shown_body(body, _sent_secrets(response)))

    def parameter(self, name: str) -> str | None:
        """Return a parameter of the challenge, for example ``scope``, or None if it is missing."""
        for key, quoted, bare in _PARAMETER.findall(self.challenge):
            if key.lower() == name:
                return re.sub(r"\\(.)", r"\1", quoted) if quoted else bare or quoted
        return None


class Authorization(Protocol):
    """The OAuth functions that the transport needs."""

    async def header(self) -> str | None:
        """Return the value of ``Authorization``, or None without a login. A token that expires soon is refreshed."""
        ...

    async def refused(self, refusal: Refusal, header: str | None) -> bool:
        """Take note that a server refused a request with 401 or 403.

        Args:
            header: The value of ``Authorization`` that was sent.

        Returns:
            Whether there is another value now, so that the request is worth a second attempt.

        Raises:
            ConnectionFailed: The user must log in first. The text says so.
        """
        ...


class HttpRefused(ConnectionFailed):
    """A server refused a request.

    Attributes:
        status: The status code.
    """

    status: int = 0


def refused(server: str, refusal: Refusal) -> ConnectionFailed:
    """Return the error for a refusal."""
    if refusal.status == 401:
        return login_required(server)
    said = f": {refusal.text}" if refusal.text else ""
    status = f"{refusal.status} {refusal.phrase}".strip()
    error = HttpRefused(f"the server answered {status}{said}", kind=_kind(refusal.status))
    error.status = refusal.status
    return error


def login_required(server: str, why: str = "") -> ConnectionFailed:
    """Return the error for a server that demands a login."""
    fact = f"The {server} MCP server is not logged in{f' ({why})' if why else ''}. Run `codex-framework mcp login {server}`."
    error = HttpRefused(fact, kind="not_logged_in", hint=f"Run `codex-framework mcp login {server}`.")
    error.status = 401
    return error


def _kind(status: int) -> FailureKind:
    return "missing" if status in (404, 410) else "refused" if status < 500 else "other"


def _sent_secrets(response: httpx.Response) -> list[str]:
    """Return the values of the request's headers that a server may repeat in its refusal, and that must stay hidden."""
    values = [value for name, value in response.request.headers.items() if name.lower() not in _NOT_SECRET]
    words = [word for value in values for word in (value, value.partition(" ")[2]) if len(word) >= _SECRET]
    return sorted(words, key=len, reverse=True)


def _shown_body(body: bytes, secrets: Sequence[str]) -> str:
    text = body[: 4 * _TEXT].decode("utf-8", "replace")
    for secret in secrets:
        text = text.replace(secret, "***")
        for length in range(len(secret) - 1, _SECRET, -1):  # the body was cut within it
            text = f"{text[:-length]}***" if text.endswith(secret[:length]) else text
    text = " ".join(text.split())
    if text.startswith("<") or not text.isprintable():
        return ""
    return without_queries(text[:_TEXT])
