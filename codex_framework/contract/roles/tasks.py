"""The role of a task, which runs as a turn. The built-in task is the loop of model and tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.contract.roles.agents import TaskRole
from codex_framework.contract.roles.calls import ToolCaller
from codex_framework.contract.roles.commands import CommandRequest, CommandResult
from codex_framework.contract.roles.models import ModelRequest
from codex_framework.contract.roles.outcomes import Outcome, SampleResult
from codex_framework.contract.roles.threads import TurnContext

__all__ = ["Task", "TaskContext"]


class TaskContext(TurnContext, ToolCaller, Protocol):
    """The context of tasks and compactors, a :class:`~codex_framework.contract.roles.threads.TurnContext` with more members."""

    def record(self, items: Sequence[ResponseItem]) -> None:
        """Add items to the history immediately.

        In a concurrent task beside a turn, the items are delivered instead: they are recorded before the next sample of that
        turn.
        """
        ...

    def draft(self, items: Sequence[ResponseItem] | None = None, *, tools: bool = True) -> ModelRequest:
        """Return the request that the next sample would send.

        Args:
            items: The items to send, normalised so that every call has an output. By default, the history.
            tools: Whether to offer the turn's tools.
        """
        ...

    @property
    def server_compacts(self) -> bool:
        """Whether the server shortens conversations itself (``ModelClient``). It can still refuse to."""
        ...

    async def sample(self, request: ModelRequest, *, announce: bool = True) -> SampleResult:
        """Send a request to the model, with interceptors, retries and usage as in the built-in loop.

        Args:
            announce: Whether clients receive the response as it streams.

        Raises:
            ModelError: The provider failed, and no retries are left. ``info`` describes the failure.
        """
        ...

    async def run_loop(self) -> Outcome:
        """Run the built-in loop of model and tools on the current history, to its end."""
        ...

    async def compact(self, reason: str) -> None:
        """Shorten the history with the compactor of the thread.

        Raises:
            ThreadError: There is no compactor, or it failed.
        """
        ...

    async def run_command(self, command: CommandRequest, *, as_user: bool = False) -> CommandResult:
        """Run a command to its end.

        Args:
            as_user: Whether the user typed the command. It then runs without policy, approval or sandbox.

        Raises:
            ToolRefused: Policy, reviewer, user or sandbox refused it.
            ToolError: It could not be started.
        """
        ...


class Task(TaskRole):
    """Work that runs as a turn. Derive from it, and start it with ``ThreadContext.start_task``.

    Attributes:
        kind: The name of the kind: ``compact``, ``review``, ...
        concurrent: Whether it may run beside a turn. It then runs within that turn: under its id, without its own start and end
            events. If no turn is running, it becomes a separate turn.
        steerable: Whether user input that arrives while it runs is passed to :meth:`steer`. Otherwise the input is refused.
        when_busy: The action if a turn is running: ``refuse`` the task, ``replace`` the turn, or ``wait`` for its end.
    """

    async def run(self, turn: TaskContext, input: Any) -> str | None:  # noqa: A002  # the word of the contract
        """Run the task and return the agent's last message, if any.

        An interrupt cancels it; it then has 5 s for its ``finally`` clauses. If it raises, the turn fails.

        Args:
            input: The input passed to ``start_task``.
        """
        raise NotImplementedError

    def steer(self, items: Sequence[ResponseItem], turn: TaskContext) -> None:
        """Take input that arrived while the task runs. By default it is recorded."""
        turn.record(items)
