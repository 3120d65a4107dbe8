"""A client for servers whose API consists of messages and functions: everything but the form of its bodies and its events."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar, Protocol

from codex_framework.contract.errors import ModelError
from codex_framework.contract.roles.models import ModelEvent, ModelRequest, ProviderInfo
from codex_lib_model_client.addresses import takes_images
from codex_lib_model_client.headers import request_headers
from codex_lib_model_client.refused_parts import RefusedParts
from codex_lib_model_client.server_client import ServerClient

if TYPE_CHECKING:
    from codex_framework.contract.roles.models import Completed, LeftOut, Measure
    from codex_lib_model_client.functions import Projection
    from codex_lib_model_client.measuring import ResponseMeter
    from codex_lib_model_client.server_client import EventReader
    from codex_lib_model_client.splitter import BodySplitter, LineSplitter
    from codex_lib_model_client.token_source import TokenSource

__all__ = ["Bodies", "MessageClient", "Reply"]


class Bodies(Protocol):
    """Writes request bodies.

    It may also have an attribute ``short_ids``, a set. The client adds the models whose servers take only ids of calls with nine
    letters and digits.
    """

    def body(self, request: ModelRequest, /) -> bytes:
        """Return the body of a request, encoded as UTF-8."""
        ...

    def projection(self, request: ModelRequest, /) -> Projection:
        """Return the tools of a request as functions, which give the calls in the response their form."""
        ...

    def losses(self, request: ModelRequest, /) -> Iterable[LeftOut]:
        """Return the parts of the history that the body leaves out and that earlier requests of the thread have not reported."""
        ...


class Reply(Protocol):
    """Turns the server's events of one response into model events.

    Attributes:
        alive: Set it when an event carries a part of the response. The client resets it.
        finished: Whether all items are complete. If the stream then breaks off, this is not an error.
        complete: Whether the response is complete, so that the client stops reading.
        nothing: The error if the server ends the response without having begun it. The client sets it for a body that is one JSON
            value.
    """

    alive: bool
    finished: bool
    complete: bool
    nothing: ModelError

    def feed(self, data: str, /) -> list[ModelEvent]:
        """Return the model events for an event of the server. It is not called after ``complete`` is set.

        Raises:
            ModelError: It reports an error, or cannot be read and a part of the response is lost with it.
        """
        ...

    def end(self) -> None:
        """Handle the end of the body, and set ``complete``.

        Raises:
            ModelError: The response is not complete.
        """
        ...

    def completion(self) -> Completed:
        """Return the last event.

        Raises:
            ModelError: The response is incomplete for a reason that the server stated.
        """
        ...


class MessageClient(ABC):
    """A :class:`~codex_framework.ModelClient` over HTTP. Any number of threads may share one client. Subclass it for an API.

    Args:
        url: The URL to post to, including the query.
        headers: The headers of every request.
        bodies: Writes the bodies.
        tokens: The source of bearer tokens. Without one, ``headers`` must contain all credentials.

    Attributes:
        path: The end of the URL's path, such as ``/messages``. Errors and telemetry name it.
        noun: The word for a response in errors, such as ``message``.
        last: The event with which a stream ends. The reply also gets it after a body that is one JSON value. Not needed with
            ``LineSplitter``.
        rest_s: Time limit in seconds for events after the last item, such as the usage.
        sent_headers: The headers of :func:`request_headers` that this API's servers get; by default all of them.
    """

    path: ClassVar[str]
    noun: ClassVar[str]
    last: ClassVar[str] = ""
    rest_s: ClassVar[float | None] = None
    sent_headers: ClassVar[tuple[str, ...] | None] = None

    def __init__(
        self,
        info: ProviderInfo,
        env: Mapping[str, str],
        url: str,
        headers: Mapping[str, str],
        bodies: Bodies,
        *,
        tokens: TokenSource | None = None,
    ) -> None:
        self._info = info
        self._env = env
        self._bodies = bodies
        self._refused = RefusedParts(
            lambda request: [[spec] for spec in bodies.projection(request).sent_specs],
            images=takes_images(info),
            short_ids=getattr(bodies, "short_ids", None),
        )
        self._server = ServerClient(
            info,
            env,
            url,
            headers,
            tokens=tokens,
            endpoint=self.path,
            load_reading=self._load_reading,
            known=self.known_fault,
        )

    # What an API is

    @abstractmethod
    def reply(self, projection: Projection) -> Reply:
        """Return a new reply, for one response."""

    def splitter(self) -> BodySplitter | LineSplitter:
        """Return a new splitter, which makes events of the pieces of a body. The default is one for server-sent events."""
        from codex_lib_model_client.splitter import BodySplitter

        return BodySplitter()

    def load_reading(self) -> None:  # noqa: B027  # an API need not have any
        """Import the modules that only a response needs. It is called when a request is on its way."""

    def known_fault(self, status: int | None, code: str, message: str) -> ModelError | None:
        """Return the error for a failure with words specific to this API, or None.

        Args:
            status: The status of the response, unless the error came within a stream.
            code: The code or type of the error object. Empty if both are missing.
        """
        from codex_lib_model_client.faults import known_fault

        return known_fault(status, code, message)

    def kind(self, data: str) -> str:  # noqa: ARG002  # a default
        """Return the kind of an event of the server, for telemetry."""
        return "event"

    # The client

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Request one response; see :meth:`ModelClient.stream <codex_framework.ModelClient.stream>`.

        If a server refuses a part of the request before it has sent anything of the response, the request is sent again without
        it.

        Raises:
            ModelError: The request failed, or the response is broken or incomplete.
        """
        whole = request
        while True:
            request = self._refused.reduced_request(whole)
            has_begun = False
            try:
                body, projection = self._bodies.body(request), self._bodies.projection(request)
                headers = request_headers(request, self._env)
                if self.sent_headers is not None:
                    headers = {name: headers[name] for name in self.sent_headers}
                answer = await self._server.ask(request.thread_id, headers, body, request.measure)
                splitter, reply = self.splitter(), self.reply(projection)
                reader = self._server.events(request.thread_id, answer, splitter, self._meter(request.measure))
                try:
                    for loss in self._bodies.losses(request):
                        yield loss
                    while True:
                        for data in await self._batch(reader, splitter, reply):
                            for event in reply.feed(data):
                                has_begun = True
                                yield event
                            if reply.complete:
                                break
                        if reply.complete:
                            break
                        if reply.alive:
                            reader.alive, reply.alive = True, False
                        if reply.finished and self.rest_s is not None:
                            reader.silence_s = min(reader.silence_s, self.rest_s)
                    completion = reply.completion()
                    reader.finish()
                    yield completion
                    return
                finally:
                    await reader.aclose(sys.exception())
            except ModelError as error:
                warnings = None if has_begun else self._refused.note_refusal(request, error)
                if warnings is None:
                    raise
            for warning in warnings:
                yield warning

    async def aclose(self) -> None:
        """Close all connections."""
        await self._server.aclose()

    async def _batch(self, reader: EventReader, splitter: BodySplitter | LineSplitter, reply: Reply) -> list[str]:
        """Return the next events. At the end of the body, the reply is told.

        Raises:
            ModelError: The response broke off, or is not a response of this API.
        """
        from codex_lib_model_client.faults import no_response, web_page
        from codex_lib_model_client.splitter import PageError

        try:
            batch = await reader.batch()
            if batch is not None:
                return batch
            rest = splitter.rest()
        except PageError as error:
            raise web_page(self._info.id, self.path) from error
        except ModelError:
            if not reply.finished:
                raise
            rest = []  # the response was whole; only what follows it is missing
        if rest:
            reply.nothing = no_response(self._info.id, self.path, self.noun, rest[0])
            return [*rest, self.last] if self.last else rest
        reply.end()
        return []

    def _meter(self, measure: Measure | None) -> ResponseMeter | None:
        if measure is None:
            return None
        from codex_lib_model_client.measuring import ResponseMeter

        return ResponseMeter(measure, self.kind)

    def _load_reading(self) -> None:
        import codex_lib_model_client.faults
        import codex_lib_model_client.splitter  # noqa: F401  # imported ahead of use

        self.load_reading()
