"""The role of an agent: a named configuration of a thread, and the result of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal

from codex_framework.contract.errors import CodexError, RunError
from codex_framework.contract.protocol.events.event import EventMsg
from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.contract.roles.outcomes import Limits, Outcome, Status
from codex_framework.contract.value import Value

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    OutputT = TypeVar("OutputT", default=str)
else:
    from typing import TypeVar

    OutputT = TypeVar("OutputT")

__all__ = ["Agent", "RunResult", "TaskRole"]


class TaskRole:
    """The interface of a task for threads. Derive from :class:`~codex_framework.contract.roles.tasks.Task`, not from this."""

    kind: ClassVar[str] = "task"
    concurrent: ClassVar[bool] = False
    steerable: ClassVar[bool] = False
    when_busy: ClassVar[Literal["refuse", "replace", "wait"]] = "refuse"

    async def run(self, turn: Any, input: Any) -> str | None:  # noqa: A002  # the word of the contract
        """Fill the turn."""
        raise NotImplementedError

    def steer(self, items: Sequence[ResponseItem], turn: Any) -> None:
        """Take input that arrived while the task runs."""
        raise NotImplementedError


class Descriptions:
    """Creates tools from functions, and schemas from types. ``codex_framework.toolkit.agents`` sets the implementation."""

    def tool(self, function: Callable[..., Any]) -> Any:
        """Return a tool that calls a function. Raises TypeError if its signature cannot be described to a model."""
        raise TypeError(f"{function!r} is a function: create the agent with codex_framework.Agent")

    def output(self, kind: Any, where: str) -> tuple[Mapping[str, Any], Callable[[str], Any]]:
        """Return the JSON Schema of a type, and a function that reads a JSON text or raises ValueError. Raises TypeError."""
        raise TypeError(f"{where} is {kind!r}: create the agent with codex_framework.Agent")


class Agent(Value, Generic[OutputT], kw_only=True):
    """The configuration of a thread: instructions, model, tools, permissions, output type, limits.

    Run an agent with ``Kernel.run``, start a thread of it with ``Kernel.start_thread``, or a child thread with ``spawn``. Offer
    agents
    by name with ``codex_agents``, or define them in the configuration as ``[agents.NAME]``.

    Attributes:
        description: The agent's purpose, for users and for models that choose an agent.
        instructions: The base instructions. By default, the instructions of the configuration or the model.
        model: Another model of the configured provider. None uses the thread's model.
        reasoning_effort: The reasoning effort. By default, the thread's.
        tools: The agent's own tools, as tool objects or functions for ``@tool``. They have priority over tools of plugins.
        allowed_tools: Patterns (``*`` matches anything) of the tools that may be offered, its own included. None allows all.
        disallowed_tools: Patterns of tools that are not offered.
        context: Names of the context sources to use. None uses all.
        permissions: The name of a permission profile. In a child it can only restrict the permissions of the parent.
        approval_policy: The name of an approval policy. In a child it is restricted like ``permissions``.
        output_type: The type of the output: ``str`` for the text of the last message, or any type that ``@tool`` supports for a
            parameter,
            for JSON of its schema.
        output_retries: How often an invalid output is returned to the model.
        limits: The limits of a thread of this agent, its children included.
        loop: The task that runs as a turn. By default, the built-in loop.
        ephemeral: If true, its threads are not stored.
    """

    descriptions: ClassVar[Descriptions] = Descriptions()

    name: str
    description: str = ""
    instructions: str | None = None
    model: str | None = None
    reasoning_effort: str | None = None
    tools: Sequence[object | Callable[..., Any]] = ()
    allowed_tools: Sequence[str] | None = None
    disallowed_tools: Sequence[str] = ()
    context: Sequence[str] | None = None
    permissions: str | None = None
    approval_policy: str | None = None
    output_type: type[OutputT] = str  # type: ignore[assignment]  # the default of the type variable
    output_retries: int = 2
    limits: Limits = Limits()
    loop: TaskRole | None = None
    ephemeral: bool = False


_RAISE_LIMIT = "Raise the limit in the agent's `limits` or in `[framework.limits]`, then continue with another input."


class RunResult(Value, Generic[OutputT], kw_only=True):
    """The result of a run.

    Attributes:
        outcome: How the run ended, with its usage.
        events: The events that clients received, deltas included.
        value: The output, if there is one; see :attr:`output`.
        misfit: Why the output does not fit its type. None if it fits.
    """

    outcome: Outcome
    events: tuple[EventMsg, ...] = ()
    value: OutputT | None = None
    misfit: str | None = None

    @property
    def status(self) -> Status:
        """How the turn ended."""
        return self.outcome.status

    @property
    def final_message(self) -> str | None:
        """The model's last message. None if the turn was not completed or the model said nothing."""
        return self.outcome.last_agent_message if self.outcome.status is Status.COMPLETED else None

    @property
    def error(self) -> str | None:
        """Why the turn failed, for people. None if it did not."""
        return self.outcome.error

    @property
    def failure(self) -> CodexError | None:
        """The exception behind ``error``: with ``slug`` and ``hint``, and for a ``ModelError`` ``retryable`` and ``retry_after_s``.

        None if the turn did not fail, or if no single exception was the reason.
        """
        return self.outcome.failure

    @property
    def usage(self) -> TokenUsage:
        """The tokens of the turn, children included."""
        return self.outcome.usage.tokens

    @property
    def output(self) -> OutputT:
        """The output, of the agent's output type.

        Raises:
            RunError: The run was not completed, or the output does not fit the type. The fact gives the reason, and
                ``__cause__`` is :attr:`failure`. The slug is ``limit-reached`` if a limit ended the turn.
        """
        if self.misfit is not None or self.value is None:
            fact = self.misfit or self.outcome.error or f"the turn was {self.outcome.status}"
            if self.status is Status.LIMITED:
                raise RunError(fact, slug="limit-reached", hint=_RAISE_LIMIT)
            raise RunError(fact) from self.failure
        return self.value
