"""Tools in requests, and what the API takes of their schemas."""

from __future__ import annotations

import json

import pytest

from codex_framework import FreeformFormat, FreeformSpec, FunctionSpec, NativeSpec
from codex_framework.contract.roles.models import ModelWarning
from codex_framework.testing import call, fault, model_request, say

LOOK = FunctionSpec("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}})
WRITE = FreeformSpec("write", "Writes.", FreeformFormat("lark", 'start: "x"'))


def body_of(ask, **changes):
    outcome = ask([say("Yes.")], model_request(**changes))
    assert outcome.errors == [None]
    return outcome.bodies[0]


def test_tools_are_functions_and_those_of_a_server_are_left_out(ask):
    body = body_of(ask, tools=(LOOK, WRITE, NativeSpec("web_search", "web_search")), parallel_tool_calls=False)
    look, write = body["tools"]
    assert look == {"name": "look", "description": "Looks.", "input_schema": LOOK.parameters}
    assert (write["name"], write["cache_control"]) == ("write", {"type": "ephemeral"})
    assert write["input_schema"]["required"] == ["input"]
    assert 'start: "x"' in write["description"]
    assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}


ANY = {"anyOf": [{"properties": {"b": {"type": "string"}}, "required": ["b"]}, {"required": ["a"]}]}


@pytest.mark.parametrize(
    ("parameters", "schema", "note"),
    [
        ({}, {"type": "object", "properties": {}}, None),
        ({"type": ["object", "null"], "properties": None}, {"type": "object", "properties": {}}, None),
        (
            {"type": "object", "properties": {"a": {"anyOf": [{}]}}, "required": None, **ANY},
            {"type": "object", "properties": {"a": {"anyOf": [{}]}, "b": {"type": "string"}}},
            '"required":["a"]',
        ),
        ({"oneOf": [], "allOf": "?"}, {"type": "object", "properties": {}}, '"allOf":"?"'),
        (
            {
                "properties": {"$top": {}, "_top": {}, "a b": {}, "a_b": {}, "x" * 70: {}, "": {}},
                "required": ["$top", "a_b"],
            },
            {
                "type": "object",
                "properties": {"_top_2": {}, "_top": {}, "a_b_2": {}, "a_b": {}, "x" * 60: {}, "_": {}},
                "required": ["_top_2", "a_b"],
            },
            None,
        ),
    ],
)
def test_schemas_that_the_api_refuses_are_adapted(ask, parameters, schema, note):
    (tool,) = body_of(ask, tools=(FunctionSpec("find", "Finds.", parameters),))["tools"]
    assert tool["input_schema"] == schema
    assert tool["description"] == "Finds." if note is None else note in tool["description"]


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        ({"_top_2": 1, "_top": 2, "more": {"_top_2": 3}}, {"$top": 1, "_top": 2, "more": {"_top_2": 3}}),
        ({}, {}),
    ],
)
def test_arguments_get_their_own_names_back(ask, sent, received):
    tools = (FunctionSpec("find", "Finds.", {"properties": {"$top": {}, "_top": {}}}),)
    outcome = ask([call("find", **sent)], model_request(tools=tools))
    assert [json.loads(item.arguments) for item in outcome.items] == [received]


def test_a_thread_goes_on_without_a_tool_that_the_server_refuses(ask):
    words = "tools.1.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12"
    refused = fault(400, body={"type": "error", "error": {"type": "invalid_request_error", "message": words}})
    request = model_request(tools=(LOOK, WRITE))
    outcome = ask([refused, say("Yes."), say("Again.")], request, request)
    assert outcome.errors == [None, None]
    assert [[tool["name"] for tool in body["tools"]] for body in outcome.bodies] == [
        ["look", "write"],
        ["look"],
        ["look"],
    ]
    assert [event.message for event in outcome.answers[0] if isinstance(event, ModelWarning)] == [
        f"the server refuses the tool `write`, so the thread continues without it: {words}"
    ]
    assert not [event for event in outcome.answers[1] if isinstance(event, ModelWarning)]
    alone = ask([refused], model_request(tools=(LOOK,)))  # there is no tool at this place
    assert str(alone.error) == words
