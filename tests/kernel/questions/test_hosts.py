"""What people are asked about hosts, and how their answers are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from codex_framework import (
    CommandRequest,
    NetworkTarget,
    ToolCall,
    ToolContext,
    ToolOutput,
    TurnFacts,
    Verdict,
)
from codex_framework.contract.protocol.events import TurnAbortedEvent
from codex_framework.contract.protocol.policies import ApprovalPolicy, Decision, GranularApproval, ReviewDecision

from .conftest import ABORT, FOR_SESSION, NETWORK, NO, YES, Keeper, Played, Shell, target


def test_a_host_that_no_rule_speaks_of_is_asked_about(played: Played) -> None:
    played.box.wanted = [target("known.example"), target("bad.example"), target("new.example")]
    assert played.play(Shell("true"), config=NETWORK) == ["0 "]
    assert [allowed for _, allowed in played.box.reached] == [True, False, True]
    (event,) = played.asked
    assert event.command == ("network-access", "https://new.example:443")
    assert event.network_approval_context == {"host": "new.example", "protocol": "https"}
    assert event.proposed_network_policy_amendments == (
        {"host": "new.example", "action": "allow"},
        {"host": "new.example", "action": "deny"},
    )
    assert all(gate.closed for gate in played.proxy.gates)
    assert played.proxy.closed, "it ends with the kernel"


def test_an_answer_for_the_session_holds_for_host_port_and_protocol(played: Played) -> None:
    played.box.wanted = [target("a.example"), target("a.example"), target("a.example", 80, "http")]
    played.play(Shell("true"), lambda event: FOR_SESSION, turns=2, config=NETWORK)
    assert [event.network_approval_context["protocol"] for event in played.asked] == ["https", "http"]
    assert [allowed for _, allowed in played.box.reached] == [True] * 6


@pytest.mark.parametrize(("action", "allowed"), [("allow", True), ("deny", False)])
def test_a_rule_about_a_host_is_kept(played: Played, action: str, allowed: bool) -> None:
    keeper = Keeper()
    played.box.wanted = [target("a.example")]
    rule = {"host": "a.example", "action": action}
    verdict = Decision.APPROVED if allowed else Decision.DENIED
    played.play(
        Shell("true"),
        lambda event: ReviewDecision(verdict, network_amendment=rule),
        turns=2,
        config=NETWORK,
        policies=[keeper],
    )
    assert len(played.asked) == 1
    assert keeper.hosts == {"a.example": allowed}
    assert [one for _, one in played.box.reached] == [allowed] * len(played.box.reached)
    assert f"{'allowed' if allowed else 'denied'} a.example" in played.notes


def test_a_refused_host_ends_the_command(played: Played) -> None:
    played.box.wanted = [target("a.example")]
    outputs = played.play(Shell("sleep", "60"), lambda event: NO, config=NETWORK)
    assert outputs == ["Network access was denied by the Codex sandbox network proxy."]


def test_a_policy_that_denies_a_host_only_denies_the_host(played: Played) -> None:
    keeper = Keeper()
    keeper.hosts["a.example"] = False
    played.box.wanted = [target("a.example")]
    assert played.play(Shell("echo", "on"), config=NETWORK, policies=[keeper]) == ["0 on\n"]
    assert played.asked == []
    assert [allowed for _, allowed in played.box.reached] == [False]


def test_nobody_is_asked_about_hosts_where_nobody_may_be(played: Played) -> None:
    played.box.wanted = [target("a.example")]
    for policy in (ApprovalPolicy.NEVER, GranularApproval(False, True, True)):
        assert played.play(Shell("echo", "on"), policy=policy, config=NETWORK) == ["0 on\n"]
    assert played.asked == []


def test_a_policy_that_fails_denies_the_host_whatever_the_others_say(played: Played) -> None:
    class Broken(Keeper):
        name = "broken"

        def judge_network(self, target: NetworkTarget, facts: TurnFacts) -> Verdict | None:
            raise RuntimeError("no idea")

    allows = Keeper()
    allows.hosts["a.example"] = True
    for policies in ([Broken(), allows], [allows, Broken()]):
        played.box.wanted, played.box.reached = [target("a.example")], []
        assert played.play(Shell("echo", "on"), config=NETWORK, policies=policies) == ["0 on\n"]
        assert [allowed for _, allowed in played.box.reached] == [False]
    assert played.asked == []


def test_a_command_that_the_proxy_stopped_is_not_offered_without_the_sandbox(played: Played) -> None:
    fails = Shell("sh", "-c", "echo Permission denied >&2; exit 1")
    played.box.wanted = [target("bad.example")]
    assert played.play(fails, policy=ApprovalPolicy.ON_FAILURE, config=NETWORK) == ["1 Permission denied\n"]
    assert played.asked == []
    played.box.wanted = [target("known.example")]
    played.play(fails, lambda event: NO, policy=ApprovalPolicy.ON_FAILURE, config=NETWORK)
    assert [event.reason for event in played.asked] == ["command failed; retry without sandbox?"]


class Started(Shell):
    """Starts the command and waits itself, as tools do whose commands may outlive them."""

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        command = await context.start(self._request)
        result = await command.wait()
        retried = await context.retry(command)
        return ToolOutput(f"{result.exit_code} {None if retried is None else (await retried.wait()).output}")


def test_a_started_command_is_run_again_only_if_no_host_was_refused(played: Played, tmp_path: Path) -> None:
    fails = Started("sh", "-c", 'test -z "$CONFINED" || { echo Permission denied; exit 1; }; echo free')
    played.box.ready = tmp_path / "ready"
    traps = f"trap 'exit 1' TERM; echo Permission denied; touch {played.box.ready}; sleep 60 & wait"
    waits = Started("sh", "-c", traps)
    played.box.wanted = [target("a.example")]
    assert played.play(waits, lambda event: NO, policy=ApprovalPolicy.ON_FAILURE, config=NETWORK) == ["1 None"]
    assert [event.reason == "command failed; retry without sandbox?" for event in played.asked] == [False]
    played.box.wanted = [target("bad.example")]
    assert played.play(fails, policy=ApprovalPolicy.ON_FAILURE, config=NETWORK) == ["1 None"]
    played.box.wanted = []
    assert played.play(fails, policy=ApprovalPolicy.ON_FAILURE, config=NETWORK) == ["1 free\n"]
    assert len(played.asked) == 2


def test_only_a_command_of_the_call_itself_can_be_run_again(played: Played) -> None:
    class Foreign(Shell):
        async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
            await context.retry(object())  # type: ignore[arg-type]  # a mistake of its author
            raise AssertionError

    (told,) = played.play(Foreign("true"))
    assert "retry() takes a command that this call has started, not object" in told


def test_aborting_at_a_question_about_a_host_ends_the_turn(played: Played) -> None:
    played.box.wanted = [target("a.example")]
    played.play(Shell("sleep", "60"), lambda event: ABORT, config=NETWORK)
    assert any(isinstance(event, TurnAbortedEvent) for event in played.events)
    assert all(gate.closed for gate in played.proxy.gates)


def test_without_a_proxy_nothing_runs(played: Played) -> None:
    (refusal,) = played.play(Shell("echo", "on"), config=NETWORK, proxies=False)
    assert refusal.startswith("only some hosts may be reached, but no network proxy is loaded. ")


def test_where_the_command_that_asked_is_gone_the_next_one_asks(tmp_path: Path) -> None:
    from codex_framework.commands.approval_prompts import ApprovalPrompts
    from codex_framework.testing import call_context

    async def main() -> None:
        asked: list[asyncio.Future[ReviewDecision]] = []

        def ask(_: Any) -> Awaitable[ReviewDecision]:
            asked.append(asyncio.get_running_loop().create_future())
            return asked[-1]

        async with call_context(tmp_path) as context:
            turn = context.caller.turn.evolve(approval_policy=ApprovalPolicy.ON_REQUEST)
            caller = context.caller.evolve(ask=ask, turn=turn)
            questions = ApprovalPrompts(())
            request = CommandRequest(argv=("true",))
            first, second, third = (
                asyncio.ensure_future(questions.host(target("a.example"), request, caller, tmp_path)) for _ in range(3)
            )
            await asyncio.sleep(0)
            assert len(asked) == 1
            first.cancel()
            await asyncio.wait([first])
            while len(asked) < 2:
                await asyncio.sleep(0)
            asked[1].set_result(YES)
            assert await asyncio.gather(second, third) == [True, True]
            assert len(asked) == 2

    asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize("decision", [ABORT, ReviewDecision(Decision.TIMED_OUT)])
def test_a_question_that_nobody_could_answer_refuses_the_host_and_no_more(
    tmp_path: Path, decision: ReviewDecision
) -> None:
    from codex_framework.commands.approval_prompts import ApprovalPrompts
    from codex_framework.testing import call_context

    async def main() -> None:
        async def ask(_: Any) -> ReviewDecision:
            return decision

        async with call_context(tmp_path) as context:
            turn = context.caller.turn.evolve(approval_policy=ApprovalPolicy.ON_REQUEST)
            caller = context.caller.evolve(ask=ask, turn=turn)
            request = CommandRequest(argv=("true",))
            assert await ApprovalPrompts(()).host(target("a.example"), request, caller, tmp_path) is False

    asyncio.run(asyncio.wait_for(main(), 60))
