"""The client: asks for responses and streams their events."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias

from codex_framework import ItemDone, ModelError, ModelEvent, ModelRequest, ProviderInfo
from codex_framework.contract.roles.models import LeftOut, ModelWarning
from codex_framework.toolkit.images import images_of
from codex_lib_model_client.addresses import takes_images
from codex_lib_model_client.headers import request_headers
from codex_lib_model_client.refused_parts import RefusedParts
from codex_lib_model_client.server_client import ServerClient
from codex_plugin_openai.body import BodyWriter, tool_groups
from codex_plugin_openai.turn_metadata import described

if TYPE_CHECKING:
    from codex_framework.contract.roles.models import Measure
    from codex_lib_model_client.measuring import ResponseMeter
    from codex_lib_model_client.server_client import EventReader
    from codex_lib_model_client.splitter import BodySplitter
    from codex_lib_model_client.token_source import TokenSource
    from codex_plugin_openai.events import End
    from codex_plugin_openai.response_items import ResponseItems
    from codex_plugin_openai.sockets import Exchange, Sockets

    Opened: TypeAlias = tuple[Exchange | None, EventReader, Mapping[str, str], BodySplitter | None]

__all__ = ["ResponsesClient"]

_PATH = "/responses"
_STATES = 1024
"""The states of how many threads are kept."""
_TURN_STATE = "x-codex-turn-state"
_BEGINNING = '{"type":"response.'
_BEFORE = len('{"type":"')
_LONGEST_KIND = 72
_KIND = r'"type"\s*:\s*"(response\.[a-z_.]+|error)"'


class ResponsesClient:
    """A :class:`~codex_framework.ModelClient` over HTTP. Any number of threads may share one client.

    Args:
        url: The URL to post to, including the query.
        headers: The headers of every request.
        tokens: The source of bearer tokens. By default, ``headers`` contain all credentials.
        store: As in :class:`BodyWriter`.
        compresses: As for :class:`~codex_lib_model_client.server_client.ServerClient`.
        sockets: As :func:`~codex_plugin_openai.socket_choice.socket_choice` says.

    Attributes:
        compacts: Whether the server shortens conversations itself.
    """

    compacts: bool = False

    def __init__(
        self,
        info: ProviderInfo,
        env: Mapping[str, str],
        url: str,
        headers: Mapping[str, str],
        *,
        tokens: TokenSource | None = None,
        store: bool = False,
        compresses: bool = False,
        sockets: Literal["required", "tried"] | None = None,
        metadata: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._env = env
        self._metadata = metadata
        self._provider = info.id
        self._server = ServerClient(
            info,
            env,
            url,
            headers,
            tokens=tokens,
            endpoint=_PATH,
            load_reading=_load_reading,
            compresses=compresses,
        )
        self._bodies = BodyWriter(store=store)
        self._refused = RefusedParts(tool_groups, images=takes_images(info), short_ids=self._bodies.short_ids)
        self._turn_states: dict[str, tuple[str, str]] = {}
        self._models_etag = ""
        self._sockets: Sockets | None = None

        def make_sockets() -> Sockets | None:
            if sockets is None:
                return None
            from codex_plugin_openai.sockets import Sockets

            made = Sockets(info, env, url, headers, tokens, self._bodies, waits=sockets == "required")
            made.on_token = self._server.note_token
            return made

        self._make_sockets: Callable[[], Sockets | None] = make_sockets
        if sockets == "required":
            self._sockets = make_sockets()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Request one response; see :meth:`ModelClient.stream <codex_framework.ModelClient.stream>`.

        If a server refuses the connection, or a part of the request, before it has sent anything of the response, the request is
        sent again without it.

        Raises:
            ModelError: The request failed, or the response is broken or incomplete.
        """
        whole = described(request, configured=self._metadata)
        notices: list[ModelEvent] = []
        while True:
            request = self._refused.reduced_request(whole)
            exchange: Exchange | None = None
            items: ResponseItems | None = None
            try:
                exchange, reader, headers, body = await self._open(request, whole, notices)
                from codex_plugin_openai.reading import PageError, ResponseItems, no_stream, web_page

                try:
                    items = ResponseItems()
                    for notice in (*notices, *self._header_notices(request, headers)):
                        yield notice
                    notices.clear()
                    while items.end is None:
                        batch = await reader.batch()
                        for event in items.read_end(self._whole(body)) if batch is None else items.read(batch):
                            if type(event) is ItemDone:
                                self._note(event, exchange, request)
                            yield event
                        reader.alive, items.alive = reader.alive or items.alive, False
                    reader.finish() if exchange is None else exchange.keep(request, items.end.completed.response_id)
                    yield items.end.completed
                    return
                except PageError as error:
                    raise no_stream(web_page(self._provider, _PATH)) from error
                finally:
                    await reader.aclose(sys.exception())
            except ModelError as error:
                if items is not None and items.have_begun:
                    raise
                warnings = self._repeats(error, request, exchange)
                if warnings is None:
                    raise
                notices += warnings

    def _whole(self, body: BodySplitter | None) -> End:
        """Return the response that arrived as one JSON value instead of a stream of events.

        Raises:
            ModelError: No response arrived, or it has failed or is incomplete.
        """
        from codex_plugin_openai.reading import unfinished, whole_response

        rest = [] if body is None else body.rest()
        end = whole_response(rest)
        if end is None:
            raise unfinished(self._provider, _PATH, rest)
        return end

    async def _open(self, request: ModelRequest, whole: ModelRequest, notices: list[ModelEvent]) -> Opened:
        """Send a request.

        Args:
            whole: The complete request, including refused parts.
            notices: Receives events that precede the response.

        Returns:
            The exchange, if there is a WebSocket; the reader and the headers of the response; and the splitter of its body,
            without a WebSocket.

        Raises:
            ModelError: The request failed.
        """
        exchange = None if self._sockets is None else await self._begin(self._sockets, request)
        if isinstance(exchange, str):
            notices.append(ModelWarning(f"Falling back from WebSockets to HTTPS transport. {exchange}"))
            exchange = None
        opened: Opened = (
            (exchange, exchange, exchange.headers, None) if exchange else (None, *await self._post(request))
        )
        if request.model is not whole.model and (
            count := sum(1 for item in request.prompt.items for _ in images_of(item))
        ):
            notices.append(LeftOut("images", count, "the model takes none"))
        opened[1].credentials = lambda: self._server.credentials
        return opened

    def _repeats(
        self, error: ModelError, request: ModelRequest, exchange: Exchange | None
    ) -> Sequence[ModelEvent] | None:
        """Return the warnings with which a request is sent again, because only its connection or a part of it is refused.

        None if the error is final.
        """
        if exchange is not None:
            from codex_plugin_openai.reading import ExpiredSocketError

            if isinstance(error, ExpiredSocketError):
                return () if exchange.reused else None
        return self._refused.note_refusal(request, error)

    def _header_notices(self, request: ModelRequest, headers: Mapping[str, str]) -> Iterator[ModelEvent]:
        """Yield notices from the headers of a response, and keep the state of the turn."""
        from codex_plugin_openai.reading import rate_limits

        if state := headers.get(_TURN_STATE):
            self._keep_state(request, state)
        if limits := rate_limits(headers):
            yield limits
        if "openai-model" in headers:
            from codex_plugin_openai.server_signals import rerouted

            yield from rerouted(request.model.slug, headers)
        if (etag := headers.get("x-models-etag", "")) != self._models_etag:
            from codex_plugin_openai.server_signals import models_changed

            self._models_etag = etag
            yield from models_changed(etag)

    def _keep_state(self, request: ModelRequest, state: str) -> None:
        """Keep the value that the server wants back with each later request of the turn.

        As in Codex, the first one of a turn is kept.
        """
        turn_id, _ = self._turn_states.get(request.thread_id, ("", ""))
        if turn_id != request.turn_id:
            self._turn_states.pop(request.thread_id, None)
            self._turn_states[request.thread_id] = (request.turn_id, state)
            while len(self._turn_states) > _STATES:
                self._turn_states.pop(next(iter(self._turn_states)))

    async def prepare(self, request: ModelRequest, whole: Callable[[], Awaitable[ModelRequest | None]]) -> None:
        """Open the WebSocket of a thread before its first request, if the provider has WebSockets. Failures have no effect.

        Args:
            request: The thread and model, for the headers.
            whole: Returns the request without items for which the server prepares, once the connection is open. By default,
                it does not prepare.
        """
        sockets = self._opened_sockets()
        if sockets is None:
            return

        async def drafted() -> ModelRequest | None:
            draft = await whole()
            return None if draft is None else described(draft, "prewarm", self._metadata)

        await sockets.prepare(request.thread_id, self._head(described(request, "prewarm", self._metadata)), drafted)

    def _opened_sockets(self) -> Sockets | None:
        if self._sockets is None:
            self._sockets = self._make_sockets()
        return self._sockets

    def _note(self, event: ItemDone, exchange: Exchange | None, request: ModelRequest) -> None:
        """Note a complete item. After a call, another request follows: open a WebSocket, unless requests wait for one."""
        from codex_plugin_openai.reading import is_call

        if exchange is not None:
            exchange.items.append(event.item)
        elif is_call(event.item) and (sockets := self._opened_sockets()) is not None:
            sockets.expect(request.thread_id, self._head(request))

    async def _begin(self, sockets: Sockets, request: ModelRequest) -> Exchange | str | None:
        if not sockets.may_begin(request.thread_id):
            return None
        _load_reading()
        return await sockets.begin(request, self._head(request), _meter(request.measure, "codex.websocket_event"))

    async def _post(self, request: ModelRequest) -> tuple[EventReader, Mapping[str, str], BodySplitter]:
        """Send a request without a WebSocket. Return the reader of the response, its headers, and what splits its body."""
        body = self._bodies.body(request)
        answer = await self._server.ask(request.thread_id, self._head(request), body, request.measure)
        from codex_plugin_openai.reading import UNWANTED, BodySplitter

        splitter = BodySplitter(f"event: {UNWANTED}")
        meter = _meter(request.measure, "codex.sse_event")
        return self._server.events(request.thread_id, answer, splitter, meter), answer.headers, splitter

    async def aclose(self) -> None:
        """Close all connections."""
        if self._sockets is not None:
            await self._sockets.aclose()
        await self._server.aclose()

    def _head(self, request: ModelRequest) -> dict[str, str]:
        headers = request_headers(request, self._env)
        if request.model.lite:
            headers["x-openai-internal-codex-responses-lite"] = "true"
        turn_id, state = self._turn_states.get(request.thread_id, ("", ""))
        if state and turn_id == request.turn_id:
            headers[_TURN_STATE] = state
        return headers


def _meter(measure: Measure | None, name: str) -> ResponseMeter | None:
    if measure is None:
        return None
    from codex_lib_model_client.measuring import ResponseMeter
    from codex_plugin_openai.reading import UNWANTED

    return ResponseMeter(measure, _kind, UNWANTED, name)


def _kind(data: str) -> str:
    """Return the type of an event. Servers write it first, so that most events need not be searched."""
    if data.startswith(_BEGINNING):
        end = data.find('"', _BEFORE, _LONGEST_KIND)
        if end > 0:
            return data[_BEFORE:end]
    match = re.search(_KIND, data)
    return "unknown" if match is None else match[1]


def _load_reading() -> None:
    """Import the modules that read the response, while the server is working on it."""
    import codex_plugin_openai.reading  # noqa: F401  # imported ahead of use
