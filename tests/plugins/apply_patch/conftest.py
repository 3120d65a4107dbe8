"""A place to patch in: a folder, the kernel's own context, and the tool."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from codex_framework.contract.errors import ToolError
from codex_framework.contract.permissions.file_access import FileAccess, NetworkMode
from codex_framework.contract.protocol.policies import ApprovalPolicy, Decision, ReviewDecision
from codex_framework.contract.roles.tools import ToolCall, ToolOutput
from codex_plugin_apply_patch.tool import ApplyPatch


@attrs.define
class Desk:
    """Applies patches in ``folder``."""

    folder: Path
    open_thread: Any
    access: FileAccess = attrs.field(factory=lambda: FileAccess(full=True, network=NetworkMode.ON))
    approval: ApprovalPolicy = ApprovalPolicy.NEVER
    answer: Decision = Decision.APPROVED
    asked: list[Any] = attrs.field(factory=list)
    events: list[Any] = attrs.field(factory=list)
    diff: str | None = None

    def confine(self, *, write: bool = True) -> None:
        """Let only the folder be written, and of that not ``.git``; or nothing."""
        folder = self.folder
        self.access = FileAccess.writing(folder, read_only=[folder / ".git"]) if write else FileAccess()

    def files(self, **texts: str | bytes) -> None:
        for name, text in texts.items():
            path = self.folder / name.replace("__", "/").replace("_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())

    def tree(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        }

    def output(self, arguments: str, *, kind: str = "custom") -> ToolOutput:
        return asyncio.run(self._output(arguments, kind))

    async def _output(self, arguments: str, kind: str) -> ToolOutput:
        async def ask(request: Any) -> ReviewDecision:
            self.asked.append(request)
            return ReviewDecision(self.answer)

        async with self.open_thread(approval=self.approval) as thread:
            caller = thread.context.caller
            facts = caller.turn.evolve(cwd=self.folder, access=self.access)
            context = thread.context.evolve(caller=caller.evolve(turn=facts, ask=ask, emit=self.events.append))
            try:
                return await ApplyPatch().run(ToolCall("call", "apply_patch", arguments, kind), context)
            finally:
                self.diff = context.diff.take()

    def apply(self, patch: str, **more: Any) -> str:
        """What the model reads."""
        try:
            return str(self.output(patch, **more).content)
        except ToolError as error:
            return str(error)

    def call(self, **arguments: Any) -> str:
        return self.apply(json.dumps(arguments), kind="function")


@pytest.fixture
def desk(tmp_path: Path, open_thread: Callable[..., Any]) -> Desk:
    folder = tmp_path / "work"
    folder.mkdir()
    return Desk(folder, open_thread)
