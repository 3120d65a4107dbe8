"""The role of a tool, which the model can call."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from codex_framework.contract.errors import ToolError
from codex_framework.contract.protocol.events.requests import Request
from codex_framework.contract.roles.agents import Agent
from codex_framework.contract.roles.calls import CallView, ToolCall, ToolCaller, ToolOutput
from codex_framework.contract.roles.commands import (
    CommandRequest,
    CommandResult,
    RunningCommand,
)
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.scopes import Scope
from codex_framework.contract.roles.threads import ThreadClient, TurnContext
from codex_framework.contract.roles.tool_specs import ToolSpec
from codex_framework.contract.value import Value

if TYPE_CHECKING:
    from codex_framework.contract.permissions.file_access import FileAccess
    from codex_framework.contract.protocol.environments import EnvironmentSelection
    from codex_framework.contract.protocol.events import Approval, EventMsg, FileChange
    from codex_framework.contract.protocol.permissions import AdditionalPermissions
    from codex_framework.contract.protocol.policies import ReviewDecision
    from codex_framework.contract.roles.environments import EnvironmentFiles
    from codex_framework.contract.roles.models import ModelInfo

__all__ = ["PatchRequest", "Tool", "ToolContext"]

T = TypeVar("T")
A = TypeVar("A")


class Tool:
    """A tool for the model. Derive from it, or decorate a function with ``codex_framework.tool``.

    ``spec`` and :meth:`run` are required. Override other members as needed: a member that is not overridden costs nothing.
    Members are looked up once, when the tool is registered. A class with these members need not derive from ``Tool``.

    Attributes:
        spec: Name, description and schema of the arguments.
        aliases: Other names by which it can be called. They are never offered to the model.
        parallel_safe: Whether its calls may overlap with other such calls. Otherwise a call runs alone.
        exposure: ``direct`` offers it to the model. ``deferred`` and ``hidden`` tools can be called but are not offered. A
            ``deferred`` tool is offered once a tool search has found it, or any plugin has named it in
            ``ThreadContext.offer_tools``.
        keywords: Further words by which a tool search finds a deferred tool, such as its title.
        source: What a tool search tells the model about the origin of a deferred tool, in one line: ``github: Issues and pull
            requests``.
        tells_clients: Whether the tool emits events about its calls. Otherwise the kernel emits the begin and end events of each
            call.
        reads: The facts of a turn on which :meth:`offered` and :meth:`spec_for` depend, by their names in ``TurnFacts``, so
            that the tool is called again only when one of them differs. A tool without this declaration is called in every
            turn.
        programs: Programs to add to the ``PATH`` of the model's commands (``apply_patch`` within a shell script). Each program
            name maps to its argv; further arguments are appended.
    """

    spec: ToolSpec
    aliases: Sequence[str] = ()
    parallel_safe: bool = False
    exposure: Literal["direct", "deferred", "hidden"] = "direct"
    keywords: str = ""
    source: str = ""
    tells_clients: bool = False
    reads: frozenset[str] | None = None
    programs: Mapping[str, Sequence[str]] = MappingProxyType({})

    def offered(self, turn: TurnFacts) -> bool:  # noqa: ARG002  # for those who override it
        """Return whether to offer it to the model in a turn.

        If it is not offered, a call of the model is refused. Other tools and tasks may call it.
        Called when the tools of a turn are collected: once per turn, and after ``tools_changed()``, unless ``reads`` says that
        the answer is known. Keep it cheap.
        """
        return True

    def spec_for(self, turn: TurnFacts) -> ToolSpec:  # noqa: ARG002  # as above
        """Return the spec to offer in a turn, with the name of ``spec``. Called for offered tools, as often as :meth:`offered`."""
        return self.spec

    def arrange(self, specs: Sequence[ToolSpec], turn: TurnFacts) -> Sequence[ToolSpec]:  # noqa: ARG002  # as above
        """Return the specs that the model sees in a turn, for a tool through which the model calls others.

        Called for offered tools, once per turn and after ``tools_changed()``, in the order of plugins. It may leave out,
        replace and reorder specs, and adds none under a new name. A spec that is left out can still be called, by the model
        too. Keep it cheap, and keep the order stable, on which providers' prompt caches depend.

        Args:
            specs: The specs of all offered tools, this one included.
        """
        return specs

    def needs_approval(self, call: ToolCall, turn: TurnFacts) -> Approval | None:  # noqa: ARG002
        """Return the approval that a call requires, or None if it may run. Called after interceptors have seen the call.

        The kernel asks reviewers and the user and keeps their answers. If this method fails, the call requires approval too.

        Raises:
            ToolError: The call cannot be made. Nobody is asked, and the text is returned to the model.
        """
        return None

    async def allow_always(self, call: ToolCall, turn: TurnContext) -> None:
        """Save that the user permanently allowed such calls. Called only if the :class:`Approval` had ``always``.

        An exception becomes a warning: the call runs, and the next call requires approval again.
        """

    def refused(self, call: ToolCall, context: ToolContext, why: str) -> None:
        """Tell the clients about a call that was not allowed, so that they see it like other calls of the tool.

        Called if ``tells_clients`` is true, after :meth:`needs_approval`, a reviewer or the user has refused the call. For other
        tools the kernel emits the begin and end events.

        Args:
            why: The text for the model.
        """

    def view(self, call: ToolCall) -> CallView | None:  # noqa: ARG002
        """Return a call in the vocabulary of hooks, guards and interfaces, or None if the tool has no view."""
        return None

    def with_arguments(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolCall:  # noqa: ARG002
        """Return the call with other arguments, in the form of :meth:`view`.

        Raises:
            ToolError: The tool does not support that, or not these arguments.
        """
        raise ToolError(f"the arguments of {call.name} cannot be changed")

    def preview(self, call_id: str, text: str) -> EventMsg | None:  # noqa: ARG002
        """Return an event that previews the input written so far, or None for no preview. Errors are ignored.

        It must not have side effects, because the call may never be made.
        """
        return None

    async def shown(self, item: Mapping[str, Any], turn: TurnContext) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the client's view of a call that the model's server ran itself, after the item has been recorded.

        Called for an item of the type ``NAME_call`` that clients see (``web_search_call``, ``image_generation_call``), where
        ``NAME`` is the name of the tool, if the tool is offered. The rest of the response waits for it, at most 30 s. ``type``
        and ``id`` of the item stay. An exception is a warning, and clients see the original item.

        Args:
            item: The turn item, such as ``{"type": "ImageGeneration", "id": ..., "result": ...}``.
        """
        return item

    @abstractmethod
    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput | str:
        """Run one call.

        Raises:
            ToolError: The call failed. The text is returned to the model as its output.
            ToolRefused: The call was not allowed. The text is returned to the model.
            FatalToolError: The turn must end.
            asyncio.CancelledError: The turn was interrupted. Clean up and re-raise it.
        """
        raise NotImplementedError


