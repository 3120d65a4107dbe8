"""What a tool gets for one call (the implementation of ``roles.tools.ToolContext``)."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from codex_framework.approval import ApprovalCache, folder_to_grant, patch_paths, patch_requirement
from codex_framework.commands import CallFacts, CommandPath
from codex_framework.errors import ToolError, ToolRefused
from codex_framework.protocol.events import EventMsg
from codex_framework.protocol.events.command import ApplyPatchApprovalRequestEvent
from codex_framework.protocol.permissions import AbsolutePath, AccessMode, AdditionalPermissions, FileEntry
from codex_framework.protocol.policies import Decision, ReviewDecision
from codex_framework.questions import requested
from codex_framework.replacement import NotPermittedError, replace_file
from codex_framework.roles.providers import ModelInfo
from codex_framework.roles.sandboxes import FileAccess
from codex_framework.roles.tools import CommandRequest, CommandResult, PatchRequest, RunningCommand
from codex_framework.truncation import truncate
from codex_framework.turn_diff import TurnDiff
from codex_framework.value import Value

__all__ = ["CallContext", "ThreadStash"]

T = TypeVar("T")


class ThreadStash:
    """Plugins' own objects for one thread, by key."""

    def __init__(self) -> None:
        self._objects: dict[object, Any] = {}

    def get(self, key: object, factory: Callable[[], T]) -> T:
        """The object under ``key``, made at first use."""
        if key not in self._objects:
            self._objects[key] = factory()
        found: T = self._objects[key]
        return found

    async def aclose(self) -> list[str]:
        """Close what can be closed; returns what went wrong, for people."""
        problems = []
        for key, kept in self._objects.items():
            close = getattr(kept, "aclose", None)
            if close is None:
                continue
            try:
                await close()
            except Exception as error:  # a plugin's object may fail in any way; the others must still be closed
                problems.append(f"closing {key!r} failed: {type(error).__name__}: {error}")
        self._objects.clear()
        return problems


class CallContext(Value, kw_only=True):
    """One call's view of its turn. See ``roles.tools.ToolContext`` for what each member means."""

    thread_id: str
    model: ModelInfo
    facts: CallFacts
    commands: CommandPath
    patches: ApprovalCache
    stash: ThreadStash
    diff: TurnDiff

    @property
    def call_id(self) -> str:
        """The model's id of the call."""
        return self.facts.call_id

    @property
    def turn_id(self) -> str:
        """The turn's id."""
        return self.facts.turn_id

    @property
    def cwd(self) -> Path:
        """The turn's working folder, absolute."""
        return self.facts.cwd

    @property
    def config(self) -> Mapping[str, Any]:
        """The merged ``config.toml`` as plain tables."""
        return self.facts.config

    @property
    def access(self) -> FileAccess:
        """Which files this turn may read and write."""
        return self.facts.access

    def resolve(self, path: str) -> Path:
        """The absolute path of ``path``."""
        return Path(os.path.normpath(self.facts.cwd / Path(path).expanduser()))

    async def read_bytes(self, path: str) -> bytes:
        """Read a file."""
        target = self.resolve(path)
        if not self.access.may_read(target):
            raise ToolRefused(f"reading {target} is not permitted")
        try:
            if not stat.S_ISREG(target.stat().st_mode) and not target.is_dir():
                raise ToolError(f"unable to read {target}: it is not a regular file")  # a pipe would hold up everything
            return target.read_bytes()
        except OSError as error:
            raise ToolError(f"unable to read {target}: {error.strerror} (os error {error.errno})") from error

    async def read_text(self, path: str) -> str:
        """Read a file as UTF-8."""
        return (await self.read_bytes(path)).decode("utf-8", "replace")

    async def write_text(self, path: str, text: str) -> None:
        """Write a file as UTF-8, whole or not at all."""
        target = self.resolve(path)
        try:
            replace_file(target, text.encode("utf-8", "replace"), self.access.may_write)
        except NotPermittedError:
            raise ToolRefused(f"writing {target} is not permitted") from None
        except OSError as error:
            raise ToolError(f"unable to write {target}: {error.strerror} (os error {error.errno})") from error

    async def run(self, command: CommandRequest | Sequence[str]) -> CommandResult:
        """Run a command to its end."""
        request = command if isinstance(command, CommandRequest) else CommandRequest(argv=tuple(command))
        return await self.commands.run(request, self.facts)

    async def start(self, command: CommandRequest) -> RunningCommand:
        """Start a command."""
        return await self.commands.start(command, self.facts)

    async def approve_patch(self, patch: PatchRequest) -> ReviewDecision:
        """Ask whether these changes may be made."""
        requirement = patch_requirement(self.facts.approval_policy, self.access, patch.changes)
        keys = [("patch", path) for path in patch_paths(patch.changes)]
        if not requirement.ask or self.patches.covers(keys):
            return ReviewDecision(Decision.APPROVED)
        granted = patch.grant_root or folder_to_grant(self.access, patch_paths(patch.changes))
        decision = await self.facts.ask(
            ApplyPatchApprovalRequestEvent(
                call_id=self.call_id,
                turn_id=self.turn_id,
                started_at_ms=int(time.time() * 1000),
                changes=patch.changes,
                reason=patch.reason or requirement.reason,
                grant_root=granted,
            )
        )
        if not decision.approved:
            raise ToolRefused(decision.message or "patch rejected by user")
        self.patches.remember(keys, decision)
        if granted is not None and decision.decision is Decision.APPROVED_FOR_SESSION:
            folder = FileEntry(AbsolutePath(granted), AccessMode.WRITE)
            self.facts.grant(AdditionalPermissions((folder,)), True)  # noqa: FBT003  # for the session
        return decision

    async def request_permissions(
        self, permissions: AdditionalPermissions, reason: str | None = None
    ) -> tuple[AdditionalPermissions, str]:
        """Ask for more permissions."""
        return await requested(permissions, reason, self.facts)

    def emit(self, event: EventMsg) -> None:
        """Tell the thread's clients something."""
        self.facts.emit(event)

    def note_file_change(self, path: str, before: str | None, after: str | None) -> None:
        """Add a change to the turn's diff."""
        self.diff.note(path, before, after)

    def state(self, key: object, factory: Callable[[], T]) -> T:
        """The plugin's own object for this thread."""
        return self.stash.get(key, factory)

    def limit_text(self, text: str, *, max_tokens: int | None = None) -> str:
        """Shorten text to what the model may get."""
        return truncate(text, self.model.truncation, max_tokens=max_tokens)
