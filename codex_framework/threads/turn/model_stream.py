"""The stream of a model: its opening, and the check of items that the kernel does not know."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from typing import Any

from codex_framework.contract.errors import ModelError
from codex_framework.contract.protocol.items import UnknownItem
from codex_framework.contract.roles.models import ModelClient, ModelEvent, ModelRequest
from codex_framework.threads.faults import WrongValue, kind_of

__all__ = ["check_item", "opened"]


def opened(client: ModelClient, request: ModelRequest) -> AsyncIterator[ModelEvent]:
    """Begin a response.

    Raises:
        WrongValue: The client returned something that cannot be iterated over.
    """
    stream: Any = client.stream(request)
    if not hasattr(stream, "__aiter__"):
        if inspect.iscoroutine(stream):
            stream.close()
        hint = "Write `async def stream(self, request)` with `yield` for each event."
        raise WrongValue(f"it returned {kind_of(stream)}, not an async iterator", client.stream, hint=hint)
    events: AsyncIterator[ModelEvent] = stream
    return events


def check_item(item: UnknownItem) -> None:
    """Refuse an item that is of no use; the response is asked for again.

    Raises:
        ModelError: It is one.
    """
    from codex_framework.contract.protocol.wire import item_fault

    fault = item_fault(item)
    if fault is not None:
        raise ModelError(
            f"stream disconnected before completion: the model server sent {fault}",
            retryable=True,
            info={"response_stream_disconnected": {"http_status_code": None}},
            slug="stream-disconnected",
        )