class PatchRequest(Value, kw_only=True):
    """File changes that need the same approval as a patch.

    Attributes:
        changes: The changes by absolute path.
        reason: The reason, shown to the user.
        grant_root: A folder that would allow this patch and later ones if it were granted for the session.
    """

    changes: Mapping[str, FileChange]
    reason: str | None = None
    grant_root: str | None = None


class ToolContext(Scope, ToolCaller, Protocol):
    """The context of one tool call. Background work ends with the call, and spans are parts of it."""

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
        """The turn's working folder, absolute. It is a path of the call's environment."""
        ...

    @property
    def model(self) -> ModelInfo:
        """The properties of the turn's model."""
        ...

    @property
    def config(self) -> Mapping[str, Any]:
        """The merged ``config.toml`` as plain tables."""
        ...

    @property
    def environments(self) -> Sequence[EnvironmentSelection]:
        """The environments of the turn, the primary one first. A turn without environments has neither files nor commands."""
        ...

    def at(self, environment_id: str) -> ToolContext:
        """Return the context of the call in another environment of the turn. A call begins in the primary one.

        Folder, permissions, commands, files and approvals belong to the environment.

        Raises:
            ToolError: The turn has no such environment.
        """
        ...

    @property
    def files(self) -> EnvironmentFiles | None:
        """The files of the call's environment. None if it is this machine: use ``Files`` of the toolkit there."""
        ...

    @property
    def shell(self) -> str | None:
        """Path of the user's shell in the call's environment. None if it is this machine."""
        ...

    @property
    def access(self) -> FileAccess:
        """The files that this turn may read and write."""
        ...

    def resolve(self, path: str) -> Path:
        """Return ``path`` as an absolute path, relative to ``cwd``. Existence and permission are not checked."""
        ...

    async def read_bytes(self, path: str) -> bytes:
        """Read a file.

        Raises:
            ToolError: It does not exist, is not a file, may not be read, or has more than 256 MiB.
        """
        ...

    async def read_text(self, path: str) -> str:
        """Read a file as UTF-8. Undecodable bytes become U+FFFD. Raises the same errors as :meth:`read_bytes`."""
        ...

    async def write_text(self, path: str, text: str) -> None:
        """Write a file atomically as UTF-8. Missing parent folders are created.

        Raises:
            ToolRefused: The turn's permissions do not allow writing it.
            ToolError: Writing failed.
        """
        ...

    async def run(self, command: CommandRequest | Sequence[str]) -> CommandResult:
        """Run a command through policy, approval and sandbox, and wait for its end.

        Raises:
            ToolRefused: Policy, reviewer, user or sandbox refused it.
            ToolError: It could not be started.
        """
        ...

    async def start(self, command: CommandRequest) -> RunningCommand:
        """Start a command in the same way, without waiting for its end. Raises the same errors as :meth:`run`."""
        ...

    async def retry(self, command: RunningCommand) -> RunningCommand | None:
        """Wait for the end of a started command. If the sandbox refused it, ask whether to start it again without the sandbox.

        :meth:`run` does this automatically.

        Returns:
            The second start. None if the sandbox did not refuse the command, the approval policy allows no question, or the
            user refused: the first result then counts.
        """
        ...

    async def approve_patch(self, patch: PatchRequest) -> ReviewDecision:
        """Request approval for file changes, according to the approval policy.

        Raises:
            ToolRefused: The changes are not approved. The text is for the model.
        """
        ...

    async def request_permissions(
        self, permissions: AdditionalPermissions, reason: str | None = None
    ) -> tuple[AdditionalPermissions, str]:
        """Request more permissions for the turn or the session. Granted permissions apply to all later calls.

        Returns:
            The granted permissions, which may be empty, and their duration: ``turn`` or ``session``.

        Raises:
            ToolRefused: Nobody may be asked, or the permission profile denies a part of the request.
        """
        ...

    def emit(self, event: EventMsg) -> None:
        """Send an event to the thread's clients."""
        ...

    def note_file_change(self, path: str, before: str | None, after: str | None) -> None:
        """Add a completed file change to the turn's diff.

        Args:
            path: Absolute.
            before: The file's previous text. None if it did not exist.
            after: Its current text. None if it no longer exists.
        """
        ...

    @property
    def turn(self) -> TurnContext:
        """The turn of the call."""
        ...

    def component(self, kind: type[T]) -> T:
        """Return the thread component of a class, as :meth:`ThreadContext.component` does."""
        ...

    async def part(self, kind: type[T]) -> T:
        """Return the thread component of a class once it is ready, as :meth:`ThreadContext.part` does."""
        ...

    async def request(self, request: Request[A]) -> A:
        """Ask the clients of the thread, and wait for the answer. The request ends with the turn."""
        ...

    def progress(self, text: str, *, done: float | None = None) -> None:
        """Report the progress of the call to clients.

        Args:
            done: The completed fraction, from 0 to 1, if known.
        """
        ...

    async def spawn(self, agent: Agent[Any], prompt: str | None = None, *, fork: int | None = 0) -> ThreadClient:
        """Start a child thread that ends with this call.

        Args:
            prompt: The child's first input. None starts no turn.
            fork: The number of turns of this thread's history that the child starts with. By default, the whole history.
        """
        ...

    def redact(self, text: str) -> str:
        """Return a text with its secrets removed by interceptors.

        Call it before you cut a text, because half of a secret is not recognised. :meth:`limit_text` does so, and the result of
        a tool is always redacted.
        """
        ...

    def limit_text(self, text: str, *, max_tokens: int | None = None) -> str:
        """Shorten text to the limit of the model's truncation policy (first half, marker, last half)."""
        ...
