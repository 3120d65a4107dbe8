"""Requests with a short reply, for which the whole exchange has one time limit: logins, lists of models, local servers.

For plugins that talk HTTP. A server cannot make a request last longer by sending one byte at a time, or make a short reply a
huge one by compressing it. Redirects are not followed.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import threading
import time
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from codex_framework.contract.value import Value, field
from codex_lib_model_client.https import httpx_module, tls_context

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    import httpx

__all__ = ["PLAIN", "SmallReply", "check_plain", "fetch", "run_alone", "run_until_exit"]

T = TypeVar("T")

_END_S = 5.0
"""How long the end of the program waits for cancelled work, in seconds."""

PLAIN = {"accept-encoding": "identity"}
"""The header that asks for a body without compression."""


class SmallReply(Value):
    """A reply.

    Attributes:
        status: The status code.
        headers: The headers, with names in lower case.
        data: The body, unless it is longer than the limit.
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
        connect_s: Time limit for connecting in seconds; by default ``timeout_s``.
        form: Fields to send as a form.
        body: The data to send as JSON.
        local: Whether the server is on this machine, and no proxy is used.

    Raises:
        httpx.HTTPError: The server cannot be reached, or breaks off.
        httpx.InvalidURL: The URL is invalid.
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
    return _run(loop, loop.create_task(work))


def run_until_exit(work: Coroutine[Any, Any, T], *, executor: ThreadPoolExecutor | None = None) -> T:
    """Run a coroutine in a daemon thread, like :func:`run_alone`. The end of the program cancels it and waits until it has stopped.

    A daemon thread may be within OpenSSL when the interpreter ends, while OpenSSL frees its memory, which crashes the program.
    Long chains of certificates take long enough for that.

    Args:
        executor: The default executor of the event loop. By default it is the usual one; the program waits for its threads at
            its end.

    Raises:
        asyncio.CancelledError: The program ends.
    """
    loop = asyncio.new_event_loop()
    if executor is not None:
        loop.set_default_executor(executor)
    task = loop.create_task(work)
    run = _Run(loop, task)
    try:
        _exit.begin(run)
        return _run(loop, task)
    finally:
        _exit.done(run)


class _Run(Value):
    """Work in a daemon thread."""

    loop: asyncio.AbstractEventLoop
    task: asyncio.Task[Any]
    stopped: threading.Event = field(factory=threading.Event)


class _Exit:
    """The end of the program, for work in daemon threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: list[_Run] = []
        self._is_over = False
        # The certificates are loaded under a lock that the end takes for good. This module imports theirs, so its handler runs first.
        atexit.register(self._end)

    def begin(self, run: _Run) -> None:
        with self._lock:
            self._runs.append(run)
            if self._is_over:
                run.task.cancel()

    def done(self, run: _Run) -> None:
        with self._lock:
            self._runs.remove(run)
        run.stopped.set()

    def _end(self) -> None:
        with self._lock:
            self._is_over = True
            runs = list(self._runs)
        for run in runs:
            with contextlib.suppress(RuntimeError):  # the loop has just closed
                run.loop.call_soon_threadsafe(run.task.cancel)
        until = time.monotonic() + _END_S
        for run in runs:
            run.stopped.wait(max(until - time.monotonic(), 0.0))


_exit = _Exit()


def _run(loop: asyncio.AbstractEventLoop, task: asyncio.Task[T]) -> T:
    try:
        return loop.run_until_complete(task)
    finally:
        if not task.done():  # interrupted
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                loop.run_until_complete(task)
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
