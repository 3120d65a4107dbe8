"""What people are asked about commands, and how their answers are kept."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from codex_framework import (
    AccessMode,
    CommandRequest,
    CommandVerdict,
    FileAccess,
    NetworkMode,
    ToolCall,
    ToolContext,
    ToolOutput,
    Verdict,
)
from codex_framework.commands.approval import ApprovalCache
from codex_framework.commands.approval_prompts import ApprovalPrompts
from codex_framework.contract.permissions.profile import additional_from_wire
from codex_framework.contract.protocol.events.command import (
    ExecApprovalRequestEvent,
    ExecCommandBeginEvent,
)
from codex_framework.contract.protocol.items import FunctionCallOutput
from codex_framework.contract.protocol.ops import ExecApproval
from codex_framework.contract.protocol.policies import ApprovalPolicy, Decision, GranularApproval, ReviewDecision
from codex_framework.contract.protocol.wire import to_wire
from codex_framework.testing import call_context
from codex_framework.testing.replies import call, say

from .conftest import ASKS, FOR_SESSION, NO, WORKSPACE, YES, Box, Keeper, Played, Shell

NO_RULES = "approval required by policy rule, but AskForApproval::Granular.rules is false"
NO_SANDBOX = "approval required by policy, but AskForApproval::Granular.sandbox_approval is false"


def test_the_question_offers_the_prefix_that_could_be_allowed(played: Played) -> None:
    keeper = Keeper(ASKS)
    assert played.play(Shell("echo", "a"), policies=[keeper]) == ["0 a\n"]
    (event,) = played.asked
    assert event.proposed_execpolicy_amendment == ("echo",)
    assert event.reason == "hm"
    amendment = {"approved_execpolicy_amendment": {"proposed_execpolicy_amendment": ["echo"]}}
    assert event.available_decisions == ("approved", "approved_for_session", amendment, "denied", "abort")
    assert keeper.prefixes == []


class WithVariables(Shell):
    """Each call sets other variables."""

    def __init__(self, *variables: Mapping[str, str]) -> None:
        super().__init__("printenv", "A")
        self._variables = list(variables)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        result = await context.run(self._request.evolve(env=self._variables.pop(0)))
        return ToolOutput(result.output)


def test_the_variables_of_a_call_are_shown_and_an_approval_holds_for_them_only(played: Played) -> None:
    tool = WithVariables({"A": "x y"}, {"A": "x y"}, {"A": "z"}, {"A": "z", "LIB": "e.so", "PAGER": "cat"})
    outputs = played.play(tool, lambda event: FOR_SESSION, turns=4, policies=[Keeper(ASKS)])
    assert outputs == ["x y\n", "x y\n", "z\n", "z\n"]
    shown = [("env", "A=x y", "printenv", "A"), ("env", "A=z", "printenv", "A")]
    shown.append(("env", "A=z", "LIB=e.so", "printenv", "A"))
    assert [event.command for event in played.asked] == shown
    assert played.asked[0].parsed_cmd == ({"type": "unknown", "cmd": "env 'A=x y' printenv A"},)
    begun = [event.command for event in played.events if isinstance(event, ExecCommandBeginEvent)]
    assert begun == [shown[0], *shown]


@pytest.mark.parametrize(
    ("variables", "shown"), [({}, "echo a | cat"), ({"A": "b"}, "env A=b sh -c 'echo a | cat'")], ids=["none", "one"]
)
def test_a_script_is_shown_as_it_is_unless_the_call_sets_variables(
    played: Played, variables: dict[str, str], shown: str
) -> None:
    played.play(Shell("sh", "-c", "echo a | cat", script="echo a | cat", env=variables), policies=[Keeper(ASKS)])
    assert [event.parsed_cmd for event in played.asked] == [({"type": "unknown", "cmd": shown},)]


def test_an_accepted_prefix_is_kept_and_not_asked_about_again(played: Played) -> None:
    keeper = Keeper(ASKS)
    accepted = ReviewDecision(Decision.APPROVED, execpolicy_amendment=("echo",))
    assert played.play(Shell("echo", "a"), lambda event: accepted, turns=3, policies=[keeper]) == ["0 a\n"] * 3
    assert len(played.asked) == 1
    assert keeper.prefixes == [("echo",)]
    assert played.notes == ["kept echo"]


def test_a_prefix_that_cannot_be_kept_holds_for_once_and_the_model_hears_of_it(played: Played) -> None:
    accepted = ReviewDecision(Decision.APPROVED, execpolicy_amendment=("echo",))
    keeper = Keeper(ASKS, broken=True)
    assert played.play(Shell("echo", "a"), lambda event: accepted, turns=2, policies=[keeper]) == ["0 a\n"] * 2
    assert len(played.asked) == 2
    assert played.notes == ["The rule could not be saved, so it applies only once: the disk is full"] * 2


@pytest.mark.parametrize(
    ("granular", "by_rule", "refusal"),
    [
        (GranularApproval(True, False, True), True, NO_RULES),
        (GranularApproval(True, False, True), False, None),
        (GranularApproval(False, True, True), True, None),
        (GranularApproval(False, True, True), False, NO_SANDBOX),
    ],
)
def test_granular_approval_tells_rules_from_judgement(
    played: Played, granular: GranularApproval, by_rule: bool, refusal: str | None
) -> None:
    verdict = CommandVerdict(verdict=Verdict.ASK, by_rule=by_rule)
    outputs = played.play(Shell("echo", "a"), policy=granular, policies=[Keeper(verdict)])
    assert outputs == [refusal or "0 a\n"]
    assert len(played.asked) == (refusal is None)


def test_a_refused_sandbox_is_lifted_only_where_the_policy_lets_one_ask(played: Played) -> None:
    fails = Shell("sh", "-c", 'test -z "$CONFINED" || { echo Permission denied >&2; exit 1; }; echo free')
    assert played.play(fails, policy=ApprovalPolicy.ON_FAILURE) == ["0 free\n"]
    assert [event.reason for event in played.asked] == ["command failed; retry without sandbox?"]
    assert played.play(fails, policy=ApprovalPolicy.ON_REQUEST) == ["1 Permission denied\n"]
    assert played.play(fails, policy=ApprovalPolicy.NEVER) == ["1 Permission denied\n"]
    assert played.play(fails, policy=GranularApproval(False, True, True)) == ["1 Permission denied\n"]
    assert len(played.asked) == 1
    assert played.play(fails, lambda event: NO, policy=ApprovalPolicy.ON_FAILURE) == ["1 Permission denied\n"]


def test_a_command_that_took_too_long_is_not_run_again_without_the_sandbox(played: Played) -> None:
    slow = Shell("sh", "-c", "echo Permission denied; sleep 60", timeout_ms=300)
    assert played.play(slow, policy=ApprovalPolicy.ON_FAILURE) == ["124 Permission denied\n"]
    assert played.asked == []


@pytest.mark.parametrize("first", [YES, FOR_SESSION])
def test_what_was_approved_in_the_sandbox_is_not_approved_without_it(played: Played, first: ReviewDecision) -> None:
    fails = Shell("sh", "-c", 'test -z "$CONFINED" || { echo Permission denied >&2; exit 1; }; echo free')

    def confined_only(event: Any) -> ReviewDecision:
        return NO if event.without_sandbox else first

    assert played.play(fails, confined_only, policy=ApprovalPolicy.UNTRUSTED) == ["1 Permission denied\n"]
    assert [event.without_sandbox for event in played.asked] == [False, True]
    assert played.play(fails, policy=ApprovalPolicy.UNTRUSTED) == ["0 free\n"]


class Shells(Shell):
    """Runs its requests one after the other, one for each call."""

    def __init__(self, *requests: CommandRequest) -> None:
        self._requests = iter(requests)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        result = await context.run(next(self._requests))
        return ToolOutput(f"{result.exit_code} {result.output}")


@pytest.mark.parametrize(
    "other",
    [
        {"tty": True},
        {"cwd": ".."},
        {"escalate": "require_escalated"},
        {"argv": ("echo", "b")},
        {"argv": ("echo a",)},
        {"stdin": b"b"},
    ],
    ids=repr,
)
def test_an_approval_for_the_session_covers_the_same_command_only(played: Played, other: dict[str, Any]) -> None:
    request = CommandRequest(argv=("echo", "a"), stdin=b"a")
    shells = Shells(request, request, request.evolve(**other))
    played.play(shells, lambda event: FOR_SESSION, turns=3, policies=[Keeper(ASKS)])
    assert len(played.asked) == 2


@pytest.mark.parametrize(
    "argv",
    [
        ("./b.sh",),
        ("sh", "b.sh"),
        ("sh", "-c", "true; ./b.sh x"),
        ("sh", "-c", "sh < b.sh"),
        ("sh", "-c", "cat 'b.sh' | sh"),
        ("sh", "-c", "sh './b c.sh'"),
        ("sh", "./b c.sh"),
        ("env", "A=b", "sh", "./b.sh"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("change", ["rewritten", "replaced", "kept"])
def test_an_approval_for_the_session_does_not_cover_a_script_that_changed(
    played: Played, make_kernel: Any, argv: tuple[str, ...], change: str
) -> None:
    scripts = [make_kernel.workspace / name for name in ("b.sh", "b c.sh")]
    for script in scripts:
        script.write_text("#!/bin/sh\necho good\n")
        script.chmod(0o755)

    def answer(event: Any) -> ReviewDecision:
        for script in scripts:
            status = script.stat()
            if change == "rewritten":
                script.write_text("#!/bin/sh\necho evil\n")
            elif change == "replaced":
                other = script.with_suffix(".new")
                other.write_text("#!/bin/sh\necho evil\n")
                other.chmod(0o755)
                other.rename(script)
            if change != "kept":  # the time of a file says nothing
                os.utime(script, ns=(status.st_atime_ns, status.st_mtime_ns))
        return FOR_SESSION

    request = CommandRequest(argv=argv)
    played.play(Shells(request, request), answer, turns=2, policies=[Keeper(ASKS)])
    assert len(played.asked) == (1 if change == "kept" else 2)


@pytest.mark.parametrize(
    "script", ["cd tools && ./run.sh", "sh ${PWD}/tools/run.sh", "cd tools; sh $PWD/../tools/run.sh"]
)
@pytest.mark.parametrize("changes", [True, False])
def test_a_script_in_a_folder_that_the_command_names_is_seen_too(
    played: Played, make_kernel: Any, script: str, changes: bool
) -> None:
    file = make_kernel.workspace / "tools" / "run.sh"
    file.parent.mkdir()
    file.write_text("#!/bin/sh\necho good\n")
    file.chmod(0o755)

    def answer(event: Any) -> ReviewDecision:
        if changes:
            file.write_text("#!/bin/sh\necho evil\n")
        return FOR_SESSION

    request = CommandRequest(argv=("sh", "-c", script))
    played.play(Shells(request, request), answer, turns=2, policies=[Keeper(ASKS)])
    assert len(played.asked) == (2 if changes else 1)


def test_a_command_with_too_many_names_is_covered_by_no_answer(played: Played) -> None:
    request = CommandRequest(argv=("echo", *map(str, range(10_001))))
    played.play(Shells(request, request), lambda event: FOR_SESSION, turns=2, policies=[Keeper(ASKS)])
    assert len(played.asked) == 2


def test_files_that_a_command_writes_do_not_end_an_approval_for_the_session(played: Played) -> None:
    request = CommandRequest(argv=("sh", "-c", "date +%N > out.txt; echo >> log"))
    played.play(Shells(request, request), lambda event: FOR_SESSION, turns=2, policies=[Keeper(ASKS)])
    assert len(played.asked) == 1


WANTS_DOT = {"escalate": "with_additional_permissions"}


@pytest.mark.parametrize(
    ("later", "asked_again"),
    [
        ({}, False),
        ({"access": FileAccess(full=True)}, True),
        ({"access": FileAccess.writing(Path("/a"), network=NetworkMode.ON)}, True),
        ({"cwd": Path("/b")}, True),  # what the relative path of the additional permissions means
    ],
    ids=["same", "no sandbox", "network", "folder"],
)
def test_an_approval_for_the_session_covers_no_wider_permissions(
    tmp_path: Path, later: dict[str, Any], asked_again: bool
) -> None:
    asked: list[Any] = []

    async def ask(event: Any) -> ReviewDecision:
        asked.append(event)
        return FOR_SESSION

    async def main() -> None:
        async with call_context(tmp_path) as context:
            turn = context.caller.turn.evolve(access=FileAccess.writing(Path("/a")), cwd=Path("/a"))
            additional = additional_from_wire({"file_system": {"write": ["."]}})
            request = CommandRequest(argv=("make",), cwd="/x", additional=additional, **WANTS_DOT)
            questions = ApprovalPrompts(())
            for facts in (turn, turn.evolve(**later)):
                caller = context.caller.evolve(ask=ask, turn=facts)
                await questions.command(request, caller, Path("/x"), reason=None)

    asyncio.run(main())
    assert len(asked) == 1 + asked_again
    (entry,) = asked[0].additional_permissions["file_system"]["entries"]
    assert entry["path"]["path"] == "/a", "nobody has to guess what a relative path means"


def test_an_approval_for_the_session_does_not_cover_the_retry_without_the_sandbox(
    played: Played, tmp_path: Path
) -> None:
    additional = additional_from_wire({"file_system": {"write": [str(tmp_path)]}})
    fails = Shell("sh", "-c", "echo Permission denied >&2; exit 1", escalate="with_additional_permissions")
    fails._request = fails._request.evolve(additional=additional)
    config = WORKSPACE + "features.exec_permission_approvals = true\n"
    policy = GranularApproval(True, True, True)
    played.play(fails, lambda event: FOR_SESSION, policy=policy, config=config)
    assert [event.reason for event in played.asked] == [None, "command failed; retry without sandbox?"]
    assert [event.without_sandbox for event in played.asked] == [False, True]


def test_an_approval_for_the_session_needs_every_part_to_be_covered() -> None:
    cache = ApprovalCache()
    cache.remember(["a", "b"], FOR_SESSION)
    cache.remember(["c"], YES)
    assert cache.covers(["a"])
    assert cache.covers(["b", "a"])
    assert not cache.covers(["a", "c"])
    assert not cache.covers(["c"])
    assert not cache.covers([])


DENYING = """default_permissions = "p"
[permissions.p]
extends = ":workspace"
[permissions.p.filesystem]
"/etc/shadow" = "deny"
"""


def test_what_is_denied_by_name_stays_denied_without_the_sandbox(played: Played) -> None:
    shell = Shell("echo", "a", escalate="require_escalated")
    assert played.play(shell, config=DENYING) == ["0 a\n"]
    (access,) = (access for access in played.box.accesses if access.network is NetworkMode.ON)
    assert access.mode_of(Path("/usr/x")) is AccessMode.WRITE
    assert access.mode_of(Path("/etc/shadow")) is AccessMode.DENY
    fails = Shell("sh", "-c", "echo Permission denied >&2; exit 1")
    asked = len(played.asked)
    assert played.play(fails, policy=ApprovalPolicy.ON_FAILURE, config=DENYING) == ["1 Permission denied\n"]
    assert len(played.asked) == asked, "nothing is offered that could not be given"


def test_without_denials_an_approved_command_runs_outside(played: Played) -> None:
    shell = Shell("sh", "-c", "echo ${CONFINED:-free}", escalate="require_escalated")
    assert played.play(shell) == ["0 free\n"]
    assert [to_wire(event)["without_sandbox"] for event in played.asked] == [True]


def test_answers_that_come_twice_or_for_another_turn_approve_nothing(make_kernel: Any) -> None:
    from codex_framework.testing import Offer

    again = {"call_id": "same"}  # the model chooses the ids of its calls

    async def main() -> tuple[list[Any], list[str]]:
        offer = Offer(tools=[Shell("echo", "ran", escalate="require_escalated")], sandboxes=[Box()])
        replies = [call("sh", **again), say("one"), call("sh", **again), say("two")]
        async with make_kernel(replies, plugins=[offer], config=WORKSPACE, entry_points=()) as kernel:
            thread = await kernel.start_thread(approval_policy=ApprovalPolicy.ON_REQUEST)
            requests: list[Any] = []
            warnings: list[str] = []
            for _ in range(2):
                async for event in thread.stream("go"):
                    if event.type == "warning":
                        warnings.append(event.message)
                    if not isinstance(event, ExecApprovalRequestEvent):
                        continue
                    requests.append(event)
                    await thread.submit(ExecApproval("same", YES))
                    await thread.submit(ExecApproval("same", YES))
                    if len(requests) == 2:
                        late, now = requests[0].turn_id, event.turn_id
                        await thread.submit(ExecApproval(event.approval_id, YES, turn_id=late))
                        assert [each.request_id for each in thread.open_requests] == [event.approval_id]
                        await thread.submit(ExecApproval(event.approval_id, NO, turn_id=now))
            return [item.output for item in thread.history.items if isinstance(item, FunctionCallOutput)], warnings

    outputs, warnings = asyncio.run(asyncio.wait_for(main(), 60))
    assert outputs == ["0 ran\n", "rejected by user"]
    late = [text for text in warnings if text.startswith("no request 'same' is open: ")]
    assert (len(late), len([text for text in warnings if "no request 'same-1' is open in the turn " in text])) == (3, 1)
