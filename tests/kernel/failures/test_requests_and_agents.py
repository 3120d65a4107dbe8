"""Requests that nobody can answer, answers of the wrong kind, and agents that name what is not there."""

from __future__ import annotations

import asyncio

import pytest

from codex_framework import (
    Agent,
    FunctionSpec,
    Limits,
    Request,
    RequestResolvedEvent,
    Status,
    ThreadError,
    Tool,
    ToolContext,
    tool,
)
from codex_framework.testing import Offer, call, say
from tests.kernel.failures.careless import play


class MayI(Request[bool]):
    type = "test_may_i"
    answer_type = bool

    def unattended(self):
        return False


class Unwritten(Request[bool]):
    type = "test_unwritten"
    answer_type = bool


class Raising(MayI):
    type = "test_raising"

    def unattended(self):
        raise RuntimeError("no idea")


class Odd(MayI):
    type = "test_odd"

    def unattended(self):
        return "no"


class Quick(MayI):
    type = "test_quick"
    timeout_s = 0.05


class QuickAndOdd(Odd):
    type = "test_quick_and_odd"
    timeout_s = 0.05


@tool
async def ask(what: str, context: ToolContext) -> str:
    """Ask."""
    kind = next(one for one in (MayI, Unwritten, Raising, Odd, Quick, QuickAndOdd) if one.__name__ == what)
    return str(await context.request(kind()))


def asked(thread_with, what, *answers, **more):
    async def story():
        async with thread_with(*answers, tools=[ask], **more) as thread:
            result = await thread.turn("Hi!", call("ask", what=what), say("Hello."))
            assert result.final_message == "Hello."
            how = [event.how.value for event in thread.events if isinstance(event, RequestResolvedEvent)]
            (output,) = thread.outputs
            return output, how, list(thread.warnings)

    return play(story, 10)


def test_a_request_that_nobody_can_answer_answers_itself(thread_with):
    output, how, warnings = asked(thread_with, "MayI")
    assert (output, how) == ("False", ["unattended"])
    assert "nobody can answer, so the answer is no: the request test_may_i" in warnings


@pytest.mark.parametrize(
    ("what", "fact"),
    [
        ("Unwritten", "Unwritten.unattended() is not implemented ("),
        ("Raising", "Raising.unattended() failed: RuntimeError: no idea ("),
        ("Odd", "Odd.unattended() failed: it returned str instead of bool ("),
    ],
)
def test_one_that_cannot_answer_itself_is_an_error_of_who_asked(thread_with, what, fact):
    output, how, warnings = asked(thread_with, what)
    assert fact in output
    assert output.startswith(f"ask failed: ThreadError: nobody can answer the request test_{what.lower()}, and ")
    assert how == ["unattended"]
    (warning,) = (text for text in warnings if text.startswith(f"{what}.unattended()"))
    assert __file__ in warning


def test_one_whose_time_is_over_answers_itself(thread_with):
    assert asked(thread_with, "Quick", attended=True)[:2] == ("False", ["timed_out"])
    output, how, _ = asked(thread_with, "QuickAndOdd", attended=True)
    assert "QuickAndOdd.unattended() failed: it returned str instead of bool (" in output
    assert how == ["timed_out"]


def test_an_answer_of_another_class_is_refused_and_the_request_stays_open(thread_with):
    async def story():
        async with thread_with(tools=[ask], attended=True) as thread:
            thread.start("Hi!", call("ask", what="MayI"), say("Hello."))
            request = await thread.until(MayI)
            with pytest.raises(ThreadError) as caught:
                thread.client.answer(request.request_id, "yes")
            open_ = len(thread.client.open_requests)
            assert thread.client.answer(request.request_id, True)  # the answer
            assert not thread.client.answer(request.request_id, False), "too late"  # the answer
            await thread.client.settled()
            return caught.value, open_, thread.outputs

    error, open_, outputs = play(story)
    assert str(error) == "the answer to the request test_may_i is str, not bool"
    assert error.hint == "Answer with a bool."
    assert (open_, outputs) == (1, ["True"])


@pytest.mark.parametrize("reply", ["raises", "None", "wrong"])
def test_a_program_whose_answers_fail_leaves_the_request_to_itself(thread_with, reply):
    async def on_request(request):
        if reply == "raises":
            raise RuntimeError("my own")
        return None if reply == "None" else "yes"

    async def story():
        async with thread_with(tools=[ask]) as thread:
            await thread.turn("Hi!", call("ask", what="MayI"), say("Hello."), on_request=on_request)
            return thread.outputs, list(thread.warnings)

    outputs, warnings = play(story, 5)
    assert outputs == ["False"]
    told = [text for text in warnings if text.startswith("on_request failed: ")]
    assert len(told) == (0 if reply == "None" else 1)


def test_a_program_that_does_not_answer_one_that_cannot_answer_itself_does_not_hang(thread_with):
    async def on_request(request):
        return None

    async def story():
        async with thread_with(tools=[ask]) as thread:
            await thread.turn("Hi!", call("ask", what="Unwritten"), say("Hello."), on_request=on_request)
            return thread.outputs[0]

    assert "Unwritten.unattended() is not implemented (" in play(story, 5)


# Agents


def run_agent(make_kernel, agent, **more):
    async def story():
        async with make_kernel([say("Hello.")], tools=[ask], entry_points=(), **more) as kernel:
            result = await kernel.run(agent, "Hi!")
            return result, [event.message for event in result.events if event.type == "warning"], kernel.model.requests

    return play(story)


