"""A provider that is asked for responses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import attrs
import pytest

from codex_framework import ModelError, ModelEvent, ModelRequest, ProviderInfo
from codex_framework.testing.requests import model_request
from codex_framework.testing.scripted import ReplySource
from codex_framework.testing.server import ResponsesServer
from codex_plugin_openai.provider import ResponsesProvider


@attrs.frozen
class Outcome:
    """What the client gave for each request, and what the server saw."""

    answers: list[list[ModelEvent] | ModelError]
    server: ResponsesServer

    @property
    def events(self) -> list[ModelEvent]:
        (answer,) = self.answers
        assert isinstance(answer, list)
        return answer

    @property
    def error(self) -> ModelError:
        (answer,) = self.answers
        assert isinstance(answer, ModelError)
        return answer


@pytest.fixture
def env() -> dict[str, str]:
    """An environment without proxies and certificates."""
    return {}


@pytest.fixture
def ask() -> Callable[..., Outcome]:
    def asked(
        replies: Iterable[ReplySource],
        *requests: ModelRequest,
        websockets: bool = False,
        env: Mapping[str, str] = MappingProxyType({}),
        **table: Any,
    ) -> Outcome:
        async def run(server: ResponsesServer) -> list[list[ModelEvent] | ModelError]:
            client = ResponsesProvider().open(provider_at(server.url, **table), env)
            answers: list[list[ModelEvent] | ModelError] = []
            for request in requests or (model_request(),):
                try:
                    answers.append([event async for event in client.stream(request)])
                except ModelError as error:
                    answers.append(error)
            await client.aclose()
            return answers

        with ResponsesServer(replies, websockets=websockets) as server:
            return Outcome(asyncio.run(run(server)), server)

    return asked


def provider_at(url: str, **table: Any) -> ProviderInfo:
    settings: dict[str, Any] = {"request_max_retries": 0, "stream_idle_timeout_ms": 5000, **table}
    return ProviderInfo(id="mock", name="Mock", base_url=url, **settings)
