"""The client: asks for responses and streams their events."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING

from codex_contrib_anthropic.body import BodyWriter
from codex_contrib_anthropic.options import MessagesOptions
from codex_framework import ModelError, ModelEvent, ModelRequest, ProviderInfo
from codex_framework.toolkit.model_server.headers import request_headers
from codex_framework.toolkit.model_server.server_client import ServerClient

if TYPE_CHECKING:
    from codex_contrib_anthropic.reply import Reply
    from codex_framework.contract.roles.models import Measure
    from codex_framework.toolkit.model_server.measuring import ResponseMeter
    from codex_framework.toolkit.model_server.server_client import EventReader
    from codex_framework.toolkit.model_server.splitter import BodySplitter
    from codex_framework.toolkit.model_server.token_source import TokenSource

__all__ = ["MessagesClient"]

_HEADERS = ("originator", "user-agent")
"""The headers of a request that are not only for OpenAI."""

_KIND = re.compile(r'"type"\s*:\s*"([a-z_.]+)"')


class MessagesClient:
    """A :class:`~codex_framework.ModelClient` over HTTP. Any number of threads may share one client.

    Args:
        url: The URL to post to, including the query.
        headers: The headers of every request.
        tokens: The source of bearer tokens. None means that ``headers`` contain all credentials.
    """

    def __init__(
        self,
        info: ProviderInfo,
        env: Mapping[str, str],
        url: str,
        headers: Mapping[str, str],
        options: MessagesOptions,
        *,
        tokens: TokenSource | None = None,
    ) -> None:
        self._info = info
        self._env = env
        self._server = ServerClient(
            info,
            env,
            url,
            headers,
            tokens=tokens,
            endpoint="/messages",
            load_reading=_load_reading,
            known=_known,
        )
        self._bodies = BodyWriter(options)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Request one response; see :meth:`ModelClient.stream <codex_framework.ModelClient.stream>`.

        Raises:
            ModelError: The request failed, or the response is broken or incomplete.
        """
        thread_id, measure = request.thread_id, request.measure
        body, projection = self._bodies.body(request), self._bodies.projection(request)
        headers = request_headers(request, self._env)
        own = {name: headers[name] for name in _HEADERS}
        answer = await self._server.ask(thread_id, own, body, measure)
        from codex_contrib_anthropic.reading import BodySplitter, Reply

        splitter, reply = BodySplitter(), Reply(projection)
        reader = self._server.events(thread_id, answer, splitter, _meter(measure))
        try:
            for loss in self._bodies.losses(request):
                yield loss
            while not reply.complete:
                for data in await self._batch(reader, splitter, reply):
                    for event in reply.feed(data):
                        yield event
                if reply.alive:
                    reader.alive, reply.alive = True, False
            completion = reply.completion()
            reader.finish()
            yield completion
        finally:
            await reader.aclose(sys.exception())

    async def aclose(self) -> None:
        """Close all connections."""
        await self._server.aclose()

    async def _batch(self, reader: EventReader, splitter: BodySplitter, reply: Reply) -> list[str]:
        """Return the next events. At the end of the body, the reply is told.

        Raises:
            ModelError: The response broke off, or is none.
        """
        from codex_contrib_anthropic.reading import PageError, not_a_message, web_page

        try:
            batch = await reader.batch()
        except PageError as error:
            raise web_page(self._info.id) from error
        except ModelError:
            if not reply.finished:
                raise
            batch = None  # the response was whole; only its last event is missing
        if batch is not None:
            return batch
        if whole := splitter.rest():
            reply.nothing = not_a_message(self._info.id, whole[0])
            return [*whole, '{"type":"message_stop"}']
        reply.end()
        return []


def _known(status: int | None, code: str, message: str) -> ModelError | None:
    from codex_contrib_anthropic.faults import recognised

    return recognised(status, code, message)


def _meter(measure: Measure | None) -> ResponseMeter | None:
    if measure is None:
        return None
    from codex_framework.toolkit.model_server.measuring import ResponseMeter

    return ResponseMeter(measure, _kind)


def _kind(data: str) -> str:
    """Return the kind of an event, for telemetry."""
    found = _KIND.search(data)
    return "unknown" if found is None else found[1]


def _load_reading() -> None:
    """Import the modules that read the response, while the server is working on it."""
    import codex_contrib_anthropic.reading  # noqa: F401  # imported ahead of use
