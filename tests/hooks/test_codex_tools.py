"""Hook ``codex_tools``: what the model may call."""

from __future__ import annotations

import asyncio

import pytest

from codex_framework import ApprovalPolicy, FunctionSpec, Tool, hookimpl, tool
from codex_framework.contract.protocol.ops import ThreadSettings, ThreadSettingsOverrides
from codex_framework.loader.registration import registered_tool
from codex_framework.testing import ContractViolation, Offer, check_tool
from codex_framework.testing.replies import call, say
from codex_framework.toolkit.arguments import parse_arguments


def test_codex_tools_example_is_offered_to_the_model_and_carried_out(example, run_turn):
    turn = run_turn(example("codex_tools"), replies=[call("count_words", path="poem.txt"), say("Six.")])
    assert turn.requests[0].tools == (
        FunctionSpec(
            "count_words",
            "Count the words of a file in the workspace.",
            {
                "type": "object",
                "properties": {"path": {"type": "string"}},
                "required": ["path"],
                "additionalProperties": False,
            },
        ),
    )
    assert (turn.outputs, turn.final) == (["6"], "Six.")


def test_codex_tools_abilities_are_looked_up_once(registry_of):
    class Able:
        spec = FunctionSpec("able", "Can do all.", {"type": "object", "properties": {}})
        parallel_safe = True
        aliases = ("capable",)
        programs = {"able": ("python3", "-m", "able")}  # noqa: RUF012

        async def run(self, call, context):
            return ""

        def offered(self, facts):
            return False

        def preview(self, call_id, text):
            return None

    class Plugin:
        @hookimpl
        def codex_tools(self):
            yield Able()

    registry = registry_of(Plugin())
    able = registry.tools["able"]
    assert (able.plugin, able.parallel, able.aliases) == ("Plugin", True, ("capable",))
    assert able.offered is not None
    assert able.offered(None) is False
    assert able.preview is not None
    assert registry.tools_by_call == {"able": able, "capable": able}
    assert registry.programs == {"able": ("python3", "-m", "able")}


def test_codex_tools_without_abilities_get_the_careful_defaults(registry_of):
    class Plain:
        spec = FunctionSpec("plain", "Plain.", {"type": "object", "properties": {}})

        async def run(self, call, context):
            return ""

    class Plugin:
        @hookimpl
        def codex_tools(self):
            return (Plain(),)

    plain = registry_of(Plugin()).tools["plain"]
    assert (plain.parallel, plain.aliases, plain.offered, plain.preview, plain.programs) == (False, (), None, None, {})


def test_codex_tools_of_several_plugins_stand_in_the_order_of_the_plugins(registry_of):
    def plugin(*names):
        class Plugin:
            @hookimpl
            def codex_tools(self):
                return [tool(name=name)(_nothing) for name in names]

        return Plugin

    assert list(registry_of(plugin("b", "a")(), type("Other", (plugin("d", "c"),), {})()).tools) == ["b", "a", "d", "c"]


def _nothing() -> None:
    """Do nothing."""


class Counting(Tool):
    """Is offered under a policy, and counts how often it is asked."""

    spec = FunctionSpec("counting", "Counts.", {"type": "object", "properties": {}})

    def __init__(self, *reads: str, fails: bool = False) -> None:
        self.reads = frozenset(reads) if reads else None
        self.fails = fails
        self.asked = 0

    def offered(self, turn):
        self.asked += 1
        if self.fails:
            raise RuntimeError("cannot say")
        return turn.approval_policy is ApprovalPolicy.NEVER

    def spec_for(self, turn):
        self.asked += 1
        return self.spec

    async def run(self, call, context):
        parse_arguments(call.arguments, {})
        return "counted"


def in_turns(make_thread, tool):
    """Run two turns, and a third one under another policy. Return how often the tool was asked and whether it was offered in each."""

    async def story():
        found = []
        async with make_thread(Offer(name="counting", tools=[tool])) as thread:
            for policy in (ApprovalPolicy.NEVER, ApprovalPolicy.NEVER, ApprovalPolicy.ON_REQUEST):
                tool.asked = 0
                await thread.client.submit(ThreadSettings(ThreadSettingsOverrides(approval_policy=policy)))
                await thread.turn("Hello!", say("Hi."))
                found.append((tool.asked, "counting" in [spec.name for spec in thread.requests[-1].tools]))
        return found

    return asyncio.run(story())


def test_codex_tools_that_declare_what_they_read_are_asked_when_it_changes(make_thread):
    assert in_turns(make_thread, Counting("approval_policy")) == [(2, True), (0, True), (1, False)]


def test_codex_tools_that_declare_nothing_are_asked_in_every_turn(make_thread):
    assert in_turns(make_thread, Counting()) == [(2, True), (2, True), (1, False)]


def test_codex_tools_that_fail_are_asked_again(make_thread):
    assert in_turns(make_thread, Counting("approval_policy", fails=True)) == [(1, False)] * 3


def test_codex_tools_that_read_what_is_no_fact_are_refused():
    registered, (problem,) = registered_tool("counting", Counting("weather"))
    assert registered is None
    assert problem.startswith(
        "its reads is frozenset({'weather'}), not a set of names of facts: cwd, approval_policy, "
    )


def test_codex_tools_that_declare_too_little_are_found_by_the_kit():
    check_tool(Counting())
    check_tool(Counting("approval_policy"))
    with pytest.raises(ContractViolation) as caught:
        check_tool(Counting("cwd"))
    assert set(caught.value.violations) == {"offered() reads the fact 'approval_policy', but its `reads` lacks it"}
