"""A command that the sandbox refused, run again without the sandbox if the user approves. In the real sandbox."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from codex_framework import Decision, ReviewDecision
from codex_framework.contract.protocol.events import BackgroundEvent
from codex_framework.contract.protocol.events.command import (
    ExecApprovalRequestEvent,
    ExecCommandBeginEvent,
    ExecCommandEndEvent,
)
from codex_framework.contract.protocol.items import FunctionCallOutput
from codex_framework.contract.protocol.ops import ExecApproval
from codex_framework.contract.protocol.policies import ApprovalPolicy, GranularApproval
from codex_framework.testing import KernelFactory, call, say
from codex_plugin_landlock.sandbox import LandlockSandbox

pytestmark = pytest.mark.skipif(
    not (sys.platform == "linux" and LandlockSandbox().probe().available), reason="no sandbox here"
)

QUESTION = "command failed; retry without sandbox?"
CONFIG = 'sandbox_mode = "workspace-write"\nsandbox_workspace_write.exclude_slash_tmp = true\n'
ASKING = [ApprovalPolicy.ON_FAILURE, GranularApproval(True, False, False)]
SILENT = [ApprovalPolicy.NEVER, ApprovalPolicy.ON_REQUEST, GranularApproval(False, True, True)]

YES, NO = ReviewDecision(Decision.APPROVED), ReviewDecision(Decision.DENIED)
FOR_SESSION, ABORT = ReviewDecision(Decision.APPROVED_FOR_SESSION), ReviewDecision(Decision.ABORT)


class Turns:
    """Turns whose commands write outside of the workspace, with every question answered by the test."""

    def __init__(self, make_kernel: KernelFactory, outside: Path) -> None:
        self._make_kernel = make_kernel
        self.outside = outside
        self.events: list[Any] = []

    @property
    def asked(self) -> list[ExecApprovalRequestEvent]:
        return [event for event in self.events if isinstance(event, ExecApprovalRequestEvent)]

    @property
    def told(self) -> list[str]:
        return [event.message for event in self.events if isinstance(event, BackgroundEvent)]

    def run(
        self,
        policy: Any,
        scripts: Sequence[str],
        answer: Callable[[ExecApprovalRequestEvent], ReviewDecision] = lambda event: YES,
        *,
        config: str = CONFIG,
        **arguments: Any,
    ) -> list[str]:
        """Run scripts in one thread, a turn for each. Return what the model got."""

        async def main() -> list[str]:
            replies = []
            for script in scripts:
                replies += [call("exec_command", cmd=script, login=False, **arguments), say("done")]
            async with self._make_kernel(replies, config=config) as kernel:
                thread = await kernel.start_thread(approval_policy=policy)
                for _ in scripts:
                    async for event in thread.stream("go"):
                        self.events.append(event)
                        if isinstance(event, ExecApprovalRequestEvent):
                            answered = ExecApproval(event.approval_id or event.call_id, answer(event))
                            await thread.submit(answered)
                items = thread.history.items
                return [str(item.output) for item in items if isinstance(item, FunctionCallOutput)]

        return asyncio.run(main())


@pytest.fixture
def turns(make_kernel: KernelFactory, tmp_path: Path) -> Turns:
    outside = tmp_path / "outside"
    outside.mkdir()
    return Turns(make_kernel, outside)


@pytest.mark.parametrize("policy", ASKING, ids=["on-failure", "granular"])
def test_a_refused_write_is_done_after_an_approval(turns: Turns, policy: Any) -> None:
    file = turns.outside / "file"
    (output,) = turns.run(policy, [f"echo a > {file} && echo written"])
    assert file.read_text() == "a\n"
    assert "Process exited with code 0" in output
    assert output.endswith("Output:\nwritten\n")
    assert [(event.reason, event.without_sandbox) for event in turns.asked] == [(QUESTION, True)]
    failed, retrying = turns.told
    assert failed.startswith("Execution failed: the sandbox refused access (exit code ")
    assert retrying == "retrying command without sandbox"
    shown = [type(event) for event in turns.events if isinstance(event, (ExecCommandBeginEvent, ExecCommandEndEvent))]
    assert shown == [ExecCommandBeginEvent, ExecCommandEndEvent] * 2


@pytest.mark.parametrize("policy", SILENT, ids=["never", "on-request", "granular"])
def test_where_nobody_may_be_asked_the_refusal_stands(turns: Turns, policy: Any) -> None:
    file = turns.outside / "file"
    (output,) = turns.run(policy, [f"echo a > {file}"])
    assert not file.exists()
    assert "Permission denied" in output or "Read-only file system" in output
    assert (turns.asked, turns.told) == ([], [])


@pytest.mark.parametrize("answer", [NO, ABORT], ids=["denied", "abort"])
def test_without_an_approval_nothing_runs_outside_the_sandbox(turns: Turns, answer: ReviewDecision) -> None:
    file = turns.outside / "file"
    outputs = turns.run(ApprovalPolicy.ON_FAILURE, [f"echo a > {file}"], lambda event: answer)
    assert not file.exists()
    assert len(turns.asked) == 1
    assert len(turns.told) == 1
    if answer == NO:  # the model gets what the first run printed
        assert "Process exited with code 0" not in outputs[0]
        assert "Output:\n" in outputs[0]


def test_who_approved_the_command_in_the_sandbox_is_asked_again(turns: Turns) -> None:
    file = turns.outside / "file"

    def confined_only(event: ExecApprovalRequestEvent) -> ReviewDecision:
        return NO if event.without_sandbox else FOR_SESSION

    turns.run(ApprovalPolicy.UNTRUSTED, [f"echo a > {file}"] * 2, confined_only)
    assert not file.exists()
    assert [event.without_sandbox for event in turns.asked] == [False, True, True]


def test_an_approval_for_the_session_covers_the_same_retry_only(turns: Turns) -> None:
    first, second = (f"echo a >> {turns.outside / name}" for name in ("first", "second"))
    turns.run(ApprovalPolicy.ON_FAILURE, [first, first, second], lambda event: FOR_SESSION)
    assert len(turns.asked) == 2
    assert (turns.outside / "first").read_text() == "a\na\n"


@pytest.mark.parametrize(
    "script",
    ["exit 3", "echo Permission denied", "echo Permission denied >&2; sleep 0.1", "cat missing"],
)
def test_only_a_failure_that_looks_like_a_refusal_is_asked_about(turns: Turns, script: str) -> None:
    turns.run(ApprovalPolicy.ON_FAILURE, [script])
    assert (turns.asked, turns.told) == ([], [])


def test_a_command_that_runs_without_a_sandbox_anyway_is_not_run_again(turns: Turns) -> None:
    full = 'sandbox_mode = "danger-full-access"\n'
    turns.run(ApprovalPolicy.ON_FAILURE, ["echo Permission denied; exit 1"], config=full)
    assert (turns.asked, turns.told) == ([], [])


def test_what_a_profile_denies_stays_denied(turns: Turns, workspace: Path) -> None:
    (workspace / "secret").write_text("s3cret")
    profile = {":root": "read", ":workspace_roots": {".": "write", "secret": "deny"}}
    config = f'default_permissions = "p"\npermissions.p.filesystem = {_inline(profile)}\n'
    outputs = turns.run(ApprovalPolicy.ON_FAILURE, ["cat secret", f"echo a > {turns.outside / 'file'}"], config=config)
    assert turns.asked == []
    assert "s3cret" not in outputs[0]
    assert not (turns.outside / "file").exists()


def test_a_command_that_outlives_its_yield_time_is_not_run_again(turns: Turns) -> None:
    script = f"sleep 1; echo a > {turns.outside / 'file'}"
    (output,) = turns.run(ApprovalPolicy.ON_FAILURE, [script], yield_time_ms=250)
    assert "Process running with session ID" in output
    assert turns.asked == []


def test_a_retry_may_outlive_its_yield_time_too(turns: Turns) -> None:
    file = turns.outside / "file"
    (output,) = turns.run(ApprovalPolicy.ON_FAILURE, [f"echo a > {file} || exit 1; sleep 60"], yield_time_ms=2000)
    assert file.exists()
    assert "Process running with session ID" in output


def _inline(table: dict[str, Any]) -> str:
    parts = (
        f"{json.dumps(key)} = {_inline(value) if isinstance(value, dict) else json.dumps(value)}"
        for key, value in table.items()
    )
    return f"{{ {', '.join(parts)} }}"
