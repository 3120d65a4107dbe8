"""Patches in whole turns: the kernel, all bundled plugins, real shells and the sandbox."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from codex_framework import Kernel, hookimpl
from codex_framework.config import load_config
from codex_framework.contract.protocol.events import Event, EventMsg
from codex_framework.contract.protocol.events.command import (
    ExecCommandBeginEvent,
    PatchApplyBeginEvent,
    PatchApplyEndEvent,
    PatchApplyUpdatedEvent,
)
from codex_framework.contract.protocol.events.turn import TurnDiffEvent
from codex_framework.contract.protocol.items import CustomToolCallOutput, FunctionCallOutput
from codex_framework.contract.roles.models import ModelInfo
from codex_framework.contract.roles.tool_specs import FreeformSpec
from codex_framework.testing.model import ScriptedModel
from codex_framework.testing.replies import call, custom_call, local_shell, say
from codex_framework.testing.scripted import Reply

SUCCESS = "Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. Updated the following files:\n"


def patch(*lines: str) -> str:
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch", ""))


class Provider:
    def __init__(self, model: ScriptedModel) -> None:
        self._model = model

    @hookimpl
    def codex_model_providers(self) -> Any:
        return [self._model]


class Played:
    """A turn that was played in ``folder``."""

    def __init__(self, folder: Path, home: Path, sandbox: str, replies: list[Reply]) -> None:
        self.folder = folder
        models = {"known": ModelInfo(slug="known")}
        self.model = ScriptedModel([*replies, say("done")], models=models)
        self.events: list[EventMsg] = []
        environ = {"CODEX_HOME": str(home), "HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin"}
        overrides = (
            'model_provider="scripted"',
            'model="known"',
            f'sandbox_mode="{sandbox}"',
            'approval_policy="never"',
        )
        config = load_config(cwd=folder, environ=environ, overrides=overrides)
        asyncio.run(self._play(config, environ))

    async def _play(self, config: Any, environ: dict[str, str]) -> None:
        async with await Kernel.create(config, environ=environ, plugins=[Provider(self.model)]) as kernel:
            thread = await kernel.start_thread()
            async for event in thread.stream("go"):
                self.events.append(event.msg if isinstance(event, Event) else event)

    @property
    def outputs(self) -> list[Any]:
        items = self.model.requests[-1].prompt.items
        return [item.output for item in items if isinstance(item, (FunctionCallOutput, CustomToolCallOutput))]

    def of(self, *kinds: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kinds)]


@pytest.fixture
def play(tmp_path: Path, codex_home: Path) -> Any:
    folder = tmp_path / "work"
    folder.mkdir()

    def played(*replies: Reply, sandbox: str = "danger-full-access") -> Played:
        return Played(folder, codex_home, sandbox, list(replies))

    return played


def test_a_freeform_call_is_previewed_applied_and_shown(play: Any) -> None:
    turn = play(custom_call("apply_patch", patch("*** Add File: a/b.txt", "+hi"), deltas=4))
    assert turn.outputs == [f"{SUCCESS}A a/b.txt\n"]
    assert (turn.folder / "a/b.txt").read_text() == "hi\n"
    assert [event.success for event in turn.of(PatchApplyEndEvent)] == [True]
    assert turn.of(PatchApplyUpdatedEvent)
    assert "+++ b/a/b.txt\n" in turn.of(TurnDiffEvent)[-1].unified_diff
    offered = {spec.name: spec for spec in turn.model.requests[0].tools}
    assert isinstance(offered["apply_patch"], FreeformSpec)


def test_a_heredoc_in_a_command_is_a_patch_and_no_process(play: Any) -> None:
    script = f"apply_patch <<'EOF'\n{patch('*** Add File: a.txt', '+hi')}EOF\n"
    turn = play(call("exec_command", cmd=script), local_shell("bash", "-lc", script.replace("a.txt", "b.txt")))
    assert turn.outputs == [f"Wall time: 0.0000 seconds\nOutput:\n{SUCCESS}A a.txt\n", f"{SUCCESS}A b.txt\n"]
    assert [type(event) for event in turn.of(PatchApplyBeginEvent, ExecCommandBeginEvent)] == [PatchApplyBeginEvent] * 2
    kinds = [type(item) for item in turn.model.requests[-1].prompt.items]
    assert kinds.count(FunctionCallOutput) == 2


@pytest.mark.parametrize("sandbox", ["danger-full-access", "workspace-write"])
def test_the_command_is_there_in_shells(play: Any, sandbox: str) -> None:
    script = f"apply_patch '{patch('*** Add File: a.txt', '+hi')}' && cat a.txt; which apply_patch applypatch | wc -l"
    turn = play(call("exec_command", cmd=script, login=False), sandbox=sandbox)
    text = "Success. Updated the following files:\nA a.txt\nhi\n2\n"
    assert turn.outputs[0].partition("Output:\n")[2] == text
    assert len(turn.of(ExecCommandBeginEvent)) == 1


def test_a_patch_outside_of_the_workspace_is_refused_in_the_turn(play: Any, tmp_path: Path) -> None:
    outside = Path("/var/tmp") / f".never-made-{tmp_path.name}"  # a home may lie in /tmp, which can be written
    turn = play(custom_call("apply_patch", patch(f"*** Add File: {outside}", "+hi")), sandbox="workspace-write")
    assert turn.outputs == ["patch rejected: writing outside of the project; rejected by user approval settings"]
    assert not outside.exists()


def test_nothing_is_patched_read_only(play: Any) -> None:
    turn = play(custom_call("apply_patch", patch("*** Add File: a.txt", "+hi")), sandbox="read-only")
    assert turn.outputs == [
        "patch rejected: writing is blocked by read-only sandbox; rejected by user approval settings"
    ]
    assert list(turn.folder.iterdir()) == []
