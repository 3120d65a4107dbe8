"""The role of a tool: what the model may call."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from codex_framework.contract.errors import ToolError
from codex_framework.contract.protocol.events.requests import Request
from codex_framework.contract.roles.agents import Agent
from codex_framework.contract.roles.calls import CallView, ToolCall, ToolOutput
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
    from codex_framework.contract.protocol.events import Approval, EventMsg, FileChange
    from codex_framework.contract.protocol.permissions import AdditionalPermissions
    from codex_framework.contract.protocol.policies import ReviewDecision
    from codex_framework.contract.roles.models import ModelInfo

__all__ = ["PatchRequest", "Tool", "ToolContext"]

T = TypeVar("T")
A = TypeVar("A")


class Tool:
    """What the model may call. Derive from it, or decorate a function with ``codex_framework.tool``.

    ``spec`` and :meth:`run` are required. Override of the rest what you need: a member that is not overridden costs nothing. Members
    are looked up once, when the tool is registered. A class that does not derive from ``Tool`` but has the members works as well.

    Attributes:
        spec: Name, description and form of the arguments.
        aliases: Other names it answers to. They are never offered to the model.
        parallel_safe: Whether its calls may overlap with other such calls. Otherwise a call runs alone.
        exposure: ``direct`` offers it to the model. ``deferred`` and ``hidden`` tools can be called but are not offered. A thread
            component offers its ``deferred`` tool once it is wanted: it sets ``direct`` and calls ``ThreadContext.tools_changed()``.
        tells_clients: Whether it emits events about its calls itself. Otherwise the kernel emits the begin and the end of each call.
        programs: Commands for the ``PATH`` of what the model runs (``apply_patch`` within a shell script). Each program name maps to
            the argv that it stands for; further arguments are appended.
    """

    spec: ToolSpec
    aliases: Sequence[str] = ()
    parallel_safe: bool = False
    exposure: Literal["direct", "deferred", "hidden"] = "direct"
    tells_clients: bool = False
    programs: Mapping[str, Sequence[str]] = MappingProxyType({})

    def offered(self, turn: TurnFacts) -> bool:  # noqa: ARG002  # for those who override it
        """Return whether to offer it to the model in a turn. It can be called in all of them.

        Asked whenever a table of tools is made: once a turn, and after ``tools_changed()``. Keep it cheap.
        """
        return True

    def spec_for(self, turn: TurnFacts) -> ToolSpec:  # noqa: ARG002  # as above
        """Return the form to offer in a turn, under the name of ``spec``. Asked for an offered tool, as often as :meth:`offered`."""
        return self.spec

    def needs_approval(self, call: ToolCall, turn: TurnFacts) -> Approval | None:  # noqa: ARG002
        """Return what a call asks to be allowed, or None if it may run. Asked after interceptors have seen the call.

        The kernel asks reviewers and people and keeps their answers. If this method fails, the call is asked about as well.

        Raises:
            ToolError: The call cannot be made at all. Nobody is asked; the text goes to the model.
        """
        return None

    async def allow_always(self, call: ToolCall, turn: TurnContext) -> None:
        """Save that a person allowed such calls for good. Called only if the :class:`Approval` had ``always``.

        An exception is a warning: the call runs, and the next one is asked about again.
        """

    def view(self, call: ToolCall) -> CallView | None:  # noqa: ARG002
        """Return a call in the words of hooks, guards and interfaces, or None if there are none for it."""
        return None

    def with_arguments(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolCall:  # noqa: ARG002
        """Return the call with other arguments, in the form of :meth:`view`.

        Raises:
            ToolError: The tool does not support that, or not these arguments.
        """
        raise ToolError(f"the arguments of {call.name} cannot be changed")

    def preview(self, call_id: str, text: str) -> EventMsg | None:  # noqa: ARG002
        """Take all input that the model has written so far, and return an event to show, or None. Errors are ignored.

        Must not have effects: the call may never be made.
        """
        return None

    @abstractmethod
    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput | str:
        """Run one call.

        Raises:
            ToolError: The call failed; the text goes to the model as its output.
            ToolRefused: The call was not allowed; the text goes to the model.
            FatalToolError: The turn has to end.
            asyncio.CancelledError: The turn was interrupted; clean up and let it through.
        """
        raise NotImplementedError


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
