"""The role of a task: what fills a turn. The built-in one is the loop of model and tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.contract.roles.agents import TaskRole
from codex_framework.contract.roles.calls import ToolOutput
from codex_framework.contract.roles.commands import CommandRequest, CommandResult
from codex_framework.contract.roles.models import ModelRequest
from codex_framework.contract.roles.outcomes import Outcome, SampleResult
from codex_framework.contract.roles.threads import TurnContext

__all__ = ["Task", "TaskContext"]


class TaskContext(TurnContext, Protocol):
    """What a task and a compactor get: all of :class:`~codex_framework.contract.roles.threads.TurnContext`, and these."""

    def record(self, items: Sequence[ResponseItem]) -> None:
        """Add items to history at once.

        A concurrent task beside a turn delivers them instead: they are recorded before the next sample of that turn.
        """
        ...

    def draft(self, items: Sequence[ResponseItem] | None = None, *, tools: bool = True) -> ModelRequest:
        """Return the request that the next sample would send.

        Args:
            items: Instead of the history; normalised, so that every call has an output. None is the history.
            tools: Whether to offer the turn's tools.
        """
        ...

    async def sample(self, request: ModelRequest, *, announce: bool = True) -> SampleResult:
        """Ask the model: interceptors, retries and usage as in the built-in loop.

        Args:
            announce: Whether clients hear the response as it streams.

        Raises:
            ModelError: The provider failed, and the retries are used up. ``info`` says how.
        """
        ...

    async def run_loop(self) -> Outcome:
        """Run the built-in loop of model and tools over the history as it is, to its end."""
        ...

    async def compact(self, reason: str) -> None:
        """Shorten the history with the compactor of the thread.

        Raises:
            ThreadError: There is no compactor, or it failed.
        """
        ...

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> ToolOutput:
        """Call a tool of the turn, with its approvals. Interceptors see the call.

        Raises:
            ToolError: There is no such tool, or it failed.
        """
        ...

    async def run_command(self, command: CommandRequest, *, as_user: bool = False) -> CommandResult:
        """Run a command to its end.

        Args:
            as_user: A person typed it: no policy, no approval, no sandbox.

        Raises:
            ToolRefused: Policy, reviewer, person or sandbox said no.
            ToolError: It could not be started.
        """
        ...


class Task(TaskRole):
    """What fills a turn. Derive from it, and start it with ``ThreadContext.start_task``.

    Attributes:
        kind: Its name: ``compact``, ``review``, ...
        concurrent: Whether it may run beside a turn. It then runs within that turn: under its id, without a start and an end of
            its own. Alone, it is a turn.
        steerable: Whether input of a person that arrives while it runs reaches it through :meth:`steer`. Otherwise the input is
            refused.
        when_busy: What happens if a turn is running: ``refuse`` the task, ``replace`` the turn, or ``wait`` for its end.
    """

    async def run(self, turn: TaskContext, input: Any) -> str | None:  # noqa: A002  # the word of the contract
        """Fill the turn and return the agent's last message, or None.

        An interrupt cancels it; it then has 5 s for its ``finally`` clauses. What it raises ends the turn as failed.

        Args:
            input: What ``start_task`` was given.
        """
        raise NotImplementedError

    def steer(self, items: Sequence[ResponseItem], turn: TaskContext) -> None:
        """Take input that arrived while the task runs. By default it is recorded."""
        turn.record(items)
