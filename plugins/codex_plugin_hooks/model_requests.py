"""The hooks of ``PreModelRequest`` and ``PostModelRequest``: they see each attempt to get a response, and decide nothing."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any, Literal

from codex_framework import (
    ClientWrapper,
    Completed,
    Interceptor,
    ModelClient,
    ModelError,
    ModelEvent,
    ModelRequest,
    ProviderInfo,
    TurnContext,
)
from codex_framework.contract.protocol.events import TokenUsage
from codex_plugin_hooks.firing import Hooks, root_thread

__all__ = ["EVENTS", "ModelRequests", "cancel_attempt", "request_fields"]

EVENTS = ("PreModelRequest", "PostModelRequest")

_LAST = 1_000_000
"""After all that change requests."""


def request_fields(
    event: str, turn: TurnContext, *, kind: str, request_id: str, attempt: int, model: str
) -> dict[str, Any]:
    """Return the fields that the hooks of both events read."""
    thread = turn.thread
    return {
        "kind": kind,
        "request_id": request_id,
        "attempt_number": attempt,
        "session_id": root_thread(thread).id,
        "thread_id": thread.id,
        "turn_id": turn.facts.turn_id,
        "cwd": str(turn.facts.cwd),
        "transcript_path": thread.path,
        "model": model,
        "hook_event_name": event,
    }


class _Attempt:
    """One attempt to get the response to a request.

    Attributes:
        status: Its outcome. None while it is running.
    """

    def __init__(self, hooks: Hooks, turn: TurnContext, *, kind: str, request_id: str, number: int, model: str) -> None:
        self._hooks = hooks
        self._turn = turn
        self.kind = kind
        self.request_id = request_id
        self.number = number
        self._model = model
        self.status: str | None = None

    def is_repeated_by(self, kind: str, turn: TurnContext) -> bool:
        """Return whether a later request of a kind is another attempt at the same one."""
        return self.status != "completed" and self.kind == kind and self._turn.facts.turn_id == turn.facts.turn_id

    async def begin(self) -> None:
        await self._fire("PreModelRequest", {})

    async def end(
        self,
        status: Literal["completed", "failed", "cancelled"],
        *,
        error: str | None = None,
        usage: TokenUsage | None = None,
        response_id: str | None = None,
    ) -> None:
        self.status = status
        counts = None if usage is None else {name: getattr(usage, name) for name in _COUNTS}
        more = {"status": status, "error": error, "token_usage": counts, "response_id": response_id}
        await self._fire("PostModelRequest", more)

    async def _fire(self, event: str, more: dict[str, Any]) -> None:
        fields = request_fields(
            event,
            self._turn,
            kind=self.kind,
            request_id=self.request_id,
            attempt=self.number,
            model=self._model,
        )
        await self._hooks.fire(self._hooks.selected(event), self._turn, {**fields, **more}, suffix=self.request_id)


_COUNTS = (
    "input_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "output_tokens",
    "reasoning_output_tokens",
    "total_tokens",
)


class _Attempts:
    """The last attempt of a thread."""

    last: _Attempt | None = None


async def cancel_attempt(turn: TurnContext) -> None:
    """Run the hooks for an attempt of the thread that will not end any more."""
    last = turn.thread.state(_Attempts, _Attempts).last
    if last is not None and last.status is None:
        await last.end("cancelled")


class ModelRequests(Interceptor):
    """Runs the hooks before and after each attempt."""

    name = "user-hooks-model-requests"
    order = _LAST

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._sent: dict[str, _Attempt] = {}

    async def request(self, request: ModelRequest, turn: TurnContext) -> ModelRequest:
        """Run the hooks before an attempt."""
        await cancel_attempt(turn)
        kind = "foreground_compaction" if request.metadata.get("request_kind") == "compaction" else "sampling"
        attempts = turn.thread.state(_Attempts, _Attempts)
        request_id, number = str(uuid.uuid4()), 1
        if attempts.last is not None and attempts.last.is_repeated_by(kind, turn):
            request_id, number = attempts.last.request_id, attempts.last.number + 1
        attempts.last = attempt = _Attempt(
            self._hooks, turn, kind=kind, request_id=request_id, number=number, model=request.model.slug
        )
        await attempt.begin()
        self._sent[request.thread_id] = attempt
        return request

    def client(self, client: ModelClient, provider: ProviderInfo) -> ModelClient:  # noqa: ARG002  # the role's
        """Return a client that runs the hooks after an attempt."""
        return _ReportingClient(client, self._sent)


class _ReportingClient(ClientWrapper):
    """Reports the ends of responses.

    Args:
        sent: The attempts whose response has not been requested from a client yet, by thread.
    """

    def __init__(self, client: ModelClient, sent: dict[str, _Attempt]) -> None:
        super().__init__(client)
        self._sent = sent

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Request one response."""
        attempt = self._sent.pop(request.thread_id, None)  # none for a request of a plugin's own, or of another client
        async with self.response(request) as events:
            try:
                async for event in events:
                    if isinstance(event, Completed) and attempt is not None:
                        await attempt.end("completed", usage=event.usage, response_id=event.response_id)
                    yield event
            except ModelError as error:
                if attempt is not None and attempt.status is None:
                    await attempt.end("failed", error=error.fact)
                raise
        if attempt is not None and attempt.status is None:
            await attempt.end(
                "failed", error="stream disconnected before completion: stream closed before response.completed"
            )
