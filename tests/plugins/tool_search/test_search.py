"""Tool search in turns, in both forms: a function, and the tool search of the wire."""

from __future__ import annotations

import json
import time
from types import MappingProxyType

import pytest

from codex_framework import Component, FunctionSpec, ThreadComponent, Tool, ToolNamespace, ToolOutput, hookimpl, tool
from codex_framework.contract.protocol.items import FunctionCall, UnknownItem
from codex_framework.testing import Offer, call, reply, say


class Fake(Tool):
    exposure = "deferred"

    def __init__(self, name, description="", source="", **members):
        self.spec = FunctionSpec(name, description, {"type": "object", "properties": {"city": {"type": "string"}}})
        self.source = source
        vars(self).update(members)

    async def run(self, call, context):
        return ToolOutput(f"ran {call.name}")


WEATHER = Fake("mcp__w__get_weather", "Get the weather of a city.", "w: Weather\n tools.")
MAIL = Fake("mcp__m__send_mail", "Send a letter.", "m: Mail.")


class Plugin:
    def __init__(self, *tools):
        self._tools = tools

    @hookimpl
    def codex_tools(self):
        return self._tools


def search(query, call_id="s", **more):
    raw = {"type": "tool_search_call", "call_id": call_id, "execution": "client", "status": "completed"}
    return reply(UnknownItem({**raw, "arguments": {"query": query, **more}}))


def played(scene, replies, *config, tools=(WEATHER, MAIL), again=False):
    async def story(kernel):
        thread = await kernel.start_thread()
        result = await thread.run("Go.")
        if again:
            await thread.shutdown()
            thread = await kernel.resume_thread(thread.id)
            await thread.run("Go on.")
        return result

    alone = "features.multi_agent=false"  # no deferred tools of others
    return scene.play(story, replies, alone, *config, plugins=[Plugin(*tools)])


def names(body):
    return [tool.get("name", tool["type"]) for tool in body["tools"]]


def outputs(body, kind="function_call_output"):
    return [item for item in body["input"] if item["type"] == kind]


# As a function


def test_a_found_tool_is_offered_from_the_next_sample_and_can_be_called(scene):
    replies = [call("tool_search", query="weather"), call("mcp__w__get_weather", city="x"), say("done")]
    played(scene, replies, 'model="other"')
    before, after = names(scene.asked[0]), names(scene.asked[1])
    assert "tool_search" in before
    assert "mcp__w__get_weather" not in before
    assert after == [*before, "mcp__w__get_weather"]  # at the end: the beginning of the prompt stays cached
    first, second = (item["output"] for item in outputs(scene.asked[2]))
    assert json.loads(first) == {
        "tools": [{"name": "mcp__w__get_weather", "description": "Get the weather of a city."}]
    }
    assert second == "ran mcp__w__get_weather"


def test_found_tools_stay_in_the_order_in_which_they_were_found(scene):
    replies = [call("tool_search", query="mail"), call("tool_search", query="weather"), say("done")]
    played(scene, replies, 'model="other"')
    assert names(scene.asked[2])[-2:] == ["mcp__m__send_mail", "mcp__w__get_weather"]


def test_a_resumed_thread_offers_what_was_found(scene):
    replies = [call("tool_search", query="mail"), say("done"), say("again")]
    played(scene, replies, 'model="other"', again=True)
    assert names(scene.asked[2]) == names(scene.asked[1])
    assert "mcp__m__send_mail" in names(scene.asked[2])


def test_the_description_names_the_sources_in_one_line_each(scene):
    played(scene, [say("done")], 'model="other"')
    (spec,) = [tool for tool in scene.asked[0]["tools"] if tool.get("name") == "tool_search"]
    assert spec["type"] == "function"
    assert spec["description"].endswith("The tools come from:\n- w: Weather tools.\n- m: Mail.")
    assert spec["parameters"]["required"] == ["query"]


def test_without_deferred_tools_there_is_no_tool_search(scene):
    played(scene, [say("done")], tools=())
    assert "tool_search" not in names(scene.asked[0])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"query": " "}, "query must not be empty"),
        ({"query": "mail", "limit": 0}, "limit must be greater than zero"),
        ({"query": 7}, "failed to parse function arguments"),
        ({}, "failed to parse function arguments"),
        ({"query": "zebra"}, '{"tools": []}'),
    ],
)
def test_what_cannot_be_searched_is_explained(scene, arguments, text):
    played(scene, [call("tool_search", arguments), say("done")], 'model="other"')
    (output,) = outputs(scene.asked[1])
    assert output["output"].startswith(text)
    assert names(scene.asked[1]) == names(scene.asked[0])


def test_tools_that_arrive_later_are_found_as_well(scene):
    class Part(ThreadComponent):
        def __init__(self, thread):
            self._thread = thread
            self._found = [MAIL]

        def tools(self, turn):
            return [*self._found, self._more]

        @property
        def _more(self):
            @tool
            async def connect() -> str:
                """Connect."""
                self._found = [WEATHER]
                self._thread.tools_changed()
                return "connected"

            return connect

    class Growing(Component):
        name = "growing"

        def for_thread(self, thread):
            return Part(thread)

    async def story(kernel):
        await (await kernel.start_thread()).run("Go.")

    replies = [
        call("tool_search", query="letter weather"),
        call("connect"),
        call("tool_search", query="letter weather"),
        say("done"),
    ]
    scene.play(story, replies, 'model="other"', plugins=[Offer(components=[Growing()])])
    first, _, second = (item["output"] for item in outputs(scene.asked[3]))
    assert [[each["name"] for each in json.loads(text)["tools"]] for text in (first, second)] == [
        ["mcp__m__send_mail"],
        ["mcp__w__get_weather"],
    ]


