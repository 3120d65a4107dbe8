"""The interface to threads for programs, app servers and the parents of children."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from codex_framework.contract.protocol.events.event import Event, EventMsg
from codex_framework.contract.protocol.events.requests import Request
from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.contract.protocol.ops import Op, UserInputItem, UserInputOp
from codex_framework.contract.roles.agents import RunResult
from codex_framework.contract.roles.outcomes import Outcome
from codex_framework.contract.roles.scopes import Trace

__all__ = ["Delivery", "Events", "ThreadClient"]

Delivery: TypeAlias = Literal["join", "steer", "follow_up"]
"""When delivered items are added to the conversation.

``join``: before the next sample, or before the next turn if no sample follows; it never causes a sample. ``steer``: before the
next sample, for which the turn continues if necessary. ``follow_up``: when the turn has nothing left to do.
"""


class Events(Protocol):
    """The events of a thread on their way to one listener. Iterate over it; it ends with the thread."""

    def __aiter__(self) -> AsyncIterator[Event]:
        """Return the events."""
        ...

    async def __anext__(self) -> Event:
        """Return the next event."""
        ...

    def close(self) -> None:
        """Stop listening. The iteration ends. May be called more than once."""
        ...


class ThreadClient(Protocol):
    """A thread, for its clients: a program, an app server, or the parent of a child."""

    @property
    def id(self) -> str:
        """The thread's id (a UUID)."""
        ...

    @property
    def status(self) -> Literal["idle", "running", "waiting", "closed"]:
        """``waiting`` means that a turn runs and a request is open."""
        ...

    @property
    def open_requests(self) -> Sequence[Request[Any]]:
        """The unanswered requests, including the requests of children. A client that reconnects shows these."""
        ...

    async def submit(self, op: Op, *, id: str | None = None, trace: Trace | None = None) -> str:  # noqa: A002
        """Submit an op and return its id.

        The effects of the op are reported as events that carry this id; a refused op causes an ``error`` event with it. Input for
        a running turn becomes a part of that turn, so its events carry the id of the turn.

        Raises:
            ThreadError: The thread was shut down.
        """
        ...

    def steer(self, prompt: str | Sequence[UserInputItem] | UserInputOp, *, expected_turn_id: str | None = None) -> str:
        """Give input of the user to the running turn, and return the turn's id. The model gets it with its next request.

        Args:
            prompt: An op brings additional context and the client's id of the message. Its settings, schema and metadata are for
                turns that it starts, and have no effect here.
            expected_turn_id: Refuse the input if another turn is running.

        Raises:
            ThreadError: By ``slug``: no turn is running (``no-active-turn``), another turn is running (``wrong-turn``), the
                running turn takes no input (``not-steerable``), or the input is empty (``empty-input``), too long, or cannot be
                read.
        """
        ...

    def deliver(
        self,
        items: Sequence[ResponseItem],
        when: Delivery = "join",
        *,
        trigger: bool = False,
        event: EventMsg | None = None,
    ) -> None:
        """Add items to the conversation at the next suitable point.

        Args:
            trigger: Whether to start a turn if the thread is idle.
            event: An event for clients, emitted when the items are recorded.
        """
        ...

    def events(
        self, only: Sequence[type[EventMsg]] | None = None, *, limit: int = 10_000, answers: bool = True
    ) -> AsyncIterator[Event]:
        """Listen to the thread.

        Args:
            only: The classes of the events to deliver; a base class includes its subclasses. Other events are not queued and
                cost the listener nothing. By default, all events.
            limit: Maximum number of unread events. A listener that falls further behind first loses deltas and is then ended.
            answers: Whether this listener can answer the requests that it gets. A request that no listener gets and can answer
                has its unattended answer.
        """
        ...

    def answer(self, request_id: str, answer: object) -> bool:
        """Answer a request of the thread or of a child. The first answer is used.

        Returns:
            Whether the request was open.

        Raises:
            ThreadError: The answer is not of the request's ``answer_type``.
        """
        ...

    async def run(
        self, prompt: str | Sequence[UserInputItem], *, output_schema: Mapping[str, Any] | None = None
    ) -> RunResult[Any]:
        """Run one turn to its end. A failed turn is a result, not an exception.

        Args:
            output_schema: A JSON Schema that the final message must follow.

        Raises:
            ThreadError: The input cannot be used, or a turn is running.
        """
        ...

    def stream(self, prompt: str | Sequence[UserInputItem]) -> AsyncIterator[EventMsg]:
        """Start a turn and yield its events to its end. Raises the same errors as :meth:`run`."""
        ...

    async def settled(self) -> Outcome:
        """Wait until nothing is running or pending, and return the outcome of the last turn.

        Raises:
            ThreadError: No turn has run yet.
        """
        ...

    async def interrupt(self, reason: str = "interrupted") -> None:
        """Interrupt running work and wait for its end."""
        ...

    async def shutdown(self) -> None:
        """Stop all work and save the thread. Safe to call twice."""
        ...
