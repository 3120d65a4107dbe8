"""Schemas of tools in requests: what authors of tools write reaches model servers in the form that they accept."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from codex_framework.contract.roles.tool_specs import FunctionSpec, schema_problems
from codex_lib_model_client.functions import Projection
from codex_lib_model_client.tool_schemas import normalised_schema

_WORDS = {"string", "integer", "number", "boolean", "object", "array", "null"}


def refusals(schema: Any, root: Any = None) -> Iterator[str]:
    """Yield why a strict server would refuse a schema, as OpenAI's does."""
    if root is None:
        root = schema
        if schema.get("type") != "object" or not isinstance(schema.get("properties"), dict):
            yield "schema must be an object with properties"
        yield from (f"{word} at the top level" for word in ("anyOf", "oneOf", "allOf", "enum", "not") if word in schema)
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not set(kinds) <= _WORDS:
        yield f"{kinds} is not valid under any of the given schemas"
    if "array" in kinds and not isinstance(schema.get("items"), dict):
        yield "array schema missing items"
    yield from _wrong_values(schema)
    if isinstance(pointer := schema.get("$ref"), str):
        target = root
        for step in pointer.removeprefix("#").split("/")[1:]:
            target = target[int(step)] if isinstance(target, list) else target.get(step)
        if not pointer.startswith("#") or target is None:
            yield f"{pointer} cannot be resolved"
    for word in ("properties", "$defs", "definitions", "patternProperties"):
        for part in schema.get(word, {}).values():
            yield from refusals(part, root)
    for word in ("anyOf", "oneOf", "allOf"):
        for part in schema.get(word, []):
            yield from refusals(part, root)
    if "items" in schema:
        yield from refusals(schema["items"], root)


def _wrong_values(schema: dict[str, Any]) -> Iterator[str]:
    for word, value in schema.items():
        if value is None and word not in ("default", "const"):
            yield f"{word} is null"
        if word.lower().endswith(("minimum", "maximum")) and (
            isinstance(value, bool) or not isinstance(value, (int, float))
        ):
            yield f"{value} is not of type 'number'"
        if word in ("enum", "required", "anyOf", "oneOf", "allOf") and not isinstance(value, list):
            yield f"{value} is not of type 'array'"
        if word in ("enum", "anyOf", "oneOf", "allOf") and value == []:
            yield f"{word} is empty"
        if word == "required" and (
            len(set(value)) < len(value) or not set(value) <= schema.get("properties", {}).keys()
        ):
            yield f"required: {value}"
        if word == "pattern":
            re.compile(value)


