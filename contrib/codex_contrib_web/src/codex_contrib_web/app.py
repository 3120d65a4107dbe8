"""The ASGI app: its routes, and its life with the kernel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from codex_contrib_web.access import Authenticate, find_owner
from codex_contrib_web.bodies import NewThread, NewTurn, Steering, read_body, read_json
from codex_contrib_web.errors import WebError, show_error
from codex_contrib_web.streams import EventStream
from codex_contrib_web.threads import LiveThread, LiveThreads
from codex_framework import Agent, CodexError, Kernel

__all__ = ["AgentApp"]

_MOST_LISTED = 100


class AgentApp:
    """An agent over HTTP. It is a complete ASGI app, or a part of another one.

    Run it alone, or mount it and pass :meth:`lifespan` to the app that it is mounted in.

    Args:
        agent: The agent of the threads. By default, the configured one.
        authenticate: Returns the user of a request. Without it, only the user of this machine who started the server has access.
        options: Returns, for a user, keyword arguments that both ``Kernel.start_thread`` and ``Kernel.resume_thread`` take,
            such as ``cwd``. The user is empty without authentication.
        kernel: Creates the kernel.
        origins: Origins of pages that may use the app, besides its own.
        idle_s: How long an idle thread without followers stays loaded.
        absence_s: How long a request waits for an answer while its thread has no followers. After that, the answer is no.
        most_threads: The maximum number of loaded threads.
        log_bytes: How many bytes of the newest events of a thread are kept for clients that come back or are slow.
    """

    def __init__(
        self,
        agent: Agent[Any] | None = None,
        *,
        authenticate: Authenticate | None = None,
        options: Callable[[str], Mapping[str, Any]] = lambda _: {},
        kernel: Callable[[], Awaitable[Kernel]] = Kernel.create,
        origins: Collection[str] = (),
        idle_s: float = 600.0,
        absence_s: float = 600.0,
        most_threads: int = 10_000,
        log_bytes: int = 4 << 20,
    ) -> None:
        self._agent = agent
        self._authenticate = authenticate
        self._options = options
        self._kernel = kernel
        self._origins = origins
        self._limits: dict[str, Any] = {
            "idle_s": idle_s,
            "absence_s": absence_s,
            "most": most_threads,
            "log_bytes": log_bytes,
        }
        self._threads: LiveThreads | None = None
        self._app = Starlette(
            routes=[
                Route("/threads", self._start_thread, methods=["POST"]),
                Route("/threads", self._list_threads),
                Route("/threads/{thread}", self._show_thread),
                Route("/threads/{thread}/events", self._stream_events),
                Route("/threads/{thread}/history", self._show_history),
                Route("/threads/{thread}/turns", self._start_turn, methods=["POST"]),
                Route("/threads/{thread}/steer", self._steer, methods=["POST"]),
                Route("/threads/{thread}/cancel", self._cancel, methods=["POST"]),
                Route("/threads/{thread}/requests/{request:path}", self._answer, methods=["POST"]),
            ],
            exception_handlers={CodexError: show_error, HTTPException: show_error, Exception: show_error},
            lifespan=self.lifespan,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        await self._app(scope, receive, send)

    @asynccontextmanager
    async def lifespan(self, _: object) -> AsyncIterator[None]:
        """Create the kernel, and end it with all threads. Pass this to the app in which this one is mounted."""
        async with await self._kernel() as kernel:
            self._threads = threads = LiveThreads(kernel, self._agent, self._options, **self._limits)
            self._stopping = anyio.Event()
            work = [asyncio.ensure_future(threads.keep_tidy()), asyncio.ensure_future(self._stop_early(threads))]
            try:
                yield
            finally:
                self._threads = None
                for task in work:
                    task.cancel()
                await asyncio.gather(*work, return_exceptions=True)
                await threads.aclose()

    async def _stop_early(self, threads: LiveThreads) -> None:
        """Shut the threads down while clients still listen. The server calls the end of the lifespan after they have left."""
        await self._stopping.wait()
        self._threads = None
        await threads.aclose()

    # Routes

    async def _start_thread(self, request: Request) -> Response:
        threads, owner = await self._enter(request)
        body = await read_body(request, NewThread)
        live = await threads.start(owner)
        if body.input:
            try:
                live.thread.start(body.input)
            except CodexError:  # the client learns of no thread, so there is none
                await live.thread.shutdown()
                raise
        return JSONResponse(live.describe(), HTTPStatus.CREATED)

    async def _list_threads(self, request: Request) -> Response:
        threads, owner = await self._enter(request)
        limit = request.query_params.get("limit", "25")
        if not limit.isascii() or not limit.isdigit() or not 1 <= int(limit[:9]) <= _MOST_LISTED:
            hint = f"Pass a number from 1 to {_MOST_LISTED}."
            raise WebError(f"the limit is {limit[:100]!r}", slug="bad-request", hint=hint)
        return JSONResponse(await threads.find(owner, request.query_params.get("after"), int(limit)))

    async def _show_thread(self, request: Request) -> Response:
        return JSONResponse((await self._thread(request)).describe())

    async def _stream_events(self, request: Request) -> Response:
        threads, owner = await self._enter(request)
        live = await threads.get(request.path_params["thread"], owner)
        cursor = request.headers.get("last-event-id") or request.query_params.get("after", "")
        return EventStream(threads, live, cursor, self._stopping)

    async def _show_history(self, request: Request) -> Response:
        threads, owner = await self._enter(request)
        return JSONResponse({"events": await threads.history(request.path_params["thread"], owner)})

    async def _start_turn(self, request: Request) -> Response:
        live = await self._thread(request)
        body = await read_body(request, NewTurn)
        return JSONResponse({"turn_id": live.thread.start(body.input)}, HTTPStatus.ACCEPTED)

    async def _steer(self, request: Request) -> Response:
        live = await self._thread(request)
        body = await read_body(request, Steering)
        return JSONResponse(
            {"turn_id": live.thread.steer(body.input, expected_turn_id=body.turn_id)}, HTTPStatus.ACCEPTED
        )

    async def _cancel(self, request: Request) -> Response:
        live = await self._thread(request)
        if not live.thread.running:
            raise WebError("no turn is running", slug="no-active-turn", hint="It may have ended a moment ago.")
        await live.thread.interrupt()
        return JSONResponse(live.describe())

    async def _answer(self, request: Request) -> Response:
        live = await self._thread(request)
        live.answer(request.path_params["request"], await read_json(request))
        return JSONResponse(live.describe())

    async def _enter(self, request: Request) -> tuple[LiveThreads, str]:
        """Return the threads, and the user of a request. Raises CodexError and HTTPException."""
        if self._threads is None:
            hint = (
                "Pass `lifespan=agents.lifespan` to the app that mounts this one, or wait until the server has started."
            )
            raise WebError("the kernel is not running", slug="not-running", hint=hint)
        return self._threads, await find_owner(request, self._authenticate, self._origins)

    async def _thread(self, request: Request) -> LiveThread:
        threads, owner = await self._enter(request)
        return await threads.get(request.path_params["thread"], owner)
