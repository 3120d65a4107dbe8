"""Requests to authorization servers: small, checked, and never with a redirect to another server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode, urlsplit

from codex_framework import Value
from codex_framework.contract.urls import shown_url
from codex_lib_model_client.https import httpx_module
from codex_plugin_mcp.errors import ConnectionFailed
from codex_plugin_mcp.oauth.errors import LoginFailed
from codex_plugin_mcp.texts import one_line
from codex_plugin_mcp.transports.http_client import (
    first_bytes,
    is_internal,
    is_loopback,
    new_client,
    origin,
    send_within_origin,
)
from codex_plugin_mcp.transports.http_refusals import Refusal

if TYPE_CHECKING:
    import httpx

__all__ = ["Answer", "Web"]

_MAX_BYTES = 256 * 1024
_DISCOVERY_VERSION = "2025-11-25"


class Answer(Value):
    """The answer of an authorization server.

    Attributes:
        status: The status code.
        content: The body as plain JSON data, if it is a JSON object.
    """

    status: int
    content: Mapping[str, Any] | None

    @property
    def problem(self) -> str:
        """The server's error message, on one line: ``error`` and ``error_description`` of the body."""
        given = self.content or {}
        texts = [given.get(name) for name in ("error", "error_description")]
        shown = ": ".join(one_line(text) for text in texts if isinstance(text, str))
        return f"{self.status} ({shown})" if shown else str(self.status)


class Web:
    """Requests for the login at one MCP server. Use it as a context manager.

    Endpoints must use ``https``. ``http`` is allowed for this machine, if the MCP server runs on it too. Addresses of this
    machine and of its network are refused if the MCP server is elsewhere: a remote server must not make the client connect to
    them.

    Args:
        server_url: The URL of the MCP server.
        headers: Headers for requests to the MCP server's own origin.
        timeout_s: How long a server may be silent, in seconds.
    """

    def __init__(self, server_url: str, *, headers: Mapping[str, str] | None = None, timeout_s: float = 30.0) -> None:
        self._server_url = server_url
        self._headers = headers or {}
        self._timeout_s = timeout_s
        self._client: httpx.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        self._client = await new_client(read_s=self._timeout_s)
        url = httpx_module().URL(self._server_url)
        self._local = is_loopback(url)
        self.check(self._server_url, "the URL of the MCP server")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._client is not None
        await self._client.aclose()

    def check(self, url: Any, what: str) -> str:
        """Return a URL that may be used, in ASCII.

        Raises:
            LoginFailed: It is not a URL with ``https``, or it contains a login or a fragment.
        """
        httpx = httpx_module()
        try:
            parsed = httpx.URL(url)
            urlsplit(url)  # stricter about brackets
        except (httpx.InvalidURL, TypeError, ValueError, AttributeError):
            raise LoginFailed(f"{what} is not a URL", kind="protocol") from None
        secure = parsed.scheme == "https" or (parsed.scheme == "http" and self._local and is_loopback(parsed))
        if not secure or not parsed.host:
            raise LoginFailed(
                f"{what} ({shown_url(str(url))[:200]}) does not use https, which OAuth requires", kind="refused"
            )
        if is_internal(parsed.host) and not is_internal(httpx.URL(self._server_url).host):
            raise LoginFailed(
                f"{what} ({shown_url(str(url))[:200]}) is an address of this machine or of its network, and the MCP server is not",
                kind="refused",
            )
        if parsed.userinfo or parsed.fragment:
            raise LoginFailed(f"{what} contains a login or a fragment", kind="refused")
        return str(parsed)

    async def challenge(self, message: Mapping[str, Any]) -> Refusal | None:
        """Send a message to the MCP server without authorization.

        Returns:
            Its refusal if the status is 401, else None.

        Raises:
            LoginFailed: The server cannot be reached, or redirects elsewhere.
        """
        assert self._client is not None
        headers = {
            **self._headers,
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
        }
        try:
            body = json.dumps(message).encode()
            response = await send_within_origin(self._client, "POST", self._server_url, headers, body)
            await response.aclose()
            if session := response.headers.get("mcp-session-id"):
                ended = {**headers, "mcp-session-id": session}
                await (await send_within_origin(self._client, "DELETE", self._server_url, ended)).aclose()
        except ConnectionFailed as error:
            raise LoginFailed(str(error), kind=error.kind, hint=error.hint) from error
        return Refusal.of(response, b"") if response.status_code == 401 else None

    async def get(self, url: str, what: str) -> Answer:
        """Return the answer to a GET.

        Raises:
            LoginFailed: The server cannot be reached, redirects elsewhere, or answers with too much.
        """
        headers = {"accept": "application/json", "mcp-protocol-version": _DISCOVERY_VERSION}
        return await self._send("GET", url, what, headers, None)

    async def post_form(self, url: str, form: Mapping[str, str], what: str, authorization: str | None) -> Answer:
        """Return the answer to a POST of a form. Raises as ``get`` does."""
        headers = {"accept": "application/json", "content-type": "application/x-www-form-urlencoded"}
        if authorization is not None:
            headers["authorization"] = authorization
        return await self._send("POST", url, what, headers, urlencode(form, errors="replace").encode())

    async def post_json(self, url: str, data: Mapping[str, Any], what: str) -> Answer:
        """Return the answer to a POST of JSON. Raises as ``get`` does."""
        headers = {"accept": "application/json", "content-type": "application/json"}
        return await self._send("POST", url, what, headers, json.dumps(data).encode())

    async def _send(self, method: str, url: str, what: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        assert self._client is not None
        self.check(url, what)
        httpx = httpx_module()
        if origin(httpx.URL(url)) == origin(httpx.URL(self._server_url)):
            headers = {**self._headers, **headers}
        try:
            response = await send_within_origin(self._client, method, url, headers, body)
            raw = await first_bytes(response, _MAX_BYTES)
        except LoginFailed:
            raise
        except ConnectionFailed as error:
            raise LoginFailed(str(error), kind=error.kind, hint=error.hint) from error
        if raw is None:
            raise LoginFailed(f"{what} ({shown_url(url)}) is larger than {_MAX_BYTES} bytes", kind="protocol")
        try:
            content = json.loads(raw)
        except (ValueError, RecursionError):
            content = None
        return Answer(response.status_code, content if isinstance(content, dict) else None)
