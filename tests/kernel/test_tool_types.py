"""Argument types of @tool beyond those of JSON: bounds, dates and the like, types that contain themselves, pydantic's models."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import json
import re
import sys
from decimal import Decimal
from typing import Annotated, Any, Literal, Optional, TypedDict
from uuid import UUID

import annotated_types as at
import attrs
import jsonschema
import pydantic
import pytest
from typing_extensions import TypeAliasType

from codex_framework import Agent, FunctionSpec, RunError, ToolCall, ToolError, tool
from codex_framework.contract.roles.tool_specs import spec_problems
from codex_framework.threads.output import Output

UTC = datetime.UTC
WHEN = "a date and time such as 2026-01-31T13:45:00Z"


def made_of(annotation: Any, *, strict: bool = False) -> Any:
    def take(value):
        """Take it."""
        SEEN.append(value)
        return value

    take.__annotations__["value"] = annotation
    made = tool(strict=strict)(take)
    assert list(spec_problems(made.spec)) == []
    jsonschema.Draft202012Validator.check_schema(made.spec.parameters)
    return made


SEEN: list[Any] = []


def schema_of(annotation: Any, *, strict: bool = False) -> Any:
    return made_of(annotation, strict=strict).spec.parameters["properties"]["value"]


def read(annotation: Any, value: Any, *, strict: bool = False) -> Any:
    made = made_of(annotation, strict=strict)
    asyncio.run(made.run(ToolCall("call_1", "take", json.dumps({"value": value})), None))
    return SEEN.pop()


def refusal(annotation: Any, value: Any, *, strict: bool = False) -> str:
    with pytest.raises(ToolError) as caught:
        read(annotation, value, strict=strict)
    return str(caught.value).removeprefix("failed to parse function arguments: ")


class Meta:
    """Bounds as msgspec writes them."""

    def __init__(self, **bounds: Any) -> None:
        self.__dict__ |= bounds


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (Annotated[int, at.Ge(1), at.Le(10)], {"type": "integer", "minimum": 1, "maximum": 10}),
        (Annotated[float, at.Interval(gt=0, lt=1)], {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}),
        (Annotated[int, at.MultipleOf(5)], {"type": "integer", "multipleOf": 5}),
        (Annotated[str, at.Len(1, 5)], {"type": "string", "minLength": 1, "maxLength": 5}),
        (Annotated[str, at.Len(0, 5)], {"type": "string", "maxLength": 5}),
        (Annotated[str, 1:5], {"type": "string", "minLength": 1, "maxLength": 5}),
        (Annotated[str, re.compile("^a+$")], {"type": "string", "pattern": "^a+$"}),
        (Annotated[list[int], at.MaxLen(2)], {"type": "array", "items": {"type": "integer"}, "maxItems": 2}),
        (
            Annotated[dict[str, int], at.MinLen(1)],
            {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1},
        ),
        (Annotated[int | None, at.Ge(1)], {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]}),
        (Annotated[int, Meta(ge=2, description="How many.")], {"type": "integer", "minimum": 2, "description": "How many."}),
        (Annotated[int, pydantic.Field(ge=2, description="How many.")], {"type": "integer", "minimum": 2, "description": "How many."}),
        (Annotated[str, pydantic.Field(pattern="^a$")], {"type": "string", "pattern": "^a$"}),
        (
            list[Annotated[int, "A percentage.", at.Le(100)]],
            {"type": "array", "items": {"type": "integer", "maximum": 100, "description": "A percentage."}},
        ),
        (
            Annotated[datetime.date, "The day.", at.Ge(datetime.date(2026, 1, 1))],
            {"type": "string", "format": "date", "description": "The day. At least 2026-01-01."},
        ),
        (Annotated[str, at.Predicate(str.islower)], {"type": "string", "description": "That passes islower."}),
        (
            Annotated[str, re.compile("^a", re.IGNORECASE)],
            {"type": "string", "description": "Matching ^a."},
        ),
    ],
)  # fmt: skip
def test_bounds_are_in_the_schema_or_else_in_the_description(annotation, schema):
    assert schema_of(annotation) == schema


def test_a_strict_schema_has_no_bounds_outside_of_the_subset():
    assert schema_of(Annotated[str, at.Len(1, 5), re.compile("^a")], strict=True) == {
        "type": "string",
        "pattern": "^a",
        "description": "At least 1 characters, at most 5 characters.",
    }


@pytest.mark.parametrize(
    ("annotation", "value", "text"),
    [
        (Annotated[int, at.Ge(1), at.Le(10)], 11, "value: expected an integer (at least 1, at most 10), got 11"),
        (Annotated[int, at.Gt(1)], 1, "value: expected an integer (more than 1), got 1"),
        (Annotated[float, at.Lt(1)], 1, "value: expected a number (less than 1), got 1"),
        (Annotated[int | None, at.Ge(1)], 0, "value: expected an integer (at least 1), got 0"),
        (Annotated[float, at.MultipleOf(0.1)], 0.35, "value: expected a number (a multiple of 0.1), got 0.35"),
        (Annotated[str, at.MaxLen(2)], "abc", "value: expected a string (at most 2 characters), got 3 characters"),
        (Annotated[list[int], at.MinLen(2)], [1], "value: expected an array (at least 2 items), got 1 items"),
        (Annotated[list[int], at.MinLen(2)], [1, "a"], 'invalid type: string "a", expected an integer at line 1 column 17'),
        (Annotated[list[int] | None, at.MinLen(2)], [1], "value: expected an array (at least 2 items), got 1 items"),
        (list[Annotated[int, at.Le(3)]], [1, 5], "value[1]: expected an integer (at most 3), got 5"),
        (Annotated[str, re.compile("^a+$")], "b", 'value: expected a string (matching ^a+$), got "b"'),
        (Annotated[str, at.Predicate(str.islower)], "A", 'value: expected a string (that passes islower), got "A"'),
        (
            Annotated[datetime.datetime, at.Ge(datetime.datetime(2026, 1, 1, tzinfo=UTC))],
            "2026-01-02T00:00:00",
            f"value: expected {WHEN} (at least 2026-01-01 00:00:00+00:00), got \"2026-01-02T00:00:00\"",
        ),
        (Annotated[Decimal, at.Le(1)], "1.01", 'value: expected a decimal number in a string such as "1.50" (at most 1), got "1.01"'),
    ],
)  # fmt: skip
def test_a_value_out_of_bounds_goes_back_with_the_bounds(annotation, value, text):
    assert refusal(annotation, value) == text


@pytest.mark.parametrize(
    ("annotation", "value", "result"),
    [
        (Annotated[int, at.Ge(1), at.Le(10)], 10, 10),
        (Annotated[int, at.Ge(1), at.Le(10)], 1, 1),
        (Annotated[str, at.Len(2, 2)], "ab", "ab"),
        (Annotated[int | None, at.Ge(1)], None, None),
        (Annotated[float, at.MultipleOf(0.1)], 0.3, 0.3),
        (Annotated[int | str, at.Ge(1), at.MinLen(2)], "ab", "ab"),
        (Annotated[set[int], at.MinLen(2)], [1, 1], {1}),
        (datetime.datetime, "2026-01-31T13:45:00Z", datetime.datetime(2026, 1, 31, 13, 45, tzinfo=UTC)),
        (datetime.date, "2026-01-31", datetime.date(2026, 1, 31)),
        (datetime.time, "13:45:10", datetime.time(13, 45, 10)),
        (datetime.timedelta, "P1W2DT3H4M5.5S", datetime.timedelta(9, 3 * 3600 + 4 * 60 + 5.5)),
        (datetime.timedelta, "-PT1M", datetime.timedelta(minutes=-1)),
        (UUID, "12345678-1234-5678-1234-567812345678", UUID("12345678-1234-5678-1234-567812345678")),
        (Decimal, "1.50", Decimal("1.50")),
        (Decimal, 0.1, Decimal("0.1")),
        (Decimal, 12345678901234567890, Decimal(12345678901234567890)),
        (dict[str, list[Decimal]], {"a": ["1"]}, {"a": [Decimal(1)]}),
        (UUID | Literal["none"], "none", "none"),
    ],
)
def test_values_are_read(annotation, value, result):
    seen = read(annotation, value)
    assert (seen, type(seen)) == (result, type(result))


@pytest.mark.parametrize(
    ("annotation", "value", "text"),
    [
        (datetime.datetime, "soon", 'value: expected a date and time such as 2026-01-31T13:45:00Z, got "soon"'),
        (datetime.date, 5, "value: expected a date such as 2026-01-31, got 5"),
        (datetime.time, "25:00", 'value: expected a time such as 13:45:00, got "25:00"'),
        (datetime.timedelta, "P1Y", 'value: expected a duration such as P1DT2H30M, got "P1Y"'),
        (datetime.timedelta, "PT", 'value: expected a duration such as P1DT2H30M, got "PT"'),
        (datetime.timedelta, f"P{'9' * 400}D", "value: expected a duration such as P1DT2H30M, got "),
        (UUID, "123", 'value: expected a UUID, got "123"'),
        (Decimal, "NaN", 'value: expected a decimal number in a string such as "1.50", got "NaN"'),
        (Decimal, True, 'value: expected a decimal number in a string such as "1.50", got true'),
    ],
)
def test_a_text_in_another_format_goes_back(annotation, value, text):
    assert refusal(annotation, value).startswith(text)


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (Annotated[bool, at.Ge(1)], "the bound ge=1 does not fit a boolean"),
        (Annotated[str, at.Ge(1)], "the bound ge=1 does not fit a string"),
        (Annotated[int | bool, at.MaxLen(1)], "the bound max_length=1 does not fit an integer or a boolean"),
        (Annotated[datetime.datetime, at.Timezone("UTC")], "the bound Timezone(tz='UTC') is unsupported"),
        (Annotated[int, pydantic.Field(alias="x")], "alias and default of a Field are unsupported"),
        (Annotated[int, pydantic.Field(default=1)], "alias and default of a Field are unsupported"),
        (Annotated[bytes, at.MaxLen(1)], "bytes, which cannot be described to a model; supported are"),
    ],
)
def test_a_bound_that_cannot_be_kept_is_an_error_of_the_author(annotation, text):
    with pytest.raises(TypeError) as caught:
        made_of(annotation)
    assert text in str(caught.value)
    assert str(caught.value).startswith("parameter 'value' of take is annotated ")


def test_unrelated_metadata_is_left_alone():
    class Widget:
        def gt(self) -> None:
            """A method is no bound."""

    assert schema_of(Annotated[int, Widget(), at.Unit("s"), object()]) == {"type": "integer"}


def test_defaults_and_results_of_these_types_are_written_as_they_are_read():
    @tool
    def take(
        day: datetime.date = datetime.date(2026, 1, 2),
        patience: datetime.timedelta = datetime.timedelta(days=1, seconds=1, microseconds=500_000),
        price: Decimal = Decimal("1.50"),
        key: UUID = UUID(int=1),  # noqa: B008
    ) -> dict[str, Any]:
        """Take."""
        return {"all": [day, patience, price, key, -patience, datetime.timedelta(), Model(count=1)]}

    properties = take.spec.parameters["properties"]
    defaults = ["2026-01-02", "P1DT1.5S", "1.50", "00000000-0000-0000-0000-000000000001"]
    assert [part["default"] for part in properties.values()] == defaults
    result = asyncio.run(take.run(ToolCall("call_1", "take", "{}"), None))
    assert json.loads(result.content)["all"][:6] == [*defaults, "-P1DT1.5S", "P0D"]
    assert json.loads(result.content)["all"][6] == {"count": 1, "name": "x", "day": None, "next": None}
    assert read(datetime.timedelta, "P1DT1.5S") == datetime.timedelta(1, 1.5)


# Types that contain themselves


@attrs.frozen
class Tree:
    label: str
    children: tuple[Tree, ...] = ()


@dataclasses.dataclass
class Folder:
    """A folder.

    Attributes:
        parent: Where it is.
    """

    name: str
    parent: Folder | None = None


class Chain(TypedDict):
    item: Link


class Link(TypedDict):
    chain: Chain | None


TREE = {
    "type": "object",
    "properties": {
        "label": {"type": "string"},
        "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
    },
    "required": ["label"],
    "additionalProperties": False,
}


def test_a_type_that_contains_itself_is_a_definition():
    def draw(tree: Tree, other: Tree, folder: Folder | None = None) -> None:
        """Draw.

        Args:
            other: Another one.
        """

    made = tool(draw)
    parameters = made.spec.parameters
    assert parameters["properties"]["tree"] == {"$ref": "#/$defs/Tree"}
    assert parameters["properties"]["other"] == {"$ref": "#/$defs/Tree", "description": "Another one."}
    assert parameters["$defs"]["Tree"] == TREE
    assert parameters["$defs"]["Folder"]["properties"]["parent"] == {
        "$ref": "#/$defs/Folder",
        "description": "Where it is.",
    }
    strict = tool(strict=True)(draw).spec
    assert list(spec_problems(strict)) == []
    assert strict.parameters["properties"]["other"] == {
        "anyOf": [{"$ref": "#/$defs/Tree"}],
        "description": "Another one.",
    }
    assert strict.parameters["$defs"]["Folder"] == {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "parent": {"anyOf": [{"$ref": "#/$defs/Folder"}, {"type": "null"}], "description": "Where it is."},
        },
        "required": ["name", "parent"],
        "additionalProperties": False,
    }


def test_values_of_any_depth_are_read_with_the_path_of_each_problem():
    nested = {"label": "a", "children": [{"label": "b", "children": [{"label": "c"}]}]}
    assert read(Tree, nested) == Tree("a", (Tree("b", (Tree("c"),)),))
    wrong = {"label": "a", "children": [{"label": "b", "children": [{"lable": "c"}]}]}
    assert refusal(Tree, wrong) == "unknown field `lable`, expected `label` or `children` at line 1 column 74"
    three = {"label": "a", "children": [3]}
    assert refusal(Tree | None, three) == "invalid type: integer `3`, expected a map at line 1 column 39"
    assert read(Chain, {"item": {"chain": {"item": {"chain": None}}}}) == {"item": {"chain": {"item": {"chain": None}}}}
    deep: Any = {"label": "x"}
    for _ in range(60):
        deep = {"label": "x", "children": [deep]}
    assert isinstance(read(Tree, deep), Tree)
    for _ in range(10):
        deep = {"label": "x", "children": [deep]}
    assert refusal(Tree, deep).startswith("recursion limit exceeded at line 1 column "), (
        "more than the 128 levels that Codex reads"
    )


def test_faults_of_definitions_and_choices_are_found():
    open_object = {"type": "object", "properties": {"x": {"type": "text"}}}
    parameters: Any = {"type": "object", "additionalProperties": False, "$defs": {"Open": open_object}}
    assert list(spec_problems(FunctionSpec("a", "A.", parameters))) == [
        "its parameters.$defs.Open.x has the unknown type 'text'"
    ]
    parameters["$defs"]["Open"]["properties"] = {}
    parameters |= {"properties": {"y": {"anyOf": [open_object]}}, "required": ["y"]}
    assert list(spec_problems(FunctionSpec("a", "A.", parameters, strict=True))) == [
        "its parameters.y.anyOf[0] is strict and needs additionalProperties: false",
        "its parameters.$defs.Open is strict and needs additionalProperties: false",
    ]
    parameters["$defs"] = []
    assert list(spec_problems(FunctionSpec("a", "A.", parameters))) == ["its parameters.$defs is list, not a dict"]


def test_two_types_of_one_name_keep_apart():
    def local() -> Any:
        @attrs.frozen
        class Tree:
            leaves: list[Tree]

        return Tree

    Other = local()

    def draw(tree: Tree, other: Other) -> None:
        """Draw."""

    parameters = tool(draw).spec.parameters
    assert parameters["properties"] == {"tree": {"$ref": "#/$defs/Tree"}, "other": {"$ref": "#/$defs/Tree_2"}}
    assert list(parameters["$defs"]["Tree_2"]["properties"]) == ["leaves"]
    assert parameters["$defs"]["Tree_2"]["properties"]["leaves"]["items"] == {"$ref": "#/$defs/Tree_2"}


Json = TypeAliasType("Json", "str | list[Json] | dict[str, Json] | None")


@pytest.mark.parametrize("is_new", [False, True])
def test_an_alias_may_contain_itself(is_new):
    alias: Any = Json
    if is_new:
        if sys.version_info < (3, 12):
            pytest.skip("the type statement is new in Python 3.12")
        space: dict[str, Any] = {}
        exec("type Json = str | list[Json] | dict[str, Json] | None", space)
        alias = space["Json"]
    assert schema_of(alias) == {"$ref": "#/$defs/Json"}
    assert read(alias, {"a": [None, {"b": "c"}]}) == {"a": [None, {"b": "c"}]}
    assert read(alias, None) is None
    wrong = "invalid type: integer `1`, expected a string or a sequence or a map or null at line 1 column 18"
    assert refusal(alias, {"a": [1]}) == wrong


def test_the_output_of_an_agent_may_contain_itself():
    output = Output(Agent(name="a", output_type=Tree))
    assert output.schema["type"] == "object"
    assert output.schema["properties"]["children"]["anyOf"][0]["items"] == {"$ref": "#/$defs/Tree"}
    sent = {"label": "a", "children": [{"label": "b", "children": None}]}
    jsonschema.Draft202012Validator(output.schema).validate(sent)
    assert output.read(json.dumps(sent)) == Tree("a", (Tree("b"),))
    assert Output(Agent(name="a", output_type=list[Tree])).read('{"value": [{"label": "a"}]}') == [Tree("a")]


# Pydantic


class Model(pydantic.BaseModel):
    """Some things."""

    model_config = pydantic.ConfigDict(extra="forbid")
    count: int = pydantic.Field(ge=1, description="How many.")
    name: str = "x"
    day: datetime.date | None = None
    next: Model | None = None


class Box(pydantic.BaseModel):
    model: Model = pydantic.Field(description="What is in it.")
    tags: dict[str, str] = {}


@attrs.frozen
class Holder:
    model: Model
    tree: Tree


@dataclasses.dataclass
class Shelf:
    holders: list[Holder]
    sizes: set[Decimal]


def test_a_model_of_pydantic_describes_itself():
    parameters = made_of(Model).spec.parameters
    assert parameters["properties"]["value"] == {"$ref": "#/$defs/Model"}
    assert parameters["$defs"]["Model"] == {
        "type": "object",
        "description": "Some things.",
        "properties": {
            "count": {"type": "integer", "minimum": 1, "description": "How many."},
            "name": {"type": "string", "default": "x"},
            "day": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}], "default": None},
            "next": {"anyOf": [{"$ref": "#/$defs/Model"}, {"type": "null"}], "default": None},
        },
        "required": ["count"],
        "additionalProperties": False,
    }
    inner = made_of(list[Holder]).spec.parameters
    assert set(inner["$defs"]) == {"Model", "Tree"}
    assert inner["properties"]["value"]["items"]["properties"]["model"] == {"$ref": "#/$defs/Model"}


def test_pydantic_reads_its_models_and_says_what_is_wrong():
    sent = {"count": 1, "day": "2026-01-31", "next": {"count": 2}}
    assert read(Model, sent) == Model(count=1, day=datetime.date(2026, 1, 31), next=Model(count=2))
    assert read(Holder, {"model": {"count": 1}, "tree": {"label": "a"}}) == Holder(Model(count=1), Tree("a"))
    assert read(list[Model] | None, [{"count": 3}]) == [Model(count=3)]
    assert refusal(Model, {"count": 0, "next": {"count": "many"}, "more": 1}).splitlines() == [
        "3 problems",
        "- value.count: Input should be greater than or equal to 1",
        "- value.next.count: Input should be a valid integer, unable to parse string as an integer",
        "- value.more: Extra inputs are not permitted",
    ]
    assert refusal(list[Model], [{"count": 1}, 5]) == "value[1]: Input should be an object"
    assert refusal(Model | None, {"count": 0}) == "value.count: Input should be greater than or equal to 1"


def test_models_of_one_name_keep_apart():
    def local() -> Any:
        class Model(pydantic.BaseModel):
            other: Model | None = None

        return Model

    Other = local()

    def take(first: Model, second: Other, third: Model) -> None:
        """Take."""

    parameters = tool(take).spec.parameters
    assert [part["$ref"] for part in parameters["properties"].values()] == [
        "#/$defs/Model",
        "#/$defs/Model_2",
        "#/$defs/Model",
    ]
    assert list(parameters["$defs"]["Model_2"]["properties"]) == ["other"]
    assert parameters["$defs"]["Model_2"]["properties"]["other"]["anyOf"][0] == {"$ref": "#/$defs/Model_2"}


def test_results_may_hold_each_other():
    shelf = Shelf([Holder(Model(count=1), Tree("a"))], {Decimal(1)})

    @tool
    def give() -> Shelf:
        """Give."""
        return shelf

    model = {"count": 1, "name": "x", "day": None, "next": None}
    assert json.loads(asyncio.run(give.run(ToolCall("call_1", "give", "{}"), None)).content) == {
        "holders": [{"model": model, "tree": {"label": "a", "children": []}}],
        "sizes": ["1"],
    }


def test_a_strict_model_asks_for_null_where_it_has_a_default():
    class Inner(pydantic.BaseModel):
        model: Model = pydantic.Field(description="What is in it.")
        size: Literal["s", "m"] = "m"

    made = made_of(Inner, strict=True)
    properties = made.spec.parameters["properties"]["value"]["properties"]
    assert properties["model"] == {"anyOf": [{"$ref": "#/$defs/Model"}], "description": "What is in it."}
    assert properties["size"] == {"anyOf": [{"enum": ["s", "m"], "type": "string"}, {"type": "null"}]}
    assert made.spec.parameters["$defs"]["Model"]["required"] == ["count", "name", "day", "next"]
    sent = {"model": {"count": 1, "name": None, "day": None, "next": None}, "size": None}
    jsonschema.Draft202012Validator(made.spec.parameters).validate({"value": sent})
    assert read(Inner, sent, strict=True) == Inner(model=Model(count=1))
    with pytest.raises(TypeError, match="free keys cannot be described in strict mode"):
        made_of(Box, strict=True)


def test_metadata_of_pydantic_is_pydantics_own_business():
    Doubled = Annotated[int, pydantic.AfterValidator(lambda number: number * 2)]
    assert read(Doubled, 4) == 8
    Code = Annotated[str, pydantic.StringConstraints(strip_whitespace=True, to_upper=True, max_length=3)]
    assert (schema_of(Code), read(Code, " ab ")) == ({"type": "string", "maxLength": 3}, "AB")
    assert read(pydantic.AnyHttpUrl, "http://a/b") == pydantic.AnyHttpUrl("http://a/b")
    assert (
        refusal(Annotated[int, pydantic.Field(multiple_of=3)], 4)
        == "value: expected an integer (a multiple of 3), got 4"
    )
    with pytest.raises(TypeError, match="pydantic refuses it"):
        made_of(Annotated[threading_lock(), pydantic.AfterValidator(str)])


def threading_lock() -> Any:
    class Lock:
        """A class that nobody can read from JSON."""

    return Lock


def test_the_output_of_an_agent_may_be_a_model_of_pydantic():
    output = Output(Agent(name="a", output_type=Model))
    assert output.read('{"count": 1, "name": null, "day": null, "next": null}') == Model(count=1)
    with pytest.raises(RunError, match=r"the output.count: Input should be greater than or equal to 1"):
        output.read('{"count": 0, "name": "", "day": null, "next": null}')


def test_without_pydantic_the_other_types_need_nothing(monkeypatch):
    class Foreign:
        @classmethod
        def __get_pydantic_core_schema__(cls) -> None:
            """As a class for pydantic has it."""

    monkeypatch.setitem(sys.modules, "pydantic", None)
    with pytest.raises(TypeError, match="this requires pydantic 2; install it with: pip install 'pydantic>=2'"):
        made_of(Foreign)
    assert read(Optional[Tree], None) is None  # noqa: UP045  # the older notation
