"""A tool takes exactly the arguments that its schema allows: the schema and the reader say the same of any JSON data."""

from __future__ import annotations

import asyncio
import enum
import json
import re
from typing import Annotated, Any, Literal, TypedDict

import annotated_types as at
import attrs
import jsonschema
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codex_framework import ToolCall, ToolError, tool


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 3


@attrs.frozen
class Node:
    size: Annotated[int, at.Ge(0), at.Lt(3)]
    nodes: tuple[Node, ...] = ()
    next: Node | None = None


class Table(TypedDict, total=False):
    name: Annotated[str, at.Len(1, 2)]
    rows: Annotated[list[Annotated[float, at.Gt(-1)]], at.MaxLen(2)]


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", strict=True)
    size: int = pydantic.Field(ge=0, lt=3)
    nodes: list[Model] = []
    next: Model | None = None


ANNOTATIONS = (
    Annotated[int, at.Ge(0), at.Lt(3)],
    Annotated[float, at.Gt(0), at.Le(2)],
    Annotated[int, at.MultipleOf(2)],
    Annotated[str, at.Len(1, 2)],
    Annotated[str, re.compile("^[a-z]")],
    Annotated[list[int], at.Len(1, 2)],
    Annotated[dict[str, int | None], at.MaxLen(1)],
    Annotated[int | str | None, at.Ge(1), at.MinLen(1)],
    list[Level] | Literal["all", 0, None],
    bool | float,
    Node,
    list[Node] | Node,
    Table,
    Model,
    Model | list[Model],
)

KEYS = st.sampled_from(["size", "nodes", "next", "name", "rows", "a"])
NUMBERS = st.sampled_from([1, 2, 0, 3, 4, -1, -1.0, 0.5, 2.0, 3.0, 1e300])
SCALARS = st.sampled_from(["a", "A", "", "ab", "abc", "all", "é", None, True, False]) | NUMBERS
NODES = st.recursive(
    st.builds(dict, size=NUMBERS),
    lambda inner: st.builds(dict, size=NUMBERS, nodes=st.lists(inner, max_size=2), next=inner | st.none()),
    max_leaves=4,
)
TABLES = st.fixed_dictionaries({}, optional={"name": SCALARS, "rows": st.lists(NUMBERS, max_size=3)})
VALUES = (
    SCALARS
    | st.lists(SCALARS, max_size=3)
    | st.lists(NUMBERS, max_size=3)
    | st.dictionaries(KEYS, SCALARS, max_size=3)
    | NODES
    | st.lists(NODES, max_size=2)
    | TABLES
)


def made(annotation: Any) -> Any:
    async def take(value):
        """Take it."""

    take.__annotations__["value"] = annotation
    return tool(take)


TOOLS = {str(annotation): made(annotation) for annotation in ANNOTATIONS}


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_takes_what_its_schema_allows_and_nothing_else(name):
    function = TOOLS[name]
    validator = jsonschema.Draft202012Validator(function.spec.parameters)

    @given(VALUES)
    def check(value: Any) -> None:
        assert reads(function, value) == validator.is_valid({"value": without_nulls(value)})

    check()


def reads(function: Any, value: Any) -> bool:
    try:
        asyncio.run(function.run(ToolCall("call_1", "take", json.dumps({"value": value})), None))
    except ToolError:
        return False
    return True


def without_nulls(value: Any) -> Any:
    """A property that is null may be left out where it has a default."""
    if isinstance(value, list):
        return [without_nulls(part) for part in value]
    if isinstance(value, dict):
        return {key: without_nulls(part) for key, part in value.items() if part is not None or key == "size"}
    return value


def test_the_data_meets_every_schema_and_misses_it():
    """The property would hold of tools that refuse everything."""
    fits, misses = dict.fromkeys(TOOLS, 0), dict.fromkeys(TOOLS, 0)

    @settings(max_examples=100)
    @given(VALUES)
    def count(value: Any) -> None:
        for name, function in TOOLS.items():
            counted = fits if reads(function, value) else misses
            counted[name] += 1

    count()
    assert [name for name in TOOLS if not (fits[name] and misses[name])] == []
