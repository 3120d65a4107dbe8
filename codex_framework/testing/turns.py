"""A turn without a kernel, for tests of objects that get one: reviewers, interceptors, policies."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from codex_framework.contract.errors import described
from codex_framework.contract.protocol.events import EventMsg
from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.contract.roles.agents import Agent, RunResult
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.outcomes import Outcome, Status
from codex_framework.testing.facts import turn_facts

__all__ = ["LoneChild", "LoneThread", "LoneTurn"]

T = TypeVar("T")

Reply = Callable[[str], Awaitable[str]]
"""Answers a prompt in place of a model."""


class LoneChild:
    """A child thread that a function answers instead of a model."""

    def __init__(self, thread: LoneThread, agent: Agent[Any]) -> None:
        self.id = f"child-{len(thread.children) + 1}"
        self.agent = agent
        self.closed = False
        self._reply = thread.reply

    async def run(self, prompt: str, **settings: Any) -> RunResult[Any]:
        """Run one turn."""
        unknown = settings.keys() - {"output_schema", "on_request"}
        if unknown:
            raise TypeError(f"run() takes no {', '.join(sorted(unknown))}")
        try:
            text = await self._reply(prompt)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # as in a turn, errors are in the result
            return RunResult(outcome=Outcome(status=Status.FAILED, error=described(error)))
        return RunResult(outcome=Outcome(status=Status.COMPLETED, last_agent_message=text), value=text)

    async def shutdown(self) -> None:
        """End the child."""
        self.closed = True


class LoneThread:
    """The thread of a lone turn.

    Attributes:
        children: The spawned threads, in order.
    """

    id = "thread-1"
    depth = 0
    parent = None

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.children: list[LoneChild] = []
        self._state: dict[object, Any] = {}

    async def spawn(self, agent: Agent[Any], prompt: str | None = None, *, fork: int | None = 0) -> LoneChild:
        """Start a child."""
        del prompt, fork
        child = LoneChild(self, agent)
        self.children.append(child)
        return child

    def state(self, key: object, factory: Callable[[], T]) -> T:
        """Return the plugin's own object."""
        if key not in self._state:
            self._state[key] = factory()
        found: T = self._state[key]
        return found

    def plugin_settings(self, kind: type[T]) -> T:
        """Return the defaults of a settings class, because nothing is configured here."""
        return kind()


class LoneTurn:
    """A ``TurnContext`` without a kernel.

    Args:
        facts: The facts of the turn.
        history: The conversation.
        reply: Returns the answers of spawned children; by default an empty text.

    Attributes:
        events: The emitted events.
        causes: The causes that were named.
    """

    samples = 0
    continuations = 0

    def __init__(
        self,
        facts: TurnFacts | None = None,
        *,
        history: Sequence[ResponseItem] = (),
        reply: Reply | None = None,
    ) -> None:
        self.facts = facts or turn_facts()
        self.history = history
        self.thread = LoneThread(reply or _no_answer)
        self.events: list[EventMsg] = []
        self.causes: list[str] = []

    def emit(self, event: EventMsg) -> None:
        """Keep an event."""
        self.events.append(event)

    def because(self, cause: str) -> None:
        """Keep a cause."""
        self.causes.append(cause)

    def state(self, key: object, factory: Callable[[], T]) -> T:
        """Return the plugin's own object for the thread."""
        return self.thread.state(key, factory)


async def _no_answer(prompt: str) -> str:
    del prompt
    return ""
