"""The client without a kernel, asked by scripted replies or by events as they come."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import Any

import attrs
import pytest

from codex_contrib_anthropic.provider import MessagesProvider
from codex_framework import ItemDone, ModelError, ModelEvent, ModelRequest, ProviderInfo
from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.testing import MESSAGES, ModelServer, Reply, model_request


@attrs.frozen
class Outcome:
    """What the client gave for each request, and what the server saw."""

    answers: list[list[ModelEvent]]
    errors: list[ModelError | None]
    bodies: list[dict[str, Any]]
    headers: list[dict[str, str]]

    @property
    def items(self) -> list[ResponseItem]:
        """The completed items of the first answer, whether it failed or not."""
        return [event.item for event in self.answers[0] if isinstance(event, ItemDone)]

    @property
    def error(self) -> ModelError:
        error = self.errors[0]
        assert error is not None
        return error


class Events:
    """A server that sends these events, instead of the ones of a reply."""

    name = "messages"
    path = "/messages"

    def __init__(self, *events: dict[str, Any] | bytes) -> None:
        self._events = _encoded(events)

    def events(self, reply: Reply, number: int, /) -> list[bytes]:
        return self._events


class Responses(Events):
    """A server that sends these responses, one for each request."""

    def __init__(self, *responses: Iterable[dict[str, Any]]) -> None:
        self._responses = [_encoded(events) for events in responses]

    def events(self, reply: Reply, number: int, /) -> list[bytes]:
        return self._responses[number - 1]


def _encoded(events: Iterable[dict[str, Any] | bytes]) -> list[bytes]:
    return [
        one if isinstance(one, bytes) else f"event: {one.get('type')}\ndata: {json.dumps(one)}\n\n".encode()
        for one in events
    ]


@pytest.fixture
def serve() -> Callable[..., Any]:
    """Return a server that sends these responses, one for each request. Use it as a context manager."""

    def server(*responses: Iterable[dict[str, Any]], port: int = 0) -> ModelServer:
        return ModelServer([Reply()] * len(responses), wires=[Responses(*responses)], port=port)

    return server


@pytest.fixture
def ask() -> Callable[..., Outcome]:
    """Return what comes of requests to a server with these replies."""

    def asked(
        replies: Iterable[Any],
        *requests: ModelRequest,
        wire: Any = MESSAGES,
        env: dict[str, str] | None = None,
        **table: Any,
    ) -> Outcome:
        with ModelServer(replies, wires=[wire]) as server:
            options = {key: value for key, value in table.items() if key not in attrs.fields_dict(ProviderInfo)}
            fields = {key: value for key, value in table.items() if key in attrs.fields_dict(ProviderInfo)}
            settings = {"request_max_retries": 0, "stream_idle_timeout_ms": 5000, "base_url": server.url, **fields}
            info = ProviderInfo(id="mock", wire_api="messages", options=options, **settings)
            answers, errors = asyncio.run(_answers(info, env or {}, requests or (model_request(),)))
            return Outcome(
                answers, errors, [one.json for one in server.requests], [dict(one.headers) for one in server.requests]
            )

    return asked


@pytest.fixture
def hear(ask: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """Return what the client makes of these events."""

    def heard(*events: dict[str, Any] | bytes, **request: Any) -> Outcome:
        return ask([Reply()], model_request(**request), wire=Events(*events))

    return heard


async def _answers(
    info: ProviderInfo, env: dict[str, str], requests: Iterable[ModelRequest]
) -> tuple[list[list[ModelEvent]], list[ModelError | None]]:
    client = MessagesProvider().open(info, env)
    answers: list[list[ModelEvent]] = []
    errors: list[ModelError | None] = []
    for request in requests:
        answers.append([])
        errors.append(None)
        try:
            async with asyncio.timeout(20):
                async for event in client.stream(request):
                    answers[-1].append(event)
        except ModelError as error:
            errors[-1] = error
    await client.aclose()
    return answers, errors
