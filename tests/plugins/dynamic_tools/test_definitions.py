"""What clients may say of their tools, and what is said of tools that cannot be offered."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_framework.contract.errors import ThreadError
from codex_framework.contract.protocol.events import WarningEvent
from codex_framework.contract.roles.tool_specs import spec_problems
from codex_framework.testing import Offer, say
from codex_plugin_dynamic_tools.definitions import definitions

SCHEMA = {"type": "object", "properties": {"id": {"type": "number"}}}
GOOD = {"name": "good", "description": "", "inputSchema": SCHEMA}


def names(given: Any) -> list[str]:
    return [definition.spec.name for definition in definitions(given)[0]]


def problems(given: Any) -> list[str]:
    return definitions(given)[1]


def test_the_usual_ones():
    given = [
        GOOD,
        {**GOOD, "name": "late", "deferLoading": True},
        {**GOOD, "namespace": "crm"},
        {**GOOD, "namespace": None, "name": "none", "deferLoading": None},
        {"type": "function", **GOOD, "name": "typed"},
        {"type": "namespace", "name": "shop", "description": "", "tools": [{"type": "function", **GOOD}]},
    ]
    found, wrong = definitions(given)
    assert wrong == []
    assert [(one.spec.name, one.namespace, one.name, one.deferred) for one in found] == [
        ("good", None, "good", False),
        ("late", None, "late", True),
        ("crm__good", "crm", "good", False),
        ("none", None, "none", False),
        ("typed", None, "typed", False),
        ("shop__good", "shop", "good", False),
    ]
    assert all(one.spec.parameters == SCHEMA for one in found)


def test_a_schema_may_leave_out_its_type_and_its_properties():
    found, _ = definitions([{**GOOD, "inputSchema": {}}, {**GOOD, "name": "b", "inputSchema": {"properties": {}}}])
    assert [dict(one.spec.parameters) for one in found] == [{"type": "object", "properties": {}}] * 2


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array"},
        {"properties": []},
        {"properties": {"a": {"type": "text"}}},
        {"required": ["b"]},
        {"default": float("nan")},
        {"default": {1, 2}},
        {"type": ["object", "null"], "required": None},
    ],
)
def test_a_tool_with_an_odd_schema_is_offered_with_what_can_be_said_of_it(schema):
    (found,), problems = definitions([{**GOOD, "inputSchema": schema}])
    assert problems == []
    assert found.spec.parameters["type"] == "object"
    assert list(spec_problems(found.spec)) == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"name": None}, "its `name` is missing, not a string"),
        ({"name": 7}, "its `name` is int, not a string"),
        ({"name": ""}, "its `name` is empty"),
        ({"name": "two words"}, "its name 'two words' is not allowed"),
        ({"name": "x" * 65}, "is not allowed"),
        ({"name": "mcp__x"}, "belong to MCP servers"),
        ({"namespace": "mcp", "name": "x__y"}, "belong to MCP servers"),
        ({"namespace": "n" * 40, "name": "x" * 40}, "is not allowed"),
        ({"namespace": ["crm"]}, "its namespace is list, not a string"),
        ({"description": None}, "its `description` is missing, not a string"),
        ({"description": ["x"]}, "its `description` is list, not a string"),
        ({"inputSchema": None}, "its `inputSchema` is missing, not a JSON Schema"),
        ({"inputSchema": True}, "its `inputSchema` is bool, not a JSON Schema"),
        ({"inputSchema": "{}"}, "its `inputSchema` is str, not a JSON Schema"),
        ({"deferLoading": "yes"}, "its `deferLoading` is str, not true or false"),
        ({"type": "custom"}, "its `type` is 'custom'"),
        ({"type": "namespace"}, "its `tools` are not a list"),
    ],
)
def test_a_bad_one_is_named_and_left_out_and_the_rest_stays(changes, reason):
    found, wrong = definitions([{**GOOD, "name": "bad", **changes}, GOOD])
    assert [one.spec.name for one in found] == ["good"]
    (problem,) = wrong
    assert reason in problem
    assert problem.startswith("the dynamic tool ")
    assert " is ignored: " in problem


def test_of_two_of_one_name_the_first_stays():
    given = [{**GOOD, "description": "first"}, {**GOOD, "description": "second"}, {**GOOD, "namespace": "a"}]
    given += [{**GOOD, "name": "a__good"}]
    found, wrong = definitions(given)
    assert [(one.spec.name, one.spec.description) for one in found] == [("good", "first"), ("a__good", "")]
    assert wrong == [
        "the dynamic tool 'good' is ignored: another tool has the name 'good'",
        "the dynamic tool 'a__good' is ignored: another tool has the name 'a__good'",
    ]


@pytest.mark.parametrize("given", [{}, "tools", 7, {"name": "x"}])
def test_what_is_no_list_gives_no_tools(given):
    assert names(given) == []
    (problem,) = problems(given)
    assert "not a list" in problem


@pytest.mark.parametrize("entry", [None, "x", 7, [GOOD]])
def test_an_entry_that_is_no_object_is_told_by_its_number(entry):
    assert problems([GOOD, entry]) == [
        f"the dynamic tool number 2 is ignored: it is {type(entry).__name__}, not an object"
    ]
    group = {"type": "namespace", "name": "shop", "tools": [entry, GOOD]}
    assert names([group]) == ["shop__good"]
    assert problems([group]) == [
        f"the dynamic tool number 1 in 'shop' is ignored: it is {type(entry).__name__}, not an object"
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["name", "type", "tools", "namespace", "description", "inputSchema", "properties", "required"]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=20,
)


@given(JSON)
def test_whatever_comes_is_told_or_taken_and_never_raises(given):
    found, wrong = definitions(given)
    assert all(isinstance(problem, str) for problem in wrong)
    assert len({one.spec.name for one in found}) == len(found)


def test_clients_are_told_at_the_start_what_is_wrong(scene):
    async def story(kernel):
        thread = await kernel.start_thread(extra={"dynamic_tools": [GOOD, {"name": "bad"}]})
        result = await thread.run("Go.")
        return [event.message for event in result.events if isinstance(event, WarningEvent)]

    warnings = scene.play(story, [say("Done.")])
    assert (
        "the dynamic tool 'bad' is ignored: its `description` is missing, not a string;"
        " its `inputSchema` is missing, not a JSON Schema (an object)" in warnings
    )
    assert "good" in [tool.get("name") for tool in scene.asked[0]["tools"]]


def test_a_tool_of_a_plugin_is_not_taken_away(scene):
    async def story(kernel):
        thread = await kernel.start_thread(extra={"dynamic_tools": [{**GOOD, "name": "view_image"}, GOOD]})
        result = await thread.run("Go.")
        return [event.message for event in result.events if isinstance(event, WarningEvent)]

    warnings = scene.play(story, [say("Done.")])
    tools = {tool.get("name"): tool for tool in scene.asked[0]["tools"]}
    assert "path" in str(tools["view_image"])
    assert "good" in tools
    assert any("'view_image' of plugin 'dynamic_tools' is not offered" in warning for warning in warnings)


@pytest.mark.parametrize(
    ("setting", "fact"), [("timeout_s='soon'", "timeout_s"), ("timeouts=1", "has no setting 'timeouts'")]
)
def test_wrong_settings_are_told(scene, setting, fact):
    from codex_framework import ConfigError

    async def story(kernel):
        thread = await kernel.start_thread(extra={"dynamic_tools": [GOOD]})
        result = await thread.run("Go.")
        return [event.message for event in result.events if isinstance(event, WarningEvent)]

    try:
        warnings = scene.play(story, [say("Done.")], f"framework.plugins.dynamic_tools.{setting}")
    except ConfigError as error:
        warnings = [str(error)]
    assert any(fact in warning for warning in warnings)


def test_a_kernel_without_the_plugin_knows_no_such_tools(scene):
    async def story(kernel):
        thread = await kernel.start_thread(extra={"dynamic_tools": [GOOD]})
        await thread.run("Go.")

    scene.play(story, [say("Done.")], 'framework.plugins.disabled=["dynamic_tools"]', plugins=[Offer()])
    assert "good" not in [tool.get("name") for tool in scene.asked[0]["tools"]]


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"part": schema}}
    return schema


@pytest.mark.parametrize(
    ("extra", "fact"),
    [
        ({"dynamic_tools": [{"name": "deep", "description": "", "inputSchema": nested(5_000)}]}, "256 levels deep"),
        ({"thread_source": object()}, "not JSON serializable"),
        ({"thread_source": float("nan")}, "not JSON compliant"),
    ],
)
def test_a_head_that_cannot_be_kept_is_refused_before_the_thread_begins(make_kernel, extra, fact) -> None:
    async def story() -> None:
        async with make_kernel([say("Hi.")]) as kernel:
            with pytest.raises(ThreadError, match=fact) as caught:
                await kernel.start_thread(extra=extra)
            assert caught.value.slug == "bad-request"
            assert not kernel.threads
            thread = await kernel.start_thread(extra={"dynamic_tools": [{"name": "deep", "inputSchema": nested(60)}]})
            result = await thread.run("Hello!")
            assert not [event for event in result.events if "Failed to save" in getattr(event, "message", "")]

    asyncio.run(story())
