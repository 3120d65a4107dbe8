"""Requests for testing a model provider without a kernel."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from codex_framework.contract.protocol.items import ResponseItem, user_message
from codex_framework.contract.protocol.wire import encode_item
from codex_framework.contract.roles.models import ModelEvent, ModelInfo, ModelProvider, ModelRequest, ProviderInfo
from codex_framework.contract.value import Value

__all__ = ["ItemsPrompt", "ask", "model_request"]


class ItemsPrompt(Value):
    """A prompt with these items (see :class:`~codex_framework.contract.roles.models.Prompt`)."""

    items: Sequence[ResponseItem]

    def encoded(self) -> bytes:
        """Return the items as a JSON array in UTF-8."""
        return b"[" + b",".join(encode_item(item) for item in self.items) + b"]"

    def for_provider(self, provider: str) -> ItemsPrompt:  # noqa: ARG002
        """Return the same prompt."""
        return self


def model_request(*items: ResponseItem | str, **changes: Any) -> ModelRequest:
    """Return a small request. A text is a user message. ``changes`` are fields of :class:`~codex_framework.ModelRequest`."""
    prompt = ItemsPrompt([user_message(item) if isinstance(item, str) else item for item in items or ("hello",)])
    settings: dict[str, Any] = {
        "model": ModelInfo(slug="test-model"),
        "instructions": "Be brief.",
        "prompt": prompt,
        "tools": (),
        "parallel_tool_calls": True,
        "cache_key": "thread-1",
        "thread_id": "thread-1",
        "turn_id": "turn-1",
    }
    return ModelRequest(**{**settings, **changes})


async def ask(
    provider: ModelProvider,
    info: ProviderInfo,
    *requests: ModelRequest,
    env: dict[str, str] | None = None,
) -> list[list[ModelEvent]]:
    """Return the events of one response for each request. All use one client, which is closed at the end."""
    client = provider.open(info, env or {})
    try:
        return [await _events(client.stream(request)) for request in requests or (model_request(),)]
    finally:
        await client.aclose()


async def _events(stream: AsyncIterator[ModelEvent]) -> list[ModelEvent]:
    return [event async for event in stream]