def _tool(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


REPAIRED = {
    # Arrays without items
    "array": (_tool(a={"type": "array"}), _tool(a={"type": "array", "items": {}})),
    "array, nullable": (_tool(a={"type": ["array", "null"]}), _tool(a={"type": ["array", "null"], "items": {}})),
    "array in a branch": (
        _tool(a={"anyOf": [{"type": "array"}, {"type": "string"}]}),
        _tool(a={"anyOf": [{"type": "array", "items": {}}, {"type": "string"}]}),
    ),
    "array in an array": (
        _tool(a={"type": "array", "items": {"type": "array"}}),
        _tool(a={"type": "array", "items": {"type": "array", "items": {}}}),
    ),
    "array in a definition": (
        {**_tool(a={"$ref": "#/$defs/A"}), "$defs": {"A": {"type": "array"}}},
        {**_tool(a={"$ref": "#/$defs/A"}), "$defs": {"A": {"type": "array", "items": {}}}},
    ),
    "items are true": (_tool(a={"type": "array", "items": True}), _tool(a={"type": "array", "items": {}})),
    "items are false": (
        _tool(a={"type": "array", "items": False}),
        _tool(a={"type": "array", "items": {}, "maxItems": 0}),
    ),
    "items are null": (_tool(a={"type": "array", "items": None}), _tool(a={"type": "array", "items": {}})),
    # Bounds of draft 4
    "exclusive": (
        _tool(a={"type": "integer", "minimum": 0, "exclusiveMinimum": True}),
        _tool(a={"type": "integer", "exclusiveMinimum": 0}),
    ),
    "exclusive maximum": (
        _tool(a={"type": "number", "maximum": 1.5, "exclusiveMaximum": True}),
        _tool(a={"type": "number", "exclusiveMaximum": 1.5}),
    ),
    "not exclusive": (
        _tool(a={"type": "integer", "minimum": 0, "exclusiveMinimum": False}),
        _tool(a={"type": "integer", "minimum": 0}),
    ),
    "exclusive without a bound": (_tool(a={"type": "integer", "exclusiveMinimum": True}), _tool(a={"type": "integer"})),
    "a bound as text": (_tool(a={"type": "integer", "minimum": "0"}), _tool(a={"type": "integer"})),
    "required in the property": (
        _tool(a={"type": "string", "required": True}, b={"type": "string", "required": False}),
        {**_tool(a={"type": "string"}, b={"type": "string"}), "required": ["a"]},
    ),
    # Keywords that are null
    "enum null": (_tool(a={"type": "string", "enum": None}), _tool(a={"type": "string"})),
    "required null": ({**_tool(a={"type": "string"}), "required": None}, _tool(a={"type": "string"})),
    "properties null": ({"type": "object", "properties": None}, _tool()),
    "description null": (_tool(a={"type": "string", "description": None}), _tool(a={"type": "string"})),
    "additionalProperties null": ({**_tool(), "additionalProperties": None}, _tool()),
    "anyOf null": (_tool(a={"type": "string", "anyOf": None}), _tool(a={"type": "string"})),
    "definitions null": ({**_tool(a={"type": "string"}), "$defs": None}, _tool(a={"type": "string"})),
    "a default of null stays": (
        _tool(a={"type": "string", "default": None}),
        _tool(a={"type": "string", "default": None}),
    ),
    # References
    "dangling": (_tool(a={"$ref": "#/$defs/Gone", "description": "A."}), _tool(a={"description": "A."})),
    "to a file": (_tool(a={"$ref": "other.json#/A"}), _tool(a={})),
    "in a circle": (
        {**_tool(a={"$ref": "#/$defs/A"}), "$defs": {"A": {"$ref": "#/$defs/A"}}},
        {**_tool(a={}), "$defs": {"A": {}}},
    ),
    "to an inner definition": (
        _tool(a={"$ref": "#/$defs/A", "$defs": {"A": {"type": "string"}}}),
        {**_tool(a={"$ref": "#/$defs/A", "$defs": {"A": {"type": "string"}}}), "$defs": {"A": {"type": "string"}}},
    ),
    "root": (
        {"$ref": "#/$defs/A", "$defs": {"A": _tool(a={"$ref": "#/$defs/A"})}},
        {**_tool(a={"$ref": "#/$defs/A"}), "$defs": {"A": _tool(a={"$ref": "#/$defs/A"})}},
    ),
    "root to itself": ({"$ref": "#"}, _tool()),
    "a tree stays": (
        _tool(a={"type": "array", "items": {"$ref": "#"}}),
        _tool(a={"type": "array", "items": {"$ref": "#"}}),
    ),
    # Types
    "object or null": ({"type": ["object", "null"], "properties": {"a": {}}}, _tool(a={})),
    "words": (
        _tool(
            a={"type": "int"},
            b={"type": "STRING"},
            c={"type": ["bool", "none"]},
            d={"type": "any"},
            e={"type": []},
            f={"type": 3},
        ),
        _tool(a={"type": "integer"}, b={"type": "string"}, c={"type": ["boolean", "null"]}, d={}, e={}, f={}),
    ),
    "no type": ({"properties": {"a": {}}}, _tool(a={})),
    "nothing": (None, _tool()),
    "a list": ([], _tool()),
    "empty": ({}, _tool()),
    # Lists of the wrong kind
    "required": ({**_tool(a={}), "required": ["a", "a", "b", 3]}, {**_tool(a={}), "required": ["a"]}),
    "no branches": (_tool(a={"anyOf": []}), _tool(a={})),
    "an empty enum": (_tool(a={"enum": []}), _tool(a={})),
    "true and false": (_tool(a=True, b=False), _tool(a={})),
    "a pattern": (_tool(a={"type": "string", "pattern": "(?<x>["}), _tool(a={"type": "string"})),
    "a number that is none": (_tool(a={"default": float("nan"), "minimum": float("inf")}), _tool(a={})),
}


@pytest.mark.parametrize("name", REPAIRED)
def test_what_servers_refuse_is_repaired(name):
    given, wanted = REPAIRED[name]
    schema, note = normalised_schema(given)
    assert (dict(schema), note) == (wanted, "")


TUPLE = [{"type": "number"}, {"type": "string"}]


@pytest.mark.parametrize(
    ("given", "wanted", "words"),
    [
        pytest.param(
            {**_tool(a={"type": "string"}, b={"type": "string"}), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            _tool(a={"type": "string"}, b={"type": "string"}),
            '{"oneOf":[{"required":["a"]},{"required":["b"]}]}',
            id="required by branches",
        ),
        pytest.param(
            {"anyOf": [{**_tool(a={}), "required": ["a", "c"]}, {**_tool(b={}, c={}), "required": ["c"]}]},
            {**_tool(b={}, c={}, a={}), "required": ["c"]},
            '"anyOf"',
            id="branches have the properties",
        ),
        pytest.param(
            {"allOf": [{"$ref": "#/$defs/A"}, {**_tool(b={}), "required": ["b"]}], "$defs": {"A": _tool(a={})}},
            {**_tool(b={}, a={}), "required": ["b"], "$defs": {"A": _tool(a={})}},
            '"allOf"',
            id="parts of one object",
        ),
        pytest.param({**_tool(a={}), "not": {"required": ["a"]}}, _tool(a={}), '"not"', id="not"),
        pytest.param({**_tool(a={}), "enum": [{"a": 1}]}, _tool(a={}), '"enum"', id="enum"),
    ],
)
def test_what_the_root_cannot_say_is_told_in_words(given, wanted, words):
    schema, note = normalised_schema(given)
    assert schema == wanted
    assert words in note
    (function,) = Projection((FunctionSpec("find", "Finds.", given),)).functions
    assert function["parameters"] == wanted
    assert function["description"] == f"Finds.\n\n{note}"


@pytest.mark.parametrize(
    ("given", "wanted", "words"),
    [
        pytest.param(
            {"type": "array", "items": TUPLE}, {"type": "array", "items": {"anyOf": TUPLE}}, "prefixItems", id="tuple"
        ),
        pytest.param(
            {"type": "array", "prefixItems": [TUPLE[0]] * 2, "items": False},
            {"type": "array", "items": TUPLE[0], "maxItems": 2},
            "prefixItems",
            id="tuple of 2020",
        ),
        pytest.param(
            {**_tool(x={}, y={}), "anyOf": [{"required": ["x"]}, {"required": ["y"]}]},
            _tool(x={}, y={}),
            "anyOf",
            id="required",
        ),
        pytest.param(
            {**_tool(x={}), "if": {"properties": {"x": {"const": 1}}}, "then": {"required": ["y"]}},
            _tool(x={}),
            '"then"',
            id="if",
        ),
        pytest.param(
            {"allOf": [_tool(x={}), {"required": ["x"]}]}, {"allOf": [_tool(x={})]}, '"required"', id="one of the parts"
        ),
    ],
)
def test_what_a_part_cannot_say_is_told_in_its_description(given, wanted, words):
    schema, note = normalised_schema(_tool(a=given))
    found = dict(schema["properties"]["a"])
    assert words in found.pop("description")
    assert (found, note) == (wanted, "")


PLAIN = _tool(
    path={"type": "string", "description": "A path."},
    mode={"type": "string", "enum": ["r", "w"]},
    lines={"type": "array", "items": {"type": "integer"}},
    more={"anyOf": [{"type": "string"}, {"type": "null"}]},
    map={"type": "object", "additionalProperties": {"type": "string"}},
)
FULL = _tool(
    n={"type": "integer", "minimum": 0, "maximum": 10, "default": 3, "title": "N"},
    s={"type": "string", "pattern": "^a+$", "minLength": 1, "format": "date-time", "examples": ["a"]},
    t={"$ref": "#/$defs/T"},
)


@pytest.mark.parametrize(
    "schema",
    [
        {**PLAIN, "required": ["path"], "additionalProperties": False},
        {**FULL, "$defs": {"T": {"const": 1, "x-own": [None]}}},
    ],
)
def test_a_schema_that_servers_accept_is_sent_as_it_is(schema):
    assert normalised_schema(schema) == (schema, "")
    assert normalised_schema(schema).schema is schema


def _deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array"}
    for _ in range(levels):
        schema = _tool(a=schema)
    return schema


def _endless() -> dict[str, Any]:
    schema = _tool(s={"type": "array"})
    schema["properties"]["me"] = schema
    return schema


HOSTILE = {
    "deep": _deep(5_000),
    "wide": _tool(**{f"p{number}": {"type": "array"} for number in range(30_000)}),
    "long": _tool(a={"type": "array", "description": "x" * 10_000_000}),
    "ten megabytes": _tool(
        **{f"p{n}": _tool(**{f"q{m}": {"description": "x" * 100} for m in range(60)}) for n in range(1_000)}
    ),
    "contains itself": _endless(),
    "two circles": {
        **_tool(a={"$ref": "#/$defs/A"}),
        "$defs": {"A": {"allOf": [{"$ref": "#/$defs/B"}]}, "B": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "array"}]}},
    },
    "branches in a circle": {
        "anyOf": [{"$ref": "#"}, {"$ref": "#/$defs/A"}],
        "$defs": {"A": {"oneOf": [{"$ref": "#"}]}},
    },
    "keys": {"type": "object", "properties": {1: {}, "a": {2: 3}}, 4: 5},
    "pointer": _tool(a={"$ref": "#/properties/b/anyOf/0"}, b={"anyOf": [{"type": "array"}]}),
    "dropped target": {**_tool(a={"$ref": "#/anyOf/0"}), "anyOf": [{"type": "string"}]},
    "not JSON": _tool(a={"default": object(), "examples": [{1, 2}]}),
}


@pytest.mark.parametrize("name", [*HOSTILE, *REPAIRED])
def test_the_result_is_one_that_servers_and_the_kernel_accept(name):
    given = HOSTILE[name] if name in HOSTILE else REPAIRED[name][0]
    start = time.process_time()
    schema, _ = normalised_schema(given)
    assert time.process_time() - start < 10
    assert list(refusals(json.loads(json.dumps(schema, allow_nan=False)))) == []
    assert list(schema_problems(schema)) == []
    assert len(json.dumps(schema)) < 2_000_000
    again = normalised_schema(schema)
    assert again.schema == schema
    assert again.note == ""
