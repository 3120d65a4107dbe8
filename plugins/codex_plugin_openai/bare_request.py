"""A request without items, with the parts of a turn besides its prompt: headers and metadata."""

from __future__ import annotations

from collections.abc import Sequence

from codex_framework import ModelInfo, ModelRequest, ThreadContext, Value
from codex_framework.contract.protocol.items import ResponseItem

__all__ = ["bare_request"]


def bare_request(thread: ThreadContext, model: ModelInfo, turn_id: str = "") -> ModelRequest:
    """Return a request that suffices for the headers of a connection."""
    return ModelRequest(
        model=model,
        instructions="",
        prompt=_Nothing(),
        tools=(),
        parallel_tool_calls=False,
        cache_key=thread.id,
        thread_id=thread.id,
        turn_id=turn_id,
        reasoning_effort=thread.settings.reasoning_effort or model.default_effort,
        metadata={"originator": thread.meta.originator, "source": thread.meta.source},
    )


class _Nothing(Value):
    """A prompt without items."""

    items: Sequence[ResponseItem] = ()

    def encoded(self) -> bytes:
        """Return an empty array."""
        return b"[]"

    def for_provider(self, provider: str) -> _Nothing:  # noqa: ARG002
        """Return the same prompt."""
        return self
