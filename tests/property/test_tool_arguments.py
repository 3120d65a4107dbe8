"""For any signature: what its schema allows is read back as the right values, and what it does not allow is refused."""

from __future__ import annotations

import asyncio
import inspect
import json
from typing import Any, Literal

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_framework import ToolCall, ToolError, tool
from codex_framework.contract.roles.tool_specs import spec_problems

SIMPLE = st.sampled_from([str, int, float, bool, Literal["a", "b"], Literal[1, True, None]])
NAMES = st.from_regex(r"[a-z]{1,6}", fullmatch=True).map(lambda name: f"{name}_")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def _class(fields: dict[str, Any]) -> Any:
    return attrs.make_class("Made", {name: attrs.field(type=kind) for name, kind in fields.items()}, frozen=True)


TYPES = st.recursive(
    SIMPLE,
    lambda inner: (
        inner.map(lambda kind: list[kind])
        | inner.map(lambda kind: dict[str, kind])
        | inner.map(lambda kind: kind | None if kind is not Literal else kind)
        | st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1])
        | st.dictionaries(NAMES, inner, min_size=1, max_size=3).map(_class)
    ),
    max_leaves=5,
)


@st.composite
def signatures(draw: st.DrawFn) -> dict[str, tuple[Any, bool]]:
    """Parameter name to its type, and whether it has a default."""
    return draw(st.dictionaries(NAMES, st.tuples(TYPES, st.booleans()), max_size=4))


def make(signature: dict[str, tuple[Any, bool]]) -> tuple[Any, list[dict[str, Any]]]:
    """A tool with this signature, and the list of what it was called with."""
    seen: list[dict[str, Any]] = []

    async def made(**keywords: Any) -> None:
        seen.append(keywords)

    empty = inspect.Parameter.empty
    made.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=None if optional else empty
            )
            for name, (kind, optional) in signature.items()
        ]
    )
    return tool(made), seen


def call(made: Any, text: str) -> None:
    context: Any = None
    asyncio.run(made.run(ToolCall("call_1", "made", text), context))


def allowed(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """JSON data that a schema allows."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of([allowed(part) for part in schema["anyOf"]])
    if isinstance(schema["type"], list):
        return st.one_of([allowed({"type": kind}) for kind in schema["type"]])
    if schema["type"] == "array":
        return st.lists(allowed(schema["items"]), max_size=3)
    if schema["type"] == "object" and "properties" not in schema:
        return st.dictionaries(st.text(max_size=4), allowed(schema["additionalProperties"]), max_size=3)
    if schema["type"] == "object":
        needed = {name: allowed(part) for name, part in schema["properties"].items() if name in schema["required"]}
        free = {name: allowed(part) for name, part in schema["properties"].items() if name not in schema["required"]}
        return st.fixed_dictionaries(needed, optional=free)
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "string": st.text(),
        "integer": st.integers(),
        "number": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53),
        "boolean": st.booleans(),
        "null": st.none(),
    }
    return kinds[schema["type"]]


def plain(value: Any) -> Any:
    """A Python value as the JSON data it was read from."""
    if attrs.has(type(value)):
        return {name: plain(getattr(value, name)) for name in _names(value)}
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    return value


def _names(value: Any) -> list[str]:
    return [field.name for field in attrs.fields(type(value))]


@given(signatures())
def test_every_schema_can_be_registered(signature: dict[str, tuple[Any, bool]]) -> None:
    made, _ = make(signature)
    assert list(spec_problems(made.spec)) == []
    json.dumps(made.spec.parameters)


@given(st.data(), signatures())
def test_what_the_schema_allows_arrives_unchanged(data: st.DataObject, signature: dict[str, tuple[Any, bool]]) -> None:
    made, seen = make(signature)
    sent = data.draw(allowed(made.spec.parameters))
    call(made, json.dumps(sent))
    assert {name: plain(value) for name, value in seen[0].items()} == sent


@given(signatures(), JSON)
def test_any_json_is_read_or_refused_in_one_sentence(signature: dict[str, tuple[Any, bool]], value: Any) -> None:
    made, _ = make(signature)
    try:
        call(made, json.dumps(value))
    except ToolError as error:
        assert str(error).startswith("failed to parse function arguments: ")


@given(signatures(), st.text())
def test_any_text_is_read_or_refused_in_one_sentence(signature: dict[str, tuple[Any, bool]], text: str) -> None:
    made, _ = make(signature)
    try:
        call(made, text)
    except ToolError as error:
        assert str(error).startswith("failed to parse function arguments: ")


@given(st.data(), signatures())
def test_an_unknown_argument_is_named(data: st.DataObject, signature: dict[str, tuple[Any, bool]]) -> None:
    made, _ = make(signature)
    sent = {"UNKNOWN": 1, **data.draw(allowed(made.spec.parameters))}
    with pytest.raises(ToolError, match="unknown field `UNKNOWN`"):
        call(made, json.dumps(sent))


@given(st.data(), signatures())
def test_a_missing_argument_is_named(data: st.DataObject, signature: dict[str, tuple[Any, bool]]) -> None:
    made, _ = make(signature)
    sent = data.draw(allowed(made.spec.parameters))
    for name in made.spec.parameters["required"]:
        rest = {key: value for key, value in sent.items() if key != name}
        with pytest.raises(ToolError, match=f"missing field `{name}`"):
            call(made, json.dumps(rest))
