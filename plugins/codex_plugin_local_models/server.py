"""Requests to a server of local models."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from codex_framework import ModelError
from codex_framework.contract.urls import shown_url

if TYPE_CHECKING:
    import httpx

__all__ = ["LocalServer", "failed"]

_TIMEOUT_S = 10.0
_CONNECT_S = 5.0
_MAX_BYTES = 16 * 1024 * 1024
_LONGEST_LINE = 1024 * 1024


class LocalServer:
    """A server, by the base URL of its API.

    Args:
        url: The base URL, which ends with ``/v1``.
        noun: The server's name in messages.
        hint: Advice if it does not run.
    """

    def __init__(self, url: str, noun: str, hint: str) -> None:
        self.url = url.rstrip("/")
        self._noun = noun
        self._hint = hint

    @property
    def root(self) -> str:
        """The URL without ``/v1``."""
        return self.url.removesuffix("/v1")

    def get(self, url: str, *, required: bool = True) -> dict[str, Any]:
        """Return the JSON object at a URL. Empty if the status is not 200, and it is not required.

        Raises:
            ModelError: The server does not run, refuses, or its reply is no JSON object.
        """
        from codex_lib_model_client.small_replies import fetch, run_alone

        local = not url.startswith("https:")
        asked = fetch("GET", url, timeout_s=_TIMEOUT_S, connect_s=_CONNECT_S, max_bytes=_MAX_BYTES, local=local)
        with self._failures():
            reply = run_alone(asked)
        if reply.data is None:
            raise self.senseless("its reply is too long")
        if reply.status != 200:
            if required:
                raise self.senseless(f"it answered {shown_url(url)} with status {reply.status}")
            return {}
        try:
            content = json.loads(reply.data)
        except (ValueError, RecursionError):
            content = None
        if not isinstance(content, dict):
            raise self.senseless(f"its reply to {url} is not a JSON object")
        return content

    async def lines(self, url: str, body: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """Post a request, and yield the JSON objects of its reply, one a line. Other lines are skipped.

        The reply has no time limit. Close the iterator when it takes too long. If the connection breaks within it, the iterator
        ends.

        Raises:
            ModelError: The server does not run, refuses, or breaks off.
        """
        async with self._open("POST", url, body) as response:
            rest = b""
            async for piece in _pieces(response):
                rest += piece
                *whole, rest = rest.split(b"\n")
                for content in _objects(whole):
                    yield content
                if len(rest) > _LONGEST_LINE:
                    raise self.senseless("a line of its reply is too long")
            for content in _objects([rest]):
                yield content
            if response.status_code != 200:
                raise self.senseless(f"it answered with status {response.status_code}")

    def senseless(self, why: str) -> ModelError:
        """Return the error for a reply that makes no sense."""
        return failed(f"{self._noun} at {shown_url(self.root)}: {why}", hint="Check that this server is the right one.")

    @asynccontextmanager
    async def _open(self, method: str, url: str, body: Any) -> AsyncIterator[httpx.Response]:
        from codex_lib_model_client.https import httpx_module, tls_context
        from codex_lib_model_client.small_replies import PLAIN, check_plain

        httpx = httpx_module()
        secure = url.startswith("https:")
        with self._failures():
            async with (
                httpx.AsyncClient(
                    timeout=httpx.Timeout(None, connect=_CONNECT_S),
                    verify=tls_context() if secure else False,
                    trust_env=secure,
                ) as client,
                client.stream(method, url, json=body, headers=PLAIN) as response,
            ):
                check_plain(response)
                yield response

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Convert the errors of a request to model errors."""
        from codex_lib_model_client.https import httpx_module

        httpx = httpx_module()
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            fact = f"No running {self._noun} server detected at {shown_url(self.root)}."
            raise failed(fact, hint=self._hint) from error
        except (httpx.HTTPError, OSError, ValueError) as error:
            raise self.senseless(f"the connection broke ({type(error).__name__})") from error


def failed(fact: str, *, hint: str) -> ModelError:
    """Return the error for a model that cannot be used."""
    return ModelError(fact, slug="oss", hint=hint)


async def _pieces(response: httpx.Response) -> AsyncIterator[bytes]:
    from codex_lib_model_client.https import httpx_module

    with suppress(httpx_module().HTTPError):
        async for piece in response.aiter_raw():
            yield piece


def _objects(lines: list[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            content = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(content, dict):
            yield content
