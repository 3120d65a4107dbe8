"""Agents of the configuration, and threads with configuration of their own."""

from __future__ import annotations

import asyncio

import attrs
import pytest

from codex_framework import Agent, ConfigError, Limits, Plugin, Status, ThreadError, ToolContext, hookimpl, tool
from codex_framework.testing import Offer, call, say

AGENTS = """
[agents]
max_threads = 2

[agents.clerk]
description = "Answers in lists"
instructions = "Answer in lists."
model = "house-model"
model_reasoning_effort = "low"
permissions = ":read-only"
approval_policy = "never"
allowed_tools = ["look"]
context = []
limits.requests = 1
limits.seconds = 60
"""


@tool
def look() -> str:
    """Look."""
    return "seen"


@tool
def touch() -> str:
    """Touch."""
    return "felt"


def play(story):
    return asyncio.run(asyncio.wait_for(story(), 60))


def with_kernel(make_kernel, story, config="", **more):
    async def played():
        async with make_kernel([call("look"), say("Done.")], tools=[look, touch], config=config, **more) as kernel:
            return await story(kernel)

    return play(played)


def test_an_agent_of_the_configuration_is_what_its_table_says(make_kernel):
    async def story(kernel):
        agent = kernel.agent("clerk")
        thread = await kernel.start_thread(agent=agent)
        return agent, thread.settings, await thread.run("Hi!"), kernel.model.requests

    agent, settings, result, (request,) = with_kernel(make_kernel, story, AGENTS, entry_points=())
    assert agent == Agent(
        name="clerk",
        description="Answers in lists",
        instructions="Answer in lists.",
        model="house-model",
        reasoning_effort="low",
        permissions=":read-only",
        approval_policy="never",
        allowed_tools=("look",),
        context=(),
        limits=Limits(requests=1, seconds=60),
    )
    assert (request.instructions, request.model.slug, request.reasoning_effort) == (
        "Answer in lists.",
        "house-model",
        "low",
    )
    assert [spec.name for spec in request.tools] == ["look"]
    assert not settings.permissions.writes_workspace
    assert (result.status, result.error) == (Status.LIMITED, "the limit of 1 requests is reached")


@pytest.mark.parametrize(
    ("line", "fact", "hint"),
    [
        ("model = 5", "`agents.x.model` is the number 5, but must be a string", 'Put it in quotes: "5".'),
        ("allowed_tools = 'look'", "`agents.x.allowed_tools` is the string 'look'", "Put it in brackets: [...]."),
        ("instruction = 'a'", "unknown key `agents.x.instruction`. Did you mean `instructions`?", "Fix or remove it."),
        ("limits.request = 3", "unknown key `agents.x.limits.request`. Did you mean `requests`?", "Fix or remove it."),
        ("limits.tokens = 0", "`agents.x.limits.tokens` is the number 0", ""),
        ("approval_policy = 'nver'", "`agents.x.approval_policy` is the string 'nver'", "Did you mean `never`?"),
    ],
)
def test_a_wrong_table_is_told_with_file_and_line(make_kernel, codex_home, line, fact, hint):
    config = f"[agents.x]\n{line}\n"

    async def story(kernel):
        raise AssertionError("never made")

    with pytest.raises(ConfigError) as caught:
        with_kernel(make_kernel, story, config)
    text = (codex_home / "config.toml").read_text()
    number = text[: text.index(line)].count("\n") + 1
    assert str(caught.value).startswith(f"{codex_home / 'config.toml'}:{number}: ")
    assert fact.replace("'", '"') in str(caught.value).replace("'", '"')
    assert hint in caught.value.hint


def test_an_agent_that_does_not_exist_is_told_with_those_that_do(make_kernel):
    async def story(kernel):
        with pytest.raises(ThreadError) as caught:
            kernel.agent("clark")
        return caught.value.hint

    offer = Offer(name="p", agents=[Agent(name="helper")])
    hint = with_kernel(
        make_kernel, story, "[agents]\nmax_depth = 2\nclerk.model = 'x'\n", plugins=[offer], entry_points=()
    )
    assert hint == (
        "Did you mean clerk? The agents are: clerk, helper. Add one as [agents.clark], or install a plugin that offers it."
    )


