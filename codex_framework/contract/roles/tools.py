"""The role of a tool: what the model may call."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from codex_framework.contract.protocol.events.requests import Request
from codex_framework.contract.roles.agents import Agent
from codex_framework.contract.roles.calls import ToolCall, ToolOutput
from codex_framework.contract.roles.commands import (
    CommandRequest,
    CommandResult,
    RunningCommand,
)
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.scopes import ServiceKey, Span
from codex_framework.contract.roles.threads import ThreadClient, TurnContext
from codex_framework.contract.roles.tool_specs import ToolSpec
from codex_framework.contract.value import Value

if TYPE_CHECKING:
    from codex_framework.contract.permissions.file_access import FileAccess
    from codex_framework.contract.protocol.events import EventMsg, FileChange
    from codex_framework.contract.protocol.permissions import AdditionalPermissions
    from codex_framework.contract.protocol.policies import ReviewDecision
    from codex_framework.contract.roles.models import ModelInfo

__all__ = [
    "Aliased",
    "BringsPrograms",
    "Offered",
    "ParallelSafe",
    "PatchRequest",
    "StreamsArguments",
    "SuitsModel",
    "Tool",
    "ToolContext",
]

T = TypeVar("T")
A = TypeVar("A")


class Tool(Protocol):
    """What the model may call. Implement it, or decorate a function with ``codex_framework.tool``."""

    @property
    def spec(self) -> ToolSpec:
        """Name, description and form of the arguments. Read once, at registration."""
        ...

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput | str:
        """Carry out one call.

        Raises:
            ToolError: The call failed; the text goes to the model as its output.
            ToolRefused: The call was not allowed; the text goes to the model.
            FatalToolError: The turn has to end.
            asyncio.CancelledError: The turn was interrupted; clean up and let it through.
        """
        ...


@runtime_checkable
class ParallelSafe(Protocol):
    """A tool whose calls may overlap with other such calls. Without it, a call runs alone."""

    parallel_safe: bool


@runtime_checkable
class Aliased(Protocol):
    """A tool that also answers to other names, which are never offered to the model."""

    @property
    def aliases(self) -> Sequence[str]:
        """The other names."""
        ...


@runtime_checkable
class Offered(Protocol):
    """A tool that is offered to the model in some turns only. It can be *called* in all of them."""

    def offered(self, facts: TurnFacts) -> bool:
        """Whether to offer it in a turn with these facts. Cheap: asked once a turn."""
        ...


@runtime_checkable
class SuitsModel(Protocol):
    """A tool whose form depends on the model. ``spec`` stays the form it is registered with; the name must be the same."""

    def spec_for(self, facts: TurnFacts) -> ToolSpec:
        """The form to offer in a turn with these facts. Cheap: asked once a turn, for an offered tool."""
        ...


@runtime_checkable
class StreamsArguments(Protocol):
    """A tool that wants to see its input while the model is still writing it (for a preview)."""

    def preview(self, call_id: str, text: str) -> EventMsg | None:
        """Take all input so far; return an event to show, or None. Must not have effects; errors are ignored."""
        ...


@runtime_checkable
class BringsPrograms(Protocol):
    """A tool that puts commands on the ``PATH`` of what the model runs (``apply_patch`` within a shell script)."""

    @property
    def programs(self) -> Mapping[str, Sequence[str]]:
        """Program name to the argv it stands for; further arguments are appended."""
        ...


class PatchRequest(Value, kw_only=True):
    """File changes that need the same approval as a patch.

    Attributes:
        changes: By absolute path.
        reason: Shown to the person.
        grant_root: A folder whose grant for the session would make this and later patches pass.
    """

    changes: Mapping[str, FileChange]
    reason: str | None = None
    grant_root: str | None = None


class ToolContext(Protocol):
    """What a tool gets for one call, and no more."""

    @property
    def call_id(self) -> str:
        """The model's id of the call."""
        ...

    @property
    def thread_id(self) -> str:
        """The thread's id (a UUID)."""
        ...

    @property
    def turn_id(self) -> str:
        """The turn's id."""
        ...

    @property
    def cwd(self) -> Path:
        """The turn's working folder, absolute."""
        ...

    @property
    def model(self) -> ModelInfo:
        """What is known of the turn's model."""
        ...

    @property
    def config(self) -> Mapping[str, Any]:
        """The merged ``config.toml`` as plain tables."""
        ...

    @property
    def access(self) -> FileAccess:
        """Which files this turn may read and write."""
        ...

    def resolve(self, path: str) -> Path:
        """The absolute path of ``path``, taken relative to ``cwd``; not checked for existence or permission."""
        ...

    async def read_bytes(self, path: str) -> bytes:
        """Read a file.

        Raises:
            ToolError: It does not exist, is no file, or may not be read.
        """
        ...

    async def read_text(self, path: str) -> str:
        """Read a file as UTF-8; undecodable bytes become U+FFFD. Raises as :meth:`read_bytes`."""
        ...

    async def write_text(self, path: str, text: str) -> None:
        """Write a file as UTF-8, whole or not at all; missing parent folders are made.

        Raises:
            ToolRefused: The turn's permissions do not let it be written.
            ToolError: Writing failed.
        """
        ...

    async def run(self, command: CommandRequest | Sequence[str]) -> CommandResult:
        """Run a command through policy, approval and sandbox, and wait for its end.

        Raises:
            ToolRefused: Policy, reviewer, person or sandbox said no.
            ToolError: It could not be started.
        """
        ...

    async def start(self, command: CommandRequest) -> RunningCommand:
        """Start a command the same way, without waiting. Raises as :meth:`run`."""
        ...

    async def approve_patch(self, patch: PatchRequest) -> ReviewDecision:
        """Ask whether these changes may be made, as the approval policy says.

        Raises:
            ToolRefused: They may not, with the text for the model.
        """
        ...

    async def request_permissions(
        self, permissions: AdditionalPermissions, reason: str | None = None
    ) -> tuple[AdditionalPermissions, str]:
        """Ask a person whether the turn or the session may do more. What is granted holds for all later calls.

        Returns:
            What was granted (perhaps nothing), and for how long: ``turn`` or ``session``.

        Raises:
            ToolRefused: Nobody may be asked, or the permission profile denies some of it.
        """
        ...

    def emit(self, event: EventMsg) -> None:
        """Tell the thread's clients something."""
        ...

    def note_file_change(self, path: str, before: str | None, after: str | None) -> None:
        """Add a change that was made to the turn's diff.

        Args:
            path: Absolute.
            before: The file's text before, or None where it did not exist.
            after: Its text now, or None where it is gone.
        """
        ...

    @property
    def turn(self) -> TurnContext:
        """The turn of the call."""
        ...

    def service(self, key: ServiceKey[T]) -> T:
        """Return a service of the thread, else of the kernel.

        Raises:
            ServiceError: Nobody provides it; the fact names the plugins that would.
        """
        ...

    def state(self, key: object, factory: Callable[[], T]) -> T:
        """Return the plugin's own object for this thread under ``key``, made by ``factory`` at first use.

        If it has an ``async def aclose(self)``, the kernel awaits that when the thread shuts down.
        """
        ...

    def background(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Run a coroutine beside the call. It is cancelled when the call ends."""
        ...

    def span(self, name: str, **attributes: str | float | bool) -> AbstractContextManager[Span]:
        """Measure a block as a part of the call."""
        ...

    async def request(self, request: Request[A]) -> A:
        """Ask the clients of the thread, and wait for the answer. The request ends with the turn."""
        ...

    def progress(self, text: str, *, done: float | None = None) -> None:
        """Tell clients how far the call has come.

        Args:
            done: The part that is done, from 0 to 1. None if it is not known.
        """
        ...

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> ToolOutput:
        """Call another tool of the turn, with its approvals. Interceptors see the call.

        Raises:
            ToolError: There is no such tool, or it failed.
        """
        ...

    async def spawn(self, agent: Agent[Any], prompt: str | None = None, *, fork: int | None = 0) -> ThreadClient:
        """Start a child thread that ends with this call.

        Args:
            prompt: Its first input. None starts no turn.
            fork: How many turns of this thread's history it begins with. None is all of it.
        """
        ...

    def limit_text(self, text: str, *, max_tokens: int | None = None) -> str:
        """Shorten text to what the model's truncation policy allows (first half, marker, last half)."""
        ...
