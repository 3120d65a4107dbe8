"""Requests with a short reply, for which the whole exchange has one time limit: logins, lists of models, local servers.

For plugins that talk HTTP. A server cannot make a request last longer by sending one byte at a time, or make a short reply a huge one
by compressing it. Redirects are not followed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from codex_framework.contract.value import Value, field
from codex_framework.toolkit.https import httpx_module, tls_context

if TYPE_CHECKING:
    import httpx

__all__ = ["PLAIN", "SmallReply", "check_plain", "fetch", "run_alone"]

T = TypeVar("T")

PLAIN = {"accept-encoding": "identity"}
"""The header that asks for a body without compression."""


class SmallReply(Value):
    """A reply.

    Attributes:
        status: The status code.
        headers: The headers, with names in lower case.
        data: The body. None if it is longer than the limit.
    """

    status: int
    headers: Mapping[str, str] = field(repr=False)
    data: bytes | None = field(repr=False)


async def fetch(
    method: str,
    url: str,
    *,
    timeout_s: float,
    max_bytes: int,
    connect_s: float | None = None,
    headers: Mapping[str, str] | None = None,
    form: Mapping[str, str] | None = None,
    body: Any = None,
    local: bool = False,
) -> SmallReply:
    """Send a request, and return the reply.

    Args:
        timeout_s: Time limit for everything in seconds.
        max_bytes: Limit of the body.
        connect_s: Time limit for connecting in seconds. None means ``timeout_s``.
        form: Fields to send as a form.
        body: What to send as JSON.
        local: Whether the server is on this machine, and no proxy is used.

    Raises:
        httpx.HTTPError: The server cannot be reached, or breaks off.
        httpx.InvalidURL: The URL is none.
        OSError: The certificates cannot be loaded, or the time is over (``TimeoutError``).
        ValueError: The body is compressed, a header cannot be sent, or a proxy's URL is wrong.
    """
    httpx = httpx_module()
    async with (
        asyncio.timeout(timeout_s),
        httpx.AsyncClient(
            timeout=httpx.Timeout(timeout_s, connect=connect_s or timeout_s),
            verify=tls_context() if url.lower().startswith("https:") else False,
            trust_env=not local,
        ) as client,
        client.stream(method, url, headers={**(headers or {}), **PLAIN}, data=form, json=body) as response,
    ):
        check_plain(response)
        pieces: list[bytes] = []
        size = 0
        async for piece in response.aiter_raw():
            pieces.append(piece)
            size += len(piece)
            if size > max_bytes:
                return SmallReply(response.status_code, response.headers, None)
        return SmallReply(response.status_code, response.headers, b"".join(pieces))


def check_plain(response: httpx.Response) -> None:
    """Check that the body is not compressed, as was asked for: a few bytes could become gigabytes.

    Raises:
        ValueError: It is.
    """
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise ValueError("the reply is compressed")


def run_alone(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a thread without an event loop, and return its result.

    Unlike ``asyncio.run``, it starts no thread at its end, so that a reply is not lost while the interpreter ends.
    """
    loop = asyncio.new_event_loop()
    task = loop.create_task(work)
    try:
        return loop.run_until_complete(task)
    finally:
        if not task.done():  # interrupted
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                loop.run_until_complete(task)
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