def test_a_profile_that_does_not_exist_is_told_with_file_and_line_when_the_agent_is_used(make_kernel, codex_home):
    async def story(kernel):
        with pytest.raises(ConfigError) as caught:
            kernel.agent("x")
        return caught.value

    error = with_kernel(make_kernel, story, '[agents.x]\npermissions = ":nowhere"\n', entry_points=())
    assert str(error).startswith(f"{codex_home / 'config.toml'}:")
    assert "agent 'x': " in str(error)
    assert ":nowhere" in str(error)


@pytest.mark.parametrize("kind", ["table", "plugin"])
def test_an_agent_that_is_found_by_name_cannot_widen_what_the_session_may_do(make_kernel, kind):
    wide = Agent(name="wide", permissions=":danger-full-access")
    table = '[agents.wide]\npermissions = ":danger-full-access"\n' if kind == "table" else ""
    plugins = [Offer(name="p", agents=[wide])] if kind == "plugin" else []

    async def story(kernel):
        with pytest.raises(ThreadError) as caught:
            await kernel.start_thread(agent=kernel.agent("wide"))
        own = await kernel.start_thread(agent=wide.evolve(name="mine"))
        changed = await kernel.start_thread(agent=wide.evolve(approval_policy="never"))
        session = kernel.settings().permissions
        return caught.value, [thread.settings.permissions != session for thread in (own, changed)]

    config = f'sandbox_mode = "read-only"\n{table}'
    error, widened = with_kernel(make_kernel, story, config, plugins=plugins, entry_points=())
    assert (
        "agent 'wide' requests the permissions ':danger-full-access', which exceed the permissions of the session"
        in str(error)
    )
    assert error.slug == "wider-agent"
    assert widened == [True, True], "a program's own agents may"


_GRANULAR = "{granular = {sandbox_approval = %s, rules = %s, mcp_elicitations = true}}"


@pytest.mark.parametrize(
    ("session", "agent", "hint"),
    [
        ("'never'", "on-request", "Give it the policy of the session."),
        ("'never'", "on-failure", "Give it the policy of the session."),
        ("'never'", "untrusted", "Give it the policy of the session."),
        ("'untrusted'", "never", "Give it the policy of the session."),
        ("'untrusted'", "on-request", "Give it the policy of the session."),
        ("'on-request'", "on-failure", "Give it never, untrusted, or the policy of the session."),
        (_GRANULAR % ("false", "true"), "untrusted", "Give it never, or the policy of the session."),
        (_GRANULAR % ("true", "false"), "untrusted", "Give it never, or the policy of the session."),
    ],
)
def test_an_agent_of_the_configuration_cannot_have_a_policy_that_lets_more_through(make_kernel, session, agent, hint):
    async def story(kernel):
        with pytest.raises(ThreadError) as caught:
            await kernel.start_thread(agent=kernel.agent("x"))
        return caught.value

    error = with_kernel(make_kernel, story, f"approval_policy = {session}\n[agents.x]\napproval_policy = '{agent}'\n")
    assert (
        str(error)
        == f"agent 'x' requests the approval policy {agent!r}, which is neither the policy of the session nor stricter"
    )
    assert (error.slug, error.hint) == ("wider-agent", hint)


@pytest.mark.parametrize(
    ("session", "agent"),
    [
        ("'never'", "never"),
        ("'untrusted'", "untrusted"),
        ("'on-request'", "never"),
        ("'on-request'", "untrusted"),
        ("'on-failure'", "untrusted"),
        (_GRANULAR % ("true", "true"), "untrusted"),
        (_GRANULAR % ("false", "false"), "never"),
    ],
)
def test_an_agent_of_the_configuration_can_have_a_stricter_policy(make_kernel, session, agent):
    async def story(kernel):
        return (await kernel.start_thread(agent=kernel.agent("x"))).settings.approval_policy

    config = f"approval_policy = {session}\n[agents.x]\napproval_policy = '{agent}'\n"
    assert with_kernel(make_kernel, story, config) == agent


@pytest.mark.parametrize(("trust", "known"), [("untrusted", False), (None, False), ("trusted", True)])
def test_agents_of_a_project_are_offered_if_it_is_trusted(make_kernel, workspace, trust, known):
    (workspace / ".git").mkdir()
    (workspace / ".codex").mkdir()
    (workspace / ".codex" / "config.toml").write_text('[agents.local]\ninstructions = "Be local."\n')

    async def story(kernel):
        try:
            return kernel.agent("local").instructions == "Be local."
        except ThreadError:
            return False

    config = "" if trust is None else f'[projects."{workspace}"]\ntrust_level = "{trust}"\n'
    assert with_kernel(make_kernel, story, config) is known