def test_an_agent_that_names_what_is_not_there_is_told_with_the_nearest_name(make_kernel):
    agent = Agent(name="a", allowed_tools=["ask", "aks", "mcp__*"], disallowed_tools=["rm"], context=["weather"])
    result, warnings, (request,) = run_agent(make_kernel, agent)
    assert result.final_message == "Hello."
    assert [spec.name for spec in request.tools] == ["ask"]
    told = [text for text in warnings if text.startswith("agent 'a': ")]
    assert told == [
        "agent 'a': its allowed_tools names 'aks', but there is no such tool. Did you mean 'ask'?",
        (
            "agent 'a': its allowed_tools names 'mcp__*', but there is no such tool. `codex-framework plugins`"
            " lists the tools of plugins."
        ),
        "agent 'a': its disallowed_tools names 'rm', but there is no such tool. `codex-framework plugins` lists the tools of plugins.",
        "agent 'a': its context names 'weather', but there is no such source. The sources are: none.",
    ]


class Rare(Tool):
    spec = FunctionSpec(name="rare", description="For another model.", parameters={"type": "object", "properties": {}})

    def offered(self, turn):
        return turn.model.slug == "another"

    async def run(self, call, context):
        return "Rare."


rare = Rare()


def test_an_agent_that_allows_only_tools_that_its_model_is_not_offered_is_told(make_kernel):
    async def story():
        async with make_kernel([say("Hello.")], tools=[ask, rare], entry_points=()) as kernel:
            result = await kernel.run(Agent(name="a", allowed_tools=["ra*"]), "Hi!")
            return [event.message for event in result.events if event.type == "warning"], kernel.model.requests

    warnings, (request,) = play(story)
    assert request.tools == ()
    (told,) = [text for text in warnings if text.startswith("agent 'a': ")]
    assert told == (
        "agent 'a': its allowed_tools names 'ra*', but the model 'gpt-5.5' is not offered rare. Choose another model, or remove it."
    )


def test_a_child_that_allows_only_tools_that_its_parent_may_not_use_is_told(make_kernel):
    async def story():
        async with make_kernel([say("Hello.")], tools=[ask, rare], entry_points=()) as kernel:
            thread = await kernel.start_thread(agent=Agent(name="a", allowed_tools=["rare"]))
            child = await thread.conversation.context("test").spawn(Agent(name="b", allowed_tools=["ask"]))
            result = await child.run("Hi!")
            return [event.message for event in result.events if event.type == "warning"]

    (told,) = [text for text in play(story) if text.startswith("agent 'b': ")]
    assert told == (
        "agent 'b': its allowed_tools names 'ask', but agent 'a', above it, does not allow ask. Allow it there too, or remove it here."
    )


def test_a_tool_that_a_component_brings_when_it_is_ready_counts(thread_with):
    from codex_framework import Component, ThreadComponent

    class Late(ThreadComponent):
        def __init__(self, thread):
            self.thread = thread
            self.ready = False

        async def start(self):
            await asyncio.sleep(0.05)
            self.ready = True
            self.thread.tools_changed()

        def tools(self, turn):
            return [ask] if self.ready else []

    class Whole(Component):
        name = "whole"

        def for_thread(self, thread):
            return Late(thread)

    async def story():
        async with thread_with(components=[Whole()], agent=Agent(name="a", allowed_tools=["ask"])) as thread:
            await thread.turn("Hi!", say("Hello."))
            return [text for text in thread.warnings if "agent" in text]

    assert play(story) == []


def test_a_tool_of_an_agent_that_is_none_is_told_and_left_out(make_kernel):
    agent = Agent(name="a", tools=[object(), lambda: 3, ask])
    result, warnings, (request,) = run_agent(make_kernel, agent)
    assert result.final_message == "Hello."
    assert [spec.name for spec in request.tools] == ["ask"]
    assert len([text for text in warnings if text.startswith("a tool of agent 'a' is ignored: ")]) == 2


@pytest.mark.parametrize(
    ("fields", "fact"),
    [
        ({"allowed_tools": "ask"}, "its allowed_tools is 'ask', not a list of strings"),
        ({"context": [3]}, "its context is [3], not a list of strings"),
        ({"limits": {"requests": 3}}, "its limits is {'requests': 3}; use Limits("),
        ({"loop": "task"}, "its loop is 'task', not an instance of a subclass of Task"),
        ({"tools": "ask"}, "its tools are 'ask', not a list of tools and functions"),
        ({"model": 5}, "its model is 5, not a string"),
    ],
)
def test_an_agent_with_a_wrong_field_is_told_where_it_is_used(make_kernel, fields, fact):
    agent = Agent(name="a", **fields)
    with pytest.raises(TypeError) as caught:
        run_agent(make_kernel, agent)
    assert str(caught.value).startswith(f"agent 'a': {fact}")

    async def offered():
        async with make_kernel([], plugins=[Offer(name="p", agents=[agent])], entry_points=()) as kernel:
            return kernel.registry.warnings, dict(kernel.registry.agents)

    (warning,), agents = play(offered)
    assert f"its agent 'a' is ignored: {fact}" in warning
    assert agents == {}


def test_a_limit_that_is_reached_ends_the_turn_as_limited_and_another_input_too(make_kernel):
    async def story():
        async with make_kernel([call("nothing")] * 3, entry_points=()) as kernel:
            thread = await kernel.start_thread(agent=Agent(name="a", limits=Limits(requests=2)))
            first, second = await thread.run("Hi!"), await thread.run("Again!")
            return first, second, len(kernel.model.requests), str(thread.history.items)

    first, second, requests, history = play(story)
    assert [result.status for result in (first, second)] == [Status.LIMITED] * 2
    assert (first.outcome.reason, first.error, requests) == ("budget_limited", "the limit of 2 requests is reached", 2)
    assert [event.reason for event in first.events if event.type == "turn_aborted"] == ["budget_limited"]
    assert "turn_aborted" not in history
    assert "Again!" in history
