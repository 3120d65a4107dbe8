"""A provider that is asked over both of its transports, by scripted replies or by bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import attrs
import pytest

from codex_framework import ItemDone, ModelError, ModelEvent, ModelRequest, ProviderInfo
from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.testing.chat_wire import CHAT
from codex_framework.testing.requests import model_request
from codex_framework.testing.scripted import Reply, ReplySource
from codex_framework.testing.server import ModelServer
from codex_plugin_chat.provider import ChatProvider


@attrs.frozen
class Outcome:
    """What the client gave for each request, and what the server saw."""

    answers: list[list[ModelEvent]]
    errors: list[ModelError | None]
    server: ModelServer

    @property
    def events(self) -> list[ModelEvent]:
        (answer,), (error,) = self.answers, self.errors
        assert error is None, error
        return answer

    @property
    def items(self) -> list[ResponseItem]:
        """The completed items of the one answer, whether it failed or not."""
        (answer,) = self.answers
        return [event.item for event in answer if isinstance(event, ItemDone)]

    @property
    def error(self) -> ModelError:
        (error,) = self.errors
        assert error is not None
        return error


class RawWire:
    """A Chat Completions server that sends these events, instead of the ones of a reply."""

    name = "chat"
    path = "/chat/completions"

    def __init__(self, *events: dict[str, Any] | str | bytes) -> None:
        self._events = [_bytes(event) for event in events]

    def events(self, reply: Reply, number: int, /) -> list[bytes]:
        return self._events


def _bytes(event: dict[str, Any] | str | bytes) -> bytes:
    if isinstance(event, bytes):
        return event
    return f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n".encode()


def delta(reason: str | None = None, /, **fields: Any) -> dict[str, Any]:
    """Return a chunk."""
    return {"id": "c1", "choices": [{"index": 0, "delta": fields, "finish_reason": reason}]}


@pytest.fixture
def env() -> dict[str, str]:
    """An environment without proxies and certificates."""
    return {}


@pytest.fixture
def ask(env: dict[str, str]) -> Callable[..., Outcome]:
    def asked(
        replies: Iterable[ReplySource], *requests: ModelRequest, wire: Any = CHAT, table: dict[str, Any] | None = None
    ) -> Outcome:
        with ModelServer(replies, wires=[wire]) as server:
            answers, errors = asyncio.run(_answers(server.url, env, requests or (model_request(),), table or {}))
            return Outcome(answers, errors, server)

    return asked


@pytest.fixture
def hear() -> Callable[..., Outcome]:
    """Return what the client makes of these events."""

    def heard(*events: dict[str, Any] | str | bytes, table: dict[str, Any] | None = None, **request: Any) -> Outcome:
        with ModelServer([Reply()], wires=[RawWire(*events)]) as server:
            answers, errors = asyncio.run(_answers(server.url, {}, (model_request(**request),), table or {}))
            return Outcome(answers, errors, server)

    return heard


async def _answers(
    url: str, env: dict[str, str], requests: Iterable[ModelRequest], table: dict[str, Any]
) -> tuple[list[list[ModelEvent]], list[ModelError | None]]:
    client = ChatProvider().open(chat_at(url, **table), env)
    answers: list[list[ModelEvent]] = []
    errors: list[ModelError | None] = []
    for request in requests:
        answers.append([])
        errors.append(None)
        try:
            async with asyncio.timeout(20):
                async for event in _stream(client, request):
                    answers[-1].append(event)
        except ModelError as error:
            errors[-1] = error
    await client.aclose()
    return answers, errors


def _stream(client: Any, request: ModelRequest) -> AsyncIterator[ModelEvent]:
    stream: AsyncIterator[ModelEvent] = client.stream(request)
    return stream


def chat_at(url: str, **table: Any) -> ProviderInfo:
    settings: dict[str, Any] = {"request_max_retries": 0, "stream_idle_timeout_ms": 5000, **table}
    return ProviderInfo(id="mock", name="Mock", wire_api="chat", base_url=url, **settings)