# Configuration of one thread


@attrs.frozen
class Mine:
    word: str = "nothing"


class Telling(Plugin):
    @hookimpl
    def codex_tools(self):
        @tool
        async def tell(context: ToolContext) -> str:
            """Tell."""
            thread = context.turn.thread
            return (
                f"{context.config.get('model_verbosity')} {thread.plugin_settings(Mine).word} {thread.config['model']}"
            )

        return [tell]


def test_a_thread_may_have_configuration_of_its_own(make_kernel):
    async def story():
        replies = [call("tell"), say("Done."), call("tell"), say("Done.")]
        async with make_kernel(replies, plugins=[Telling], entry_points=(), config='model = "a"\n') as kernel:
            config = {
                "model": "b",
                "model_verbosity": "low",
                "framework.plugins.Telling.word": "own",
                "base_instructions": "Be brief.",
            }
            own = await kernel.start_thread(config=config)
            await own.run("Hi!")
            other = await kernel.start_thread()
            await other.run("Hi!")
            outputs = [
                item.output for thread in (own, other) for item in thread.history.items if hasattr(item, "output")
            ]
            return outputs, kernel.model.requests, kernel.config.get("model")

    outputs, requests, model = play(story)
    assert outputs == ["low own b", "None nothing a"]
    assert [request.model.slug for request in requests] == ["b", "b", "a", "a"]
    assert requests[0].verbosity == "low"
    assert requests[0].instructions == "Be brief." != requests[2].instructions
    assert model == "a"


def test_children_have_the_configuration_of_their_parent(make_kernel):
    async def story():
        async with make_kernel([call("tell"), say("Done.")], plugins=[Telling], entry_points=()) as kernel:
            thread = await kernel.start_thread(config={"model": "b", "model_verbosity": "low"})
            child = await thread.conversation.context("p").spawn(Agent(name="child"))
            await child.run("Hi!")
            return [item.output for item in child.history.items if hasattr(item, "output")]

    assert play(story) == ["low nothing b"]


@pytest.mark.parametrize(
    ("config", "fact"),
    [
        ({"model": 5}, "config: `model` is the number 5, but must be a string"),
        ({"modle": "x"}, "config: unknown key `modle`. Did you mean `model`?"),
        ({"framework.plugins.disabled": ["x"]}, "config: `framework.plugins.disabled` is of the whole kernel"),
        ({"framework.sandbox": "x"}, "config: `framework.sandbox` is of the whole kernel"),
        ({"model_provider": "nobody"}, "unknown model provider 'nobody'"),
    ],
)
def test_configuration_that_a_thread_cannot_have_is_told(make_kernel, config, fact):
    async def story(kernel):
        with pytest.raises(ConfigError) as caught:
            await kernel.start_thread(config=config)
        return caught.value

    error = with_kernel(make_kernel, story)
    assert fact in str(error)
    assert error.hint


def test_a_resumed_thread_may_have_configuration_too(make_kernel):
    async def story():
        async with make_kernel([say("One."), say("Two.")]) as kernel:
            first = await kernel.start_thread()
            await first.run("Hi!")
            await first.shutdown()
            again = await kernel.resume_thread(first.id, config={"model": "b"})
            await again.run("Hi!")
            return [request.model.slug for request in kernel.model.requests]

    assert play(story)[1] == "b"


def test_a_tool_that_an_agent_must_not_have_cannot_be_called_either(make_kernel):
    async def story(kernel):
        thread = await kernel.start_thread(agent=Agent(name="x", disallowed_tools=("loo*",)))
        result = await thread.run("Hi!")
        outputs = [item.output for item in thread.history.items if hasattr(item, "output")]
        return outputs, [spec.name for spec in kernel.model.requests[0].tools], result.status

    outputs, offered, status = with_kernel(make_kernel, story, entry_points=())
    assert (outputs, offered, status) == (["unsupported call: look"], ["touch"], Status.COMPLETED)


@pytest.mark.parametrize("retries", [0, 1, 2])
def test_a_wrong_output_is_corrected_as_often_as_the_agent_says(make_kernel, retries):
    agent = Agent(name="counter", output_type=int, output_retries=retries)

    async def story():
        async with make_kernel([say("many")] * 4, entry_points=()) as kernel:
            thread = await kernel.start_thread(agent=agent)
            await thread.run("How many?")
            return len(kernel.model.requests)

    assert play(story) == 1 + retries
