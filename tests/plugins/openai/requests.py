from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import attrs

from codex_framework import ModelClient, ModelEvent, ModelInfo, ModelRequest, ProviderInfo
from codex_framework.protocol.items import ResponseItem, user_message
from codex_framework.protocol.wire import encode_item
from codex_plugin_openai.provider import ResponsesProvider


@attrs.frozen
class Items:
    """A prompt of these items."""

    items: Sequence[ResponseItem]

    def encoded(self) -> bytes:
        return b"[" + b",".join(encode_item(item) for item in self.items) + b"]"


def a_request(*items: ResponseItem, **changes: Any) -> ModelRequest:
    plain = ModelRequest(
        model=ModelInfo(slug="gpt-5.5", verbosity="low"),
        instructions="Be brief.",
        prompt=Items(items or (user_message("hello"),)),
        tools=(),
        parallel_tool_calls=True,
        cache_key="thread-1",
        thread_id="thread-1",
        turn_id="turn-1",
    )
    return attrs.evolve(plain, **changes)


def provider_at(url: str, **changes: Any) -> ProviderInfo:
    settings: dict[str, Any] = {"request_max_retries": 0, "stream_idle_timeout_ms": 5000, **changes}
    return ProviderInfo(id="mock", name="Mock", base_url=url, **settings)


def open_client(info: ProviderInfo, env: Mapping[str, str] | None = None) -> ModelClient:
    return ResponsesProvider().open(info, env or {})


async def events_of(stream: AsyncIterator[ModelEvent]) -> list[ModelEvent]:
    return [event async for event in stream]


async def ask(info: ProviderInfo, request: ModelRequest | None = None, env: Mapping[str, str] | None = None) -> list[ModelEvent]:
    """The events of one response."""
    client = open_client(info, env)
    try:
        return await events_of(client.stream(request or a_request()))
    finally:
        await client.aclose()
