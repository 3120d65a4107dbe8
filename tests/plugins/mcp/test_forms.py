"""The forms of elicitations: which are accepted, what is filled in, and which answers fit."""

from __future__ import annotations

import pytest

from codex_plugin_mcp.errors import ServerError
from codex_plugin_mcp.forms import answered, checked_form

COLOURS = {"type": "string", "enum": ["red", "green"]}
TITLED = {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]}
SEVERAL = {"type": "array", "items": COLOURS, "minItems": 1, "maxItems": 2}
SEVERAL_TITLED = {"type": "array", "items": {"anyOf": [{"const": "r", "title": "Red"}]}}


def form(required=(), **fields):
    return checked_form({"type": "object", "properties": fields, "required": list(required)})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ({"type": "string"}, ""),
        ({"type": "string", "minLength": 2, "maxLength": 3}, "abc"),
        ({"type": "string", "format": "email"}, "a@b.cd"),
        ({"type": "string", "format": "uri"}, "https://a.b/c"),
        ({"type": "string", "format": "date"}, "2026-02-28"),
        ({"type": "string", "format": "date-time"}, "2026-02-28T10:00:00Z"),
        ({"type": "string", "format": "unheard"}, "x"),
        ({"type": "number", "minimum": 0.5, "maximum": 1}, 0.75),
        ({"type": "number"}, 3),
        ({"type": "integer", "minimum": 3, "maximum": 3}, 3),
        ({"type": "integer"}, 3.0),
        ({"type": "boolean"}, False),
        (COLOURS, "red"),
        (TITLED, "g"),
        (SEVERAL, ["red", "green"]),
        (SEVERAL_TITLED, []),
        ({}, "text"),
    ],
)
def test_a_fitting_value_is_accepted(field, value):
    assert answered(form(["a"], a=field), {"a": value}) == ({"a": value}, [])


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ({"type": "string"}, 7, "a must be a string"),
        ({"type": "string", "minLength": 2}, "x", "a must be at least 2 characters"),
        ({"type": "string", "maxLength": 2}, "xyz", "a must be at most 2 characters"),
        ({"type": "string", "format": "email"}, "nobody", "a must be of the form email"),
        ({"type": "string", "format": "email"}, "a@b.c\nX", "a must be of the form email"),
        ({"type": "string", "format": "uri"}, "no uri", "a must be of the form uri"),
        ({"type": "string", "format": "date"}, "2026-13-01", "a must be of the form date"),
        ({"type": "string", "format": "date-time"}, "2026-01-01", "a must be of the form date-time"),
        ({"type": "number"}, True, "a must be a number"),
        ({"type": "number"}, float("nan"), "a must be a number"),
        ({"type": "number", "minimum": 0.5}, 0, "a must be at least 0.5"),
        ({"type": "number", "maximum": 2}, 2.5, "a must be at most 2"),
        ({"type": "integer"}, 2.5, "a must be a whole number"),
        ({"type": "integer"}, float("inf"), "a must be a whole number"),
        ({"type": "boolean"}, 1, "a must be true or false"),
        (COLOURS, "blue", "a must be one of: red, green"),
        (TITLED, "Red", "a must be one of: r, g"),
        (SEVERAL, ["blue"], "a must consist of: red, green"),
        (SEVERAL, [], "a must be at least 1 entries"),
        (SEVERAL, ["red", "red", "red"], "a must be at most 2 entries"),
        (SEVERAL, [7], "a must be a list of strings"),
        (SEVERAL_TITLED, ["x"], "a must consist of: r"),
        (SEVERAL, "red", "a must be a list"),
    ],
)
def test_a_value_that_does_not_fit_is_explained(field, value, problem):
    assert answered(form(a=field), {"a": value})[1] == [problem]


def test_defaults_fill_what_is_missing():
    fields = {
        "a": {"type": "string", "default": "x"},
        "b": {"type": "boolean", "default": False},
        "c": {"type": "string"},
    }
    assert answered(form(["a", "b"], **fields), {}) == ({"a": "x", "b": False}, [])
    assert answered(form(["a"], **fields), {"a": None, "b": True}) == ({"a": "x", "b": True}, [])
    assert answered(form(["c"], **fields), {"a": "y"})[1] == ["c is required"]
    assert answered(form(a={"type": "integer", "default": "x"}), {}) == ({"a": "x"}, ["a must be a whole number"])


def test_fields_that_the_form_does_not_have_are_left_out():
    assert answered(form(a={"type": "string"}), {"a": "x", "token": "secret"}) == ({"a": "x"}, [])
    assert answered(form(), [1])[1] == ["the content is list, not an object"]


@pytest.mark.parametrize(
    "schema",
    [
        None,
        [],
        {"type": "string"},
        {"type": "object", "properties": []},
        {"type": "object", "properties": {"a": {"type": "object"}}},
        {"type": "object", "properties": {"a": "text"}},
        {"type": "object", "properties": {"a": {"type": ["string", "null"]}}},
        {"type": "object", "properties": {"a\x1b[2J": {}}},
        {"type": "object", "properties": {"a\nb": {}}},
        {"type": "object", "properties": {}, "required": ["a"]},
        {"type": "object", "properties": {}, "required": "a"},
        {"type": "object", "properties": {str(number): {} for number in range(201)}},
        {"type": "object", "properties": {"a": {"description": "x" * 100_000}}},
    ],
)
def test_a_form_of_another_shape_is_refused(schema):
    with pytest.raises(ServerError) as refused:
        checked_form(schema)
    assert refused.value.code == -32602


def test_a_form_without_a_type_is_an_object():
    assert checked_form({}) == {"type": "object", "properties": {}}


def test_texts_for_the_person_have_no_control_characters():
    field = {
        "type": "string",
        "title": "A\x1b[31m",
        "description": "b\x07",
        "enum": ["x\x1b"],
        "enumNames": ["X\x1b[1m", 7],
    }
    (shown,) = form(a=field)["properties"].values()
    assert shown == {"type": "string", "title": "A", "description": "b", "enum": ["x\x1b"], "enumNames": ["X", 7]}
