"""The implementation of ``ToolContext``."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from codex_framework.commands.approval import (
    ApprovalCache,
    folder_to_grant,
    patch_paths,
    patch_requirement,
    policy_actor,
)
from codex_framework.commands.approval_prompts import ask_for_permissions
from codex_framework.commands.caller import Caller
from codex_framework.commands.runner import CommandRunner
from codex_framework.contract.errors import ToolError, ToolRefused, TurnEnded
from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.contract.permissions.links import home_expanded
from codex_framework.contract.protocol.environments import EnvironmentSelection
from codex_framework.contract.protocol.events import EventMsg, Request, ToolCallProgressEvent, WarningEvent
from codex_framework.contract.protocol.events.command import ApplyPatchApprovalRequestEvent
from codex_framework.contract.protocol.permissions import AbsolutePath, AccessMode, AdditionalPermissions, FileEntry
from codex_framework.contract.protocol.policies import Decision, ReviewDecision
from codex_framework.contract.roles.agents import Agent
from codex_framework.contract.roles.calls import ToolOutput
from codex_framework.contract.roles.commands import CommandRequest, CommandResult, RunningCommand
from codex_framework.contract.roles.environments import Environment, EnvironmentFiles
from codex_framework.contract.roles.models import ModelInfo
from codex_framework.contract.roles.provenance import Actor
from codex_framework.contract.roles.scopes import ServiceKey, Span
from codex_framework.contract.roles.threads import ThreadClient, TurnContext
from codex_framework.contract.roles.tools import PatchRequest
from codex_framework.contract.value import Value, field
from codex_framework.threads.faults import Label, refuse
from codex_framework.threads.plugin_view import Background, PluginState
from codex_framework.threads.turn.diff import TurnDiff
from codex_framework.threads.turn.turn_context import PluginTurn
from codex_framework.toolkit.files import Files, NotAFileError, NotPermittedError, refusal_text
from codex_framework.toolkit.os_errors import os_error_text
from codex_framework.toolkit.replacement import replace_file
from codex_framework.toolkit.selected_environments import NO_ENVIRONMENT, environment_for, environments_of
from codex_framework.toolkit.truncation import truncate

if TYPE_CHECKING:
    from codex_framework.commands.execution import Execution

__all__ = ["CallContext", "CallScope"]

A = TypeVar("A")
T = TypeVar("T")

_LARGEST = 1 << 28
"""The maximum size of a file that a tool can read, in bytes."""


class CallContext(Value, kw_only=True):
    """The context of one call. ``contract.roles.tools.ToolContext`` describes the members.

    Attributes:
        plugin: The plugin that offers the tool.
        turn_context: The plugin's context of the turn, if the call has one: a tool can be tested without.
        callers: Returns the caller in another environment of the turn.
        offered: The environments that are not this machine, by id.
        scope: The work that ends with the call.
    """

    thread_id: str
    model: ModelInfo
    caller: Caller
    commands: CommandRunner
    patches: ApprovalCache
    plugin_state: PluginState
    diff: TurnDiff
    plugin: str = ""
    turn_context: PluginTurn | None = None
    callers: Callable[[str, str], Caller] | None = None
    offered: Mapping[str, Environment] = field(factory=dict)
    scope: CallScope = field(factory=lambda: CallScope(), eq=False, repr=False)  # noqa: PLW0108  # defined below

    @property
    def call_id(self) -> str:
        """The model's id of the call."""
        return self.caller.call_id

    @property
    def turn_id(self) -> str:
        """The turn's id."""
        return self.caller.turn_id

    @property
    def cwd(self) -> Path:
        """The turn's working folder, absolute."""
        return self.caller.cwd

    @property
    def config(self) -> Mapping[str, Any]:
        """The merged ``config.toml`` as plain tables."""
        return self.caller.config

    @property
    def access(self) -> FileAccess:
        """The files that this turn may read and write."""
        return self.caller.access

    @property
    def environments(self) -> tuple[EnvironmentSelection, ...]:
        """The environments of the turn."""
        return environments_of(self.caller.turn)

    @property
    def shell(self) -> str | None:
        """The user's shell in the environment."""
        return self.caller.turn.shell if self._remote is not None else None

    @property
    def files(self) -> EnvironmentFiles | None:
        """The files of the environment, if it is not this machine."""
        return None if self._remote is None else self._remote.files(self.access, str(self.cwd))

    @property
    def _remote(self) -> Environment | None:
        return self.offered.get(self.caller.turn.environment_id)

    def at(self, environment_id: str) -> CallContext:
        """Return the context of the call in another environment of the turn. Raises ToolError."""
        environment_for(self, environment_id)
        if self.callers is None or environment_id == self.caller.turn.environment_id:
            return self
        return self.evolve(caller=self.callers(self.call_id, environment_id))

    @property
    def turn(self) -> TurnContext:
        """The turn of the call."""
        return self._turn()

    def component(self, kind: type[T]) -> T:
        """Return the thread component of a class."""
        return self._turn().thread.component(kind)

    async def part(self, kind: type[T]) -> T:
        """Return the thread component of a class once it is ready."""
        return await self._turn().thread.part(kind)

    def _turn(self) -> PluginTurn:
        if self.turn_context is None:
            raise TurnEnded(
                "this call does not belong to a turn", hint="Run the tool in a turn: `run_turn` of the testing kit."
            )
        return self.turn_context

    def resolve(self, path: str) -> Path:
        """Return the absolute path of ``path``."""
        if not isinstance(path, (str, os.PathLike)):
            refuse("a path as a string", path, "resolve")
        text = os.fspath(path)
        expanded = home_expanded(text) if self._remote is None else text
        return Path(os.path.normpath(self.caller.cwd / expanded))

    async def read_bytes(self, path: str) -> bytes:
        """Read a file."""
        target = self._target(path)
        if (files := self.files) is not None:
            return await access_remote("read", target, files.read(str(target), _LARGEST))
        try:
            content = Files(self.access).read(str(target), _LARGEST + 1)
        except NotPermittedError as error:
            raise self._refusal("reading", target, error) from None
        except NotAFileError:
            raise ToolError(f"unable to read {target}: it is not a regular file") from None
        except OSError as error:
            raise ToolError(f"unable to read {target}: {os_error_text(error)}") from error
        except ValueError as error:
            raise _no_path("read", target, error) from error
        if len(content) > _LARGEST:
            raise ToolError(
                f"unable to read {target}: it has more than {_LARGEST >> 20} MiB; read it in parts with a command"
            )
        return content

    def _target(self, path: str) -> Path:
        """Return the absolute path of a file to open. Raises ToolError if the turn has no environment."""
        if not self.environments:
            raise ToolError(NO_ENVIRONMENT)
        return self.resolve(path)

    async def read_text(self, path: str) -> str:
        """Read a file as UTF-8."""
        return (await self.read_bytes(path)).decode("utf-8", "replace")

    async def write_text(self, path: str, text: str) -> None:
        """Write a file as UTF-8, whole or not at all."""
        if not isinstance(text, str):
            refuse("a string as its text", text, "write_text")
        target = self._target(path)
        if (files := self.files) is not None:
            await access_remote("write", target, files.write(str(target), text.encode("utf-8", "replace")))
            return
        try:
            replace_file(target, text.encode("utf-8", "replace"), self.access)
        except NotPermittedError as error:
            raise self._refusal("writing", target, error) from None
        except OSError as error:
            raise ToolError(f"unable to write {target}: {os_error_text(error)}") from error
        except ValueError as error:
            raise _no_path("write", target, error) from error

    def _refusal(self, doing: str, target: Path, error: NotPermittedError) -> ToolRefused:
        refusal = ToolRefused(refusal_text(doing, target, error))
        self.caller.refused(Actor(role="permissions"), str(refusal))
        return refusal

    async def run(self, command: CommandRequest | Sequence[str]) -> CommandResult:
        """Run a command to its end."""
        return await self.commands.run(_as_request(command, "run"), self.caller)

    async def start(self, command: CommandRequest) -> RunningCommand:
        """Start a command."""
        execution = await self.commands.start(_as_request(command, "start"), self.caller)
        self.scope.executions[execution.running] = execution
        return execution.running

    async def retry(self, command: RunningCommand) -> RunningCommand | None:
        """Ask whether to start a command again without the sandbox that refused it."""
        execution = self.scope.executions.get(command)
        if execution is None:
            refuse("a command that this call has started", command, "retry")
        retried = await self.commands.retry(execution)
        return None if retried is None else retried.running

    async def approve_patch(self, patch: PatchRequest) -> ReviewDecision:
        """Ask whether these changes may be made."""
        policy = self.caller.approval_policy
        try:
            requirement = patch_requirement(policy, self.access, patch.changes)
        except ToolRefused as error:
            self.caller.refused(
                policy_actor(policy, ("the patch writes where the permissions do not allow it",)), str(error)
            )
            raise
        place = None if self._remote is None else self.caller.turn.environment_id
        keys = [("patch", path, self.access.may_write(Path(path)), place) for path in patch_paths(patch.changes)]
        if not requirement.ask:
            self.caller.decided("approved", "config")
            return ReviewDecision(Decision.APPROVED)
        if self.patches.covers(keys):
            self.caller.decided("approved_for_session", "user")
            return ReviewDecision(Decision.APPROVED)
        granted = patch.grant_root
        if granted is None and self._remote is None:
            granted = folder_to_grant(self.access, patch_paths(patch.changes))
        decision = await self.caller.ask(
            ApplyPatchApprovalRequestEvent(
                call_id=self.call_id,
                turn_id=self.turn_id,
                started_at_ms=int(time.time() * 1000),
                changes=patch.changes,
                reason=patch.reason or requirement.reason,
                grant_root=granted,
                environment_id=place,
                without_sandbox=requirement.unconfined,
            )
        )
        if not decision.approved:
            raise ToolRefused(decision.message or "patch rejected by user")
        lesser = [(kind, path, True, where) for kind, path, _, where in keys]  # True asks for less
        self.patches.remember((*keys, *lesser), decision)
        if granted is not None and decision.decision is Decision.APPROVED_FOR_SESSION:
            folder = FileEntry(AbsolutePath(granted), AccessMode.WRITE)
            self.caller.grant(AdditionalPermissions((folder,)), True)  # noqa: FBT003  # for the session
        return decision

    async def request_permissions(
        self, permissions: AdditionalPermissions, reason: str | None = None
    ) -> tuple[AdditionalPermissions, str]:
        """Ask for more permissions."""
        return await ask_for_permissions(permissions, reason, self.caller)

    def emit(self, event: EventMsg) -> None:
        """Send an event to the thread's clients."""
        if not isinstance(event, EventMsg):
            refuse("an EventMsg", event, "emit")
        self.caller.emit(event)

    def progress(self, text: str, *, done: float | None = None) -> None:
        """Report the progress of the call to clients."""
        if not isinstance(text, str):
            refuse("a string", text, "progress")
        self.caller.emit(ToolCallProgressEvent(call_id=self.call_id, text=text, done=done))

    async def request(self, request: Request[A]) -> A:
        """Ask the clients of the thread."""
        return await self._turn().request(request)

    def service(self, key: ServiceKey[T]) -> T:
        """Return a service."""
        return self._turn().service(key)

    def background(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Run a coroutine beside the call."""
        self.scope.start(work, name, self)

    def span(self, name: str, **attributes: str | float | bool) -> AbstractContextManager[Span]:
        """Measure a block as a part of the call."""
        return self._turn().span(name, **attributes)

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | str, *, call_id: str | None = None
    ) -> ToolOutput:
        """Call another tool of the turn."""
        return await self._turn().call_within(self.call_id, name, arguments, call_id)

    async def spawn(self, agent: Agent[Any], prompt: str | None = None, *, fork: int | None = 0) -> ThreadClient:
        """Start a child thread that ends with this call."""
        child = await self._turn().spawn(agent, prompt, fork=fork)
        self.scope.children.append(child)
        return child

    def note_file_change(self, path: str, before: str | None, after: str | None) -> None:
        """Add a change to the turn's diff."""
        self.diff.note(path, before, after)

    def state(self, key: object, factory: Callable[[], T]) -> T:
        """Return the plugin's own object for this thread."""
        return self.plugin_state.get(key, factory, self.plugin)

    def redact(self, text: str) -> str:
        """Return a text without what interceptors keep secret."""
        return text if self.caller.redact is None else self.caller.redact(text)

    def limit_text(self, text: str, *, max_tokens: int | None = None) -> str:
        """Shorten text to the model's limit."""
        return truncate(self.redact(text), self.model.truncation, max_tokens=max_tokens)


def _no_path(doing: str, target: Path, error: ValueError) -> ToolError:
    """Return the error for a text that no system takes for a path."""
    what = "half of a character" if isinstance(error, UnicodeError) else "a NUL character"
    return ToolError(f"unable to {doing} {str(target)!a}: the path contains {what}")


def _as_request(command: CommandRequest | Sequence[str], method: str) -> CommandRequest:
    """Return a command as a request.

    Raises:
        WrongValue: It is neither a request nor a list of words.
    """
    if isinstance(command, CommandRequest):
        return command
    if isinstance(command, str) or not isinstance(command, Sequence):
        refuse('a list of words, such as ["git", "status"], or a CommandRequest', command, method)
    for word in command:
        if not isinstance(word, str):
            refuse("a list of words, each a string", word, method)
    return CommandRequest(argv=tuple(command))


async def access_remote(doing: str, target: Path, work: Coroutine[Any, Any, T]) -> T:
    """Await work with a file of another environment.

    Raises:
        ToolRefused: It is not permitted.
        ToolError: It has failed.
    """
    try:
        return await work
    except PermissionError:
        raise ToolRefused(f"{doing.removesuffix('e')}ing {target} is not permitted") from None
    except OSError as error:
        raise ToolError(f"unable to {doing} {target}: {os_error_text(error)}") from error


class CallScope:
    """Work that ends with a call: background coroutines of the tool, and child threads. Also the commands that it started."""

    def __init__(self) -> None:
        self.children: list[ThreadClient] = []
        self.executions: dict[RunningCommand, Execution] = {}
        self._background: Background | None = None

    def start(self, work: Coroutine[Any, Any, None], name: str, context: CallContext) -> None:
        """Run a coroutine until the call ends."""
        if self._background is None:
            self._background = Background(lambda text: context.caller.emit(WarningEvent(text, slug="plugin-failed")))
        self._background.start(work, Label("background work", name, context.plugin))

    @property
    def empty(self) -> bool:
        """Whether there is no such work."""
        return self._background is None and not self.children

    async def aclose(self) -> None:
        """End all of this work."""
        if self._background is not None:
            await self._background.aclose()
        for child in self.children:
            await child.shutdown()
