"""The built-in loop as a run of a turn, without a coroutine around it.

Apart from ``tasks``: a task of a plugin is run by another class with the same methods.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from codex_framework.contract.protocol.events import UserMessageEvent
from codex_framework.contract.roles.outcomes import Outcome
from codex_framework.threads.delivery import Delivered
from codex_framework.threads.turn.driver import TurnDriver
from codex_framework.threads.turn.inputs import InputArrived
from codex_framework.threads.turn.turn_context import TurnContexts

__all__ = ["LoopRun"]


class LoopRun:
    """A regular turn."""

    kind = "regular"
    steerable = True

    def __init__(self, contexts: TurnContexts, refused: Callable[[InputArrived, str], None]) -> None:
        self.driver = TurnDriver(contexts, refused=refused)
        self.asked: list[str] = []
        self.done: asyncio.Future[Outcome] = self.driver.done

    def steer(self, arrived: InputArrived) -> None:
        """Take user input. The first input starts the loop."""
        if not self.asked and isinstance(arrived.event, UserMessageEvent):
            self.asked.append(arrived.event.message)
        self.driver.feed(arrived)

    def deliver(self, delivered: Delivered) -> None:
        """Take items of a plugin."""
        self.driver.feed(delivered)

    def interrupt(self, reason: str) -> None:
        """Request the end of the loop."""
        self.driver.interrupt(reason)

    def stop(self, message: str) -> None:
        """End the loop as a normal stop, with a sentence for the user."""
        self.driver.stop(message)

    def leftover_input(self) -> Sequence[InputArrived]:
        """Return the input that arrived too late."""
        return self.driver.turn.take_pending()

    def leftover_deliveries(self) -> Sequence[Delivered]:
        """Return the deliveries that no sample included."""
        return self.driver.turn.take_deliveries()
