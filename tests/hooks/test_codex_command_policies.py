"""Hook ``codex_command_policies``: may this command run, ask, or never?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from codex_framework import (
    CodexError,
    CommandPolicy,
    CommandRequest,
    CommandVerdict,
    Decision,
    NetworkTarget,
    ReviewDecision,
    ToolContext,
    TurnFacts,
    Verdict,
    hookimpl,
    tool,
)
from codex_framework.contract.protocol.items import is_output
from codex_framework.contract.protocol.ops import ExecApproval, TextInput, UserInputOp
from codex_framework.testing import ContractViolation, Offer, call, check_command_policy, say, turn_facts
from codex_framework.threads.plugin_calls import Notices
from codex_framework.threads.thread_commands import GuardedPolicy


@tool
async def run_words(words: list[str], context: ToolContext) -> str:
    """Run a command, or a script if there is one word."""
    script = words[0] if len(words) == 1 else None
    argv = ("/bin/sh", "-c", script) if script is not None else tuple(words)
    return (await context.run(CommandRequest(argv=argv, script=script))).stdout


class Tools:
    @hookimpl
    def codex_tools(self):
        return [run_words]


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["curl", "x"], "use the fetch tool instead of curl"),
        (["cd / && if true; then curl x; fi"], "use the fetch tool instead of curl"),
        (["echo", "hi"], "hi"),
        (["echo hi; echo curl"], "hi"),
    ],
)
def test_codex_command_policies_example_forbids_curl_only(example, run_turn, words, shown):
    turn = run_turn(example("codex_command_policies"), Tools(), replies=[call("run_words", words=words), say("Done.")])
    assert shown in turn.outputs[0]


def test_codex_command_policies_that_raise_forbid(run_turn):
    class Plugin:
        name = "broken"

        def judge(self, command, facts):
            raise RuntimeError("no rules")

        @hookimpl
        def codex_command_policies(self):
            return [self]

    turn = run_turn(Plugin(), Tools(), replies=[call("run_words", words=["echo", "hi"]), say("Done.")])
    assert "hi" not in turn.outputs[0].split()
    assert turn.final == "Done."


REASON = "no"


class Sound:
    """Judges commands and hosts, and remembers."""

    name = "sound"

    def __init__(self) -> None:
        self.prefixes: set[tuple[str, ...]] = set()
        self.hosts: dict[tuple[str, str], Verdict] = {}

    def judge(self, command: CommandRequest, facts: TurnFacts) -> CommandVerdict | None:
        if any(command.argv[: len(prefix)] == prefix for prefix in self.prefixes):
            return CommandVerdict(verdict=Verdict.ALLOW, bypass_sandbox=True)
        if command.argv[0] == "ls":
            return CommandVerdict(verdict=Verdict.ASK, by_rule=True)
        return CommandVerdict(verdict=Verdict.FORBID, reason=REASON)

    def judge_network(self, target: NetworkTarget, facts: TurnFacts) -> Verdict | None:
        return self.hosts.get((target.host, target.protocol))

    def remember_prefix(self, prefix: tuple[str, ...], facts: TurnFacts) -> str:
        self.prefixes.add(prefix)
        return "kept"

    def remember_host(self, target: NetworkTarget, facts: TurnFacts, *, allow: bool) -> str:
        if facts.codex_home is None or not facts.codex_home.is_dir():
            raise CodexError("there is nowhere to keep it", hint="Make a folder.")
        self.hosts[target.host, target.protocol] = Verdict.ALLOW if allow else Verdict.FORBID
        return "kept"


def violations(policy: Any) -> tuple[str, ...]:
    with pytest.raises(ContractViolation) as caught:
        check_command_policy(policy)
    return caught.value.violations


def test_policies_that_keep_to_their_role_pass_the_check(example):
    check_command_policy(Sound())
    (forbids_curl,) = example("codex_command_policies").codex_command_policies()
    check_command_policy(forbids_curl)


@pytest.mark.parametrize(
    ("verdict", "violation"),
    [
        (True, "judge returns bool, not a CommandVerdict or None"),
        (CommandVerdict(verdict=Verdict.FORBID), "a refusal has no reason: the model reads it"),
        (
            CommandVerdict(verdict=Verdict.ASK, bypass_sandbox=True),
            "a verdict bypasses the sandbox and does not allow the command",
        ),
        (CommandVerdict(verdict=Verdict.ALLOW, by_rule=True), "a verdict is `by_rule` and does not ask"),
        (
            CommandVerdict(verdict=Verdict.ASK, amendment=["ls"]),  # type: ignore[arg-type]  # that is the mistake
            "an amendment is ['ls'], not a tuple with words",
        ),
        (CommandVerdict(verdict=Verdict.ASK, amendment=()), "an amendment is (), not a tuple with words"),
    ],
)
def test_verdicts_that_contradict_themselves_are_found(verdict, violation):
    class Plugin:
        name = "odd"

        def judge(self, command, facts):
            return verdict

    assert violations(Plugin()) == (violation,)


def test_a_policy_that_raises_changes_its_mind_or_is_async_is_found():
    class Fragile(Sound):
        def judge(self, command, facts):
            return super().judge(command.evolve(argv=(command.argv[0][0],)), facts)

    class Fickle:
        name = ""
        count = 0

        def judge(self, command, facts):
            self.count += 1
            return CommandVerdict(verdict=Verdict.ASK) if self.count % 2 else None

    class Later:
        name = "later"

        async def judge(self, command, facts):
            return None

    assert "judge('') raises IndexError: string index out of range" in violations(Fragile())
    told = violations(Fickle())
    assert told[0] == "its name is '', not a non-empty string"
    assert "judge('ls') returns another verdict when called twice in a row" in told
    assert len(violations(Later())) == 1


def test_a_policy_that_forgets_is_found():
    class Forgets(Sound):
        def judge(self, command, facts):
            return CommandVerdict(verdict=Verdict.ASK)

        def judge_network(self, target, facts):
            return None

    assert violations(Forgets()) == (
        "a command is not allowed, though its prefix has just been remembered",
        "a host has just been remembered, and the verdict on it is None",
    )


def test_a_policy_that_remembers_in_silence_is_found():
    class Half:
        name = "half"

        def judge(self, command, facts):
            return None

        def remember_prefix(self, prefix, facts):
            return "kept"

    class Silent(Sound):
        def remember_prefix(self, prefix, facts):
            self.prefixes.add(prefix)
            return ""

    class Breaks(Sound):
        def remember_host(self, target, facts, *, allow):
            raise OSError("no space left")

    check_command_policy(Half())
    assert "remember_prefix returns '', not what the model is to be told" in violations(Silent())
    assert violations(Breaks()) == (
        "remember_host(allow=True) where nothing can be written raises OSError: no space left, not CodexError",
    )


def test_an_answer_that_holds_for_good_goes_to_every_policy_that_remembers(make_kernel):
    policy = Sound()
    policy.judge = (
        lambda command, facts: (  # type: ignore[method-assign]  # asks first, and never again
            None if policy.prefixes else CommandVerdict(verdict=Verdict.ASK, amendment=command.argv[:1])
        )
    )
    questions = []

    async def turn() -> list[str]:
        replies = [call("run_words", words=["echo", "one"]), call("run_words", words=["echo", "two"]), say("Done.")]
        plugins = [Tools(), Offer(policies=[policy])]
        async with make_kernel(
            replies, plugins=plugins, entry_points=(), config='approval_policy="on-request"'
        ) as kernel:
            thread = await kernel.start_thread()
            await thread.submit(UserInputOp((TextInput("go"),)))
            async for event in thread.events():
                if event.msg.type == "exec_approval_request":
                    questions.append(event.msg.proposed_execpolicy_amendment)
                    answer = ReviewDecision(Decision.APPROVED, execpolicy_amendment=questions[-1])
                    await thread.submit(ExecApproval(event.msg.call_id, answer))
                if event.msg.type == "task_complete":
                    break
            return [item.output for item in thread.history.items if is_output(item)]

    outputs = asyncio.run(turn())
    assert questions == [("echo",)]
    assert policy.prefixes == {("echo",)}
    assert ["one" in outputs[0], "two" in outputs[1]] == [True, True]


@pytest.mark.parametrize("error", [RuntimeError("no rules"), SystemExit(3)], ids=["error", "exit"])
def test_a_policy_that_fails_forbids_commands_and_hosts_and_is_named(error):
    class Broken(CommandPolicy):
        name = "broken"

        def judge(self, command, facts):
            raise error

        def judge_network(self, target, facts):
            raise error

    told = []
    policy = GuardedPolicy(Broken(), "acme", Notices(lambda text, _: told.append(text)))
    verdict = policy.judge(CommandRequest(argv=("ls",)), turn_facts())
    assert verdict.verdict is Verdict.FORBID
    assert policy.judge_network(NetworkTarget("example.com", 443, "https"), turn_facts()) is Verdict.FORBID
    assert [text.startswith("command policy 'broken' of plugin 'acme': judge") for text in told] == [True, True]
