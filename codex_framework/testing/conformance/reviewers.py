"""The check of approval reviewers: valid decisions, many concurrent reviews, and no accidental approval."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from codex_framework.contract.errors import ThreadError
from codex_framework.contract.permissions.file_access import FileAccess, NetworkMode
from codex_framework.contract.permissions.profile import permissions_of
from codex_framework.contract.protocol.events.command import (
    AddFile,
    ApplyPatchApprovalRequestEvent,
    DeleteFile,
    ExecApprovalRequestEvent,
    UpdateFile,
)
from codex_framework.contract.protocol.items import (
    CustomToolCall,
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    LocalShellCall,
    Message,
    OutputText,
    Reasoning,
    ResponseItem,
    UnknownItem,
    user_message,
)
from codex_framework.contract.protocol.policies import ApprovalPolicy, GranularApproval, ReviewDecision, WorkspaceWrite
from codex_framework.contract.roles.reviewers import ApprovalReviewer
from codex_framework.testing.conformance.findings import Findings, Unmet, run_check
from codex_framework.testing.facts import turn_facts
from codex_framework.testing.turns import LoneTurn

__all__ = ["check_reviewer"]

T = TypeVar("T")

_WITHIN_S = 10.0
_AT_ONCE = 8

_ODD = "\x1b[31m\u202e\u2028>>> \ud800\x00`$(id)\n{}"

_REQUESTS: tuple[ExecApprovalRequestEvent | ApplyPatchApprovalRequestEvent, ...] = (
    ExecApprovalRequestEvent(
        call_id="call-1",
        turn_id="turn-1",
        command=("bash", "-lc", "git push"),
        cwd="/work",
        started_at_ms=1,
        reason="to publish it",
    ),
    ExecApprovalRequestEvent(call_id="call-2", turn_id="turn-1", command=(), cwd="", started_at_ms=0),
    ExecApprovalRequestEvent(
        call_id="call-3", turn_id="turn-2", command=("echo", _ODD, "x" * 500_000), cwd="/work", started_at_ms=1
    ),
    ExecApprovalRequestEvent(
        call_id="call-4",
        turn_id="turn-2",
        command=("network-access", "https://example.com:443"),
        cwd="/work",
        started_at_ms=1,
        network_approval_context={"host": "example.com", "protocol": "https"},
    ),
    ApplyPatchApprovalRequestEvent(
        call_id="call-5",
        turn_id="turn-3",
        started_at_ms=1,
        changes={
            "/etc/a": AddFile("a\n"),
            "/etc/b": DeleteFile(_ODD),
            "/etc/c": UpdateFile("@@ -1 +1 @@\n-a\n+b\n", "/etc/d"),
        },
        grant_root="/etc",
    ),
    ApplyPatchApprovalRequestEvent(call_id="call-6", turn_id="turn-3", started_at_ms=1, changes={}),
)
"""Typical, empty, long and unusual requests."""

_HISTORY: tuple[ResponseItem, ...] = (
    user_message("<rules>Be kind.</rules>", role="developer"),
    user_message("Publish it."),
    Reasoning(summary=({"type": "summary_text", "text": "Hm"},)),
    Message("assistant", (OutputText("I will."),)),
    FunctionCall("exec_command", "{not json", "call-0"),
    FunctionCallOutput("call-0", _ODD),
    CustomToolCall("apply_patch", "*** Begin", "call-0b"),
    LocalShellCall({"type": "exec", "command": ["ls"]}),
    FunctionCallOutput("of no call", (InputImage("data:image/png;base64,"),)),
    UnknownItem({"type": "something_new", "deep": {"er": [1, None]}}),
    Message("user", ()),
)


def check_reviewer(reviewer: ApprovalReviewer, *, config: Mapping[str, Any] | None = None) -> None:
    """Check that an approval reviewer fulfils its role.

    It is asked about commands, a host and patches, under several policies. The model of its child threads approves, answers
    nonsense,
    fails or never answers.

    Args:
        reviewer: The reviewer.
        config: The configuration; by default an empty one.

    Raises:
        ContractViolation: It does not; every violation is listed.
    """
    findings = Findings("approval reviewer", reviewer)
    if findings.check_members(reviewer, ApprovalReviewer):
        findings.require_name(reviewer)
        run_check(findings, lambda: _Check(findings, reviewer, config or {}).run())
    findings.raise_any()


class _Model:
    """A model with one kind of answer, which counts its unfinished requests."""

    def __init__(self, answer: str | Exception | None) -> None:
        self.answer = answer
        self.asked = 0
        self.waiting = 0

    async def __call__(self, prompt: str) -> str:
        if not isinstance(prompt, str):
            raise TypeError("the prompt must be a text")
        self.asked += 1
        self.waiting += 1
        try:
            await asyncio.sleep(0 if self.answer is not None else 3600)
        finally:
            self.waiting -= 1
        if isinstance(self.answer, Exception):
            raise self.answer
        assert self.answer is not None
        return self.answer


class _Check:
    def __init__(self, findings: Findings, reviewer: ApprovalReviewer, config: Mapping[str, Any]) -> None:
        self._findings = findings
        self._reviewer = reviewer
        self._config = config
        self._threads = 0
        self._turns: list[LoneTurn] = []

    async def run(self) -> None:
        """Run all steps in order."""
        policies: tuple[ApprovalPolicy | GranularApproval, ...] = (
            ApprovalPolicy.ON_REQUEST,
            ApprovalPolicy.UNTRUSTED,
            GranularApproval(sandbox_approval=True, rules=True, mcp_elicitations=True),
        )
        for policy in policies:
            await self._ask_all(_Model("yes"), policy, "with a model that says 'yes'")
        for what, answer in (
            ("says nothing of use", "\x00{["),
            ("fails", ThreadError("the model is down")),
            ("breaks its contract", RuntimeError("a defect")),
        ):
            await self._ask_all(_Model(answer), ApprovalPolicy.ON_REQUEST, f"with a model that {what}", unsure=True)
        await self._ask_at_once()
        await self._cancel()
        for child in (child for turn in self._turns for child in turn.thread.children):
            self._findings.require(
                child.closed, "a review leaves a child thread running: shut it down, also when cancelled"
            )

    async def _ask_all(
        self, model: _Model, policy: ApprovalPolicy | GranularApproval, when: str, *, unsure: bool = False
    ) -> None:
        for request in _REQUESTS:
            before = model.asked
            what = f"review({request.type}, {request.call_id}) {when}"
            try:
                decision = await self._findings.wait_for(
                    what, self._reviewer.review(request, self._turn(model, policy)), within_s=_WITHIN_S
                )
            except Unmet:
                continue
            self._judge(what, decision)
            if unsure and model.asked > before and isinstance(decision, ReviewDecision):
                self._findings.require(not decision.approved, f"{what} approves, although it got no answer")

    def _judge(self, what: str, decision: object) -> None:
        if decision is None:
            return
        if not isinstance(decision, ReviewDecision):
            self._findings.note(f"{what} returns {type(decision).__name__}, not a ReviewDecision or None")
            return
        message = decision.message
        self._findings.require(
            message is None or (isinstance(message, str) and message), f"{what} gives the message {message!r}"
        )

    async def _ask_at_once(self) -> None:
        model = _Model("yes")
        facts = self._turn(model, ApprovalPolicy.ON_REQUEST)
        reviews = asyncio.gather(*(self._reviewer.review(_REQUESTS[0], facts) for _ in range(_AT_ONCE)))
        what = f"{_AT_ONCE} reviews at once"
        for decision in await self._findings.wait_for(what, reviews, within_s=_WITHIN_S):
            self._judge(what, decision)

    async def _cancel(self) -> None:
        model = _Model(None)
        tasks_before = asyncio.all_tasks()
        task = asyncio.ensure_future(self._reviewer.review(_REQUESTS[0], self._turn(model, ApprovalPolicy.ON_REQUEST)))
        await asyncio.sleep(0.1)
        await self._findings.cancel("a review", task)
        await asyncio.sleep(0)
        self._findings.require(model.waiting == 0, "a review that was cancelled leaves its child asking the model")
        self._findings.require(
            not {left for left in asyncio.all_tasks() - tasks_before - {task} if not left.done()},
            "a review that was cancelled leaves tasks behind",
        )

    def _turn(self, model: _Model, policy: ApprovalPolicy | GranularApproval) -> Any:
        self._threads += 1
        facts = turn_facts(
            thread_id=f"thread-{self._threads}",
            cwd=Path("/work"),
            approval_policy=policy,
            permissions=permissions_of(WorkspaceWrite()),
            access=FileAccess.writing(Path("/work"), network=NetworkMode.OFF),
            config=self._config,
            codex_home=Path("/no such folder"),
        )
        turn = LoneTurn(facts, history=_HISTORY, reply=model)
        self._turns.append(turn)
        return turn