def test_a_tool_that_is_not_offered_in_a_turn_is_not_found(scene):
    shy = Fake("shy_weather", "Get the weather.", offered=lambda turn: False)
    shy.__class__ = type("Shy", (Fake,), {"offered": lambda self, turn: False})
    played(scene, [call("tool_search", query="weather"), say("done")], 'model="other"', tools=[shy, MAIL])
    assert json.loads(outputs(scene.asked[1])[0]["output"]) == {"tools": []}


# As on the wire


def test_the_tool_search_of_the_wire_gets_specs_and_leaves_the_list_of_tools_alone(scene):
    replies = [search("weather"), call("mcp__w__get_weather", city="x"), say("done")]
    played(scene, replies)
    (spec,) = [tool for tool in scene.asked[0]["tools"] if tool["type"] == "tool_search"]
    assert (spec["execution"], set(spec)) == ("client", {"type", "execution", "description", "parameters"})
    (found,) = outputs(scene.asked[1], "tool_search_output")
    tool = {
        "type": "function",
        "name": "mcp__w__get_weather",
        "description": "Get the weather of a city.",
        "strict": False,
        "defer_loading": True,
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
    rest = {"type": "tool_search_output", "call_id": "s", "status": "completed", "execution": "client"}
    assert {key: found[key] for key in (*rest, "tools")} == {**rest, "tools": [tool]}
    assert names(scene.asked[1]) == names(scene.asked[0])
    assert outputs(scene.asked[2])[0]["output"] == "ran mcp__w__get_weather"


def test_found_tools_of_a_namespace_are_one_group_and_are_called_by_it(scene):
    weather = ToolNamespace("mcp__w", "About the weather.")
    tools = [Fake(f"mcp__w__{name}", f"Get the {name} of a city.") for name in ("rain", "wind")]
    for each in tools:
        each.spec = each.spec.evolve(namespace=weather, local_name=each.spec.name.removeprefix("mcp__w__"))
    grouped = reply(FunctionCall("wind", '{"city": "x"}', "c", "mcp__w"))
    played(scene, [search("city rain wind letter"), grouped, say("done")], tools=[*tools, MAIL])
    (found,) = outputs(scene.asked[1], "tool_search_output")
    groups = {each["name"]: [inner["name"] for inner in each.get("tools", ())] for each in found["tools"]}
    assert groups == {"mcp__w": ["rain", "wind"], "mcp__m__send_mail": []}
    (group,) = (each for each in found["tools"] if each["type"] == "namespace")
    assert group["description"] == "About the weather."
    assert all(inner["defer_loading"] is True for inner in group["tools"])
    assert outputs(scene.asked[2])[0]["output"] == "ran mcp__wwind"


@pytest.mark.parametrize("query", ["zebra", "", 7])
def test_a_search_that_finds_nothing_or_is_invalid_has_no_tools(scene, query):
    played(scene, [search(query), say("done")])
    (found,) = outputs(scene.asked[1], "tool_search_output")
    assert found["tools"] == []


def test_several_searches_of_one_response_are_answered_in_order(scene):
    replies = [search("weather", "s1") + search("mail", "s2"), say("done")]
    played(scene, replies)
    found = {
        item["call_id"]: [tool["name"] for tool in item["tools"]]
        for item in outputs(scene.asked[1], "tool_search_output")
    }
    assert found == {"s1": ["mcp__w__get_weather"], "s2": ["mcp__m__send_mail"]}


def test_a_schema_may_be_any_mapping(scene):
    odd = Fake("odd_weather", "The weather.")
    odd.spec = odd.spec.evolve(parameters=MappingProxyType({"type": "object", "properties": MappingProxyType({})}))
    played(scene, [search("weather"), say("done")], tools=[odd])
    (found,) = outputs(scene.asked[1], "tool_search_output")
    assert found["tools"][0]["parameters"] == {"type": "object", "properties": {}}


def test_specs_that_do_not_fit_into_one_output_are_left_out(scene):
    tools = [Fake(f"report_{number}", "report " * 5_000) for number in range(8)]
    played(scene, [search("report"), say("done")], tools=tools)
    (found,) = outputs(scene.asked[1], "tool_search_output")
    assert [tool["name"] for tool in found["tools"]] == ["report_0", "report_1"]


# Many tools


def test_two_thousand_tools_are_searched_quickly(scene):
    tools = [
        Fake(f"mcp__server{number % 20}__do_{number}", f"Does the thing number {number}, and more.")
        for number in range(2_000)
    ]
    spent = []

    async def story(kernel):
        thread = await kernel.start_thread()
        started = time.process_time()
        await thread.run("Go.")
        spent.append(time.process_time() - started)

    replies = [search("thing 1234", "s1") + search("thing 77", "s2"), say("done")]
    scene.play(story, replies, plugins=[Plugin(*tools)])
    found = [item["tools"][0]["name"] for item in outputs(scene.asked[1], "tool_search_output")]
    assert found == ["mcp__server14__do_1234", "mcp__server17__do_77"]
    assert len(json.dumps(scene.asked[0]["tools"])) < 60_000
    assert spent[0] < 20  # far away from the usual: a tenth of a second
