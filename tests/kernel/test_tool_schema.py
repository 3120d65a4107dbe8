"""The tool decorator: the schema that a signature gives, arguments that fit and that don't, results."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import enum
import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NewType, NotRequired, Required, TypedDict

import attrs
import pytest

from codex_framework import (
    FreeformFormat,
    FreeformSpec,
    ToolCall,
    ToolContext,
    ToolError,
    ToolOutput,
    freeform_tool,
    tool,
)
from codex_framework.contract.roles.tool_specs import spec_problems

CONTEXT: Any = object()
"""Passed through untouched; these tools only look at whether they got it."""


def parameters(function: Any, *, strict: bool = False) -> Mapping[str, Any]:
    made = tool(strict=strict)(function)
    assert list(spec_problems(made.spec)) == []
    return made.spec.parameters


def property_of(annotation: Any) -> Any:
    def takes(value):
        """Take it."""

    takes.__annotations__["value"] = annotation
    return parameters(takes)["properties"]["value"]


def run(made: Any, arguments: Any, kind: str = "function") -> Any:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return asyncio.run(made.run(ToolCall("call_1", made.spec.name, text, kind), CONTEXT))


def refusal(made: Any, arguments: Any) -> str:
    with pytest.raises(ToolError) as caught:
        run(made, arguments)
    return str(caught.value)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@attrs.frozen
class Point:
    """A point.

    Attributes:
        x: To the right.
    """

    x: float
    y: float = 0.0
    _label: str | None = None


@dataclasses.dataclass
class Box:
    corner: Point
    tags: list[str] = dataclasses.field(default_factory=list)


class Movie(TypedDict):
    title: Annotated[str, "As on the poster."]
    year: NotRequired[int]


class Loose(TypedDict, total=False):
    title: Required[str]
    year: int


@attrs.frozen
class Even:
    number: int = attrs.field()

    @number.validator
    def _check(self, attribute: Any, value: int) -> None:
        if value % 2:
            raise ValueError(f"{value} is odd")


Name = NewType("Name", str)


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (Path, {"type": "string"}),
        (Any, {}),
        (Name, {"type": "string"}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal[1, "b", None], {"type": ["integer", "string", "null"], "enum": [1, "b", None]}),
        (Colour, {"type": "string", "enum": ["red", "blue"]}),
        (Level, {"type": "integer", "enum": [1, 2]}),
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (Sequence[Colour], {"type": "array", "items": {"type": "string", "enum": ["red", "blue"]}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Mapping[str, Any], {"type": "object", "additionalProperties": True}),
        (int | str, {"type": ["integer", "string"]}),
        (str | None, {"type": ["string", "null"]}),
        (list[int] | int, {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "integer"}]}),
        (Annotated[int, "How many."], {"type": "integer", "description": "How many."}),
        (
            Point,
            {
                "type": "object",
                "properties": {
                    "x": {"type": "number", "description": "To the right."},
                    "y": {"type": "number", "default": 0.0},
                    "label": {"type": "string"},
                },
                "required": ["x"],
                "additionalProperties": False,
            },
        ),
        (
            Movie,
            {
                "type": "object",
                "properties": {
                    "title": {"type": "string", "description": "As on the poster."},
                    "year": {"type": "integer"},
                },
                "required": ["title"],
                "additionalProperties": False,
            },
        ),
    ],
)
def test_an_annotation_gives_its_schema(annotation, schema):
    assert property_of(annotation) == schema


def test_a_typed_dict_says_itself_which_keys_it_needs():
    assert property_of(Loose)["required"] == ["title"]


def test_a_signature_and_docstring_give_the_whole_spec():
    @tool
    async def search(
        text: str,
        context: ToolContext,
        folder: str | None = None,
        mode: Literal["exact", "fuzzy"] = "exact",
        limit: int = 20,
        colour: Colour = Colour.BLUE,
    ) -> str:
        """Search the workspace.

        Finds lines that contain the text.

        Args:
            text: What to look for.
            context: Not for the model.
            folder (str): Where to look; a very long explanation
                that goes on in the next line.
            limit: At most so many.

        Returns:
            The lines.
        """
        return ""

    assert search.spec.name == "search"
    assert search.spec.description == "Search the workspace.\n\nFinds lines that contain the text."
    assert search.spec.strict is False
    assert search.spec.parameters == {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "What to look for."},
            "folder": {
                "type": "string",
                "description": "Where to look; a very long explanation that goes on in the next line.",
            },
            "mode": {"type": "string", "enum": ["exact", "fuzzy"], "default": "exact"},
            "limit": {"type": "integer", "description": "At most so many.", "default": 20},
            "colour": {"type": "string", "enum": ["red", "blue"], "default": "blue"},
        },
        "required": ["text"],
        "additionalProperties": False,
    }


def test_a_strict_schema_requires_all_and_lets_optional_ones_be_null():
    def search(text: str, limit: int = 20, folder: str | None = None, where: Point | None = None) -> str:
        """Search."""
        return f"{text} {limit} {folder} {where}"

    assert parameters(search, strict=True) == {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "limit": {"type": ["integer", "null"]},
            "folder": {"type": ["string", "null"]},
            "where": {
                "anyOf": [
                    {
                        "type": "object",
                        "properties": {
                            "x": {"type": "number", "description": "To the right."},
                            "y": {"type": ["number", "null"]},
                            "label": {"type": ["string", "null"]},
                        },
                        "required": ["x", "y", "label"],
                        "additionalProperties": False,
                    },
                    {"type": "null"},
                ]
            },
        },
        "required": ["text", "limit", "folder", "where"],
        "additionalProperties": False,
    }
    made = tool(strict=True)(search)
    sent = {"text": "a", "limit": None, "folder": None, "where": {"x": 1, "y": None, "label": None}}
    assert run(made, sent) == ToolOutput("a 20 None Point(x=1.0, y=0.0, _label=None)")


def test_strict_refuses_what_the_strict_subset_cannot_say():
    def free(values: dict[str, int]) -> str:
        """Take any."""
        return ""

    with pytest.raises(TypeError, match="free keys cannot be described in strict mode"):
        tool(strict=True)(free)


def test_arguments_become_python_values():
    seen = []

    @tool
    async def draw(
        context: ToolContext,
        box: Box,
        movie: Movie,
        colours: tuple[Colour, ...] = (),
        level: Level = Level.LOW,
        path: Path = Path("here"),
        either: int | str = 0,
        table: dict[str, list[int]] | None = None,
    ) -> None:
        """Draw."""
        seen.append((context, box, movie, colours, level, path, either, table))

    sent = {
        "box": {"corner": {"x": 1, "label": "a"}, "tags": ["t"]},
        "movie": {"title": "M"},
        "colours": ["blue", "red"],
        "level": 2,
        "path": "/tmp/x",
        "either": "seven",
        "table": {"a": [1, 2.0]},
    }
    assert run(draw, sent) == ToolOutput("Done.")
    assert seen == [
        (
            CONTEXT,
            Box(Point(1.0, 0.0, "a"), ["t"]),
            {"title": "M"},
            (Colour.BLUE, Colour.RED),
            Level.HIGH,
            Path("/tmp/x"),
            "seven",
            {"a": [1, 2]},
        )
    ]


@tool
def search(
    text: str, folder: str | None = None, limit: int = 20, where: Point | None = None, mode: Literal["a", "b"] = "a"
) -> str:
    """Search."""
    return f"{text} {folder} {limit} {where} {mode}"


PARSE = "failed to parse function arguments: "


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("{}", "missing field `text` at line 1 column 2"),
        ("", "missing field `text` at line 1 column 2"),
        ("[1]", "invalid type: sequence, expected a map at line 1 column 3"),
        ("null", "invalid type: null, expected a map at line 1 column 4"),
        ('{"text": 1}', "invalid type: integer `1`, expected a string at line 1 column 10"),
        ('{"text": "a", "limit": "3"}', 'invalid type: string "3", expected an integer at line 1 column 26'),
        ('{"text": "a", "limit": 2.5}', "invalid type: floating point `2.5`, expected an integer at line 1 column 26"),
        ('{"text": "a", "limit": true}', "invalid type: boolean `true`, expected an integer at line 1 column 27"),
        ('{"text": "a", "mode": "c"}', "unknown variant `c`, expected `a` or `b` at line 1 column 25"),
        ('{"text": "a", "where": {"x": "left"}}', 'invalid type: string "left", expected f64 at line 1 column 35'),
        ('{"text": "a", "where": 3}', "invalid type: integer `3`, expected a map at line 1 column 24"),
        (
            '{"text": "a", "txt": 1}',
            "unknown field `txt`, expected one of `text`, `folder`, `limit`, `where`, `mode` at line 1 column 19",
        ),
        ('{"text": NaN}', "expected value at line 1 column 10"),
        ('{"text": "a", "limit": -1e999}', "number out of range at line 1 column 29"),
        ("ls -l", "expected value at line 1 column 1"),
        ('{"text": "a"', "EOF while parsing an object at line 1 column 12"),
        ("[" * 100_000, "recursion limit exceeded at line 1 column 129"),
        ("[" * 129 + "]" * 129, "recursion limit exceeded at line 1 column 129"),
        ("[" * 128 + "]" * 128, "invalid type: sequence, expected a map at line 1 column 256"),
    ],
)
def test_arguments_that_do_not_fit_go_back_with_the_reason(arguments, text):
    assert refusal(search, arguments) == PARSE + text


def test_the_first_argument_of_the_wrong_form_is_reported_with_its_place():
    @tool
    def plot(points: list[Point], title: str) -> str:
        """Plot."""
        return ""

    sent = {"points": [{"x": 1}, {"x": 2, "y": "up", "z": 0}], "titel": "T"}
    assert refusal(plot, sent) == PARSE + 'invalid type: string "up", expected f64 at line 1 column 40'


def test_all_values_that_cannot_be_converted_are_listed_at_once_with_their_paths():
    @tool
    def plot(numbers: list[Even], more: dict[str, Even], day: datetime.date) -> str:
        """Plot."""
        return ""

    sent = {"numbers": [{"number": 1}, {"number": 2}], "more": {"a": {"number": 3}}, "day": "soon"}
    assert refusal(plot, sent).splitlines() == [
        "failed to parse function arguments: 3 problems",
        "- numbers[0]: 1 is odd",
        "- more.a: 3 is odd",
        '- day: expected a date such as 2026-01-31, got "soon"',
    ]


def test_a_long_wrong_value_is_quoted_in_part():
    assert len(refusal(search, {"text": "a", "limit": "9" * 5000})) < 200


def test_null_stands_for_the_default_of_an_optional_argument():
    assert run(search, {"text": "a", "limit": None, "folder": None, "where": None, "mode": None}) == ToolOutput(
        "a None 20 None a"
    )


def test_null_is_a_value_where_it_is_not_the_default():
    @tool
    def name(value: str | None = "anonymous") -> str:
        """Name."""
        return str(value)

    assert name.spec.parameters["properties"]["value"] == {"type": ["string", "null"], "default": "anonymous"}
    assert [run(name, sent).content for sent in ({}, {"value": None}, {"value": "x"})] == ["anonymous", "None", "x"]


def test_a_validator_of_the_authors_class_has_the_last_word():
    @tool
    def double(numbers: list[Even]) -> str:
        """Double."""
        return ""

    assert refusal(double, {"numbers": [{"number": 2}, {"number": 3}]}) == PARSE + "numbers[1]: 3 is odd"


@pytest.mark.parametrize(
    ("result", "content"),
    [
        ("text", "text"),
        (None, "Done."),
        ({"a": [1, "ü"]}, '{"a": [1, "ü"]}'),
        ([Point(1.0)], '[{"x": 1.0, "y": 0.0}]'),
        (3.5, "3.5"),
        (True, "true"),
        (Colour.RED, '"red"'),
        (Box(Point(1.0), ["t"]), '{"corner": {"x": 1.0, "y": 0.0}, "tags": ["t"]}'),
    ],
)
def test_a_result_becomes_text_for_the_model(result, content):
    @tool
    def give() -> Any:
        """Give."""
        return result

    assert run(give, {}) == ToolOutput(content)


def test_a_tool_output_is_passed_on_as_it_is():
    output = ToolOutput("no", success=False, truncate=False)

    @tool
    async def give() -> ToolOutput:
        """Give."""
        return output

    assert run(give, {}) is output


def test_a_result_that_is_no_json_is_the_authors_mistake():
    @tool
    def give() -> object:
        """Give."""
        return object()

    with pytest.raises(TypeError, match="the tool give returned object, which cannot be written as JSON"):
        run(give, {})


def test_a_plain_function_runs_in_a_thread_and_an_async_one_does_not():
    @tool
    def plain() -> int:
        """Tell the thread."""
        return threading.get_ident()

    @tool
    async def asynchronous() -> int:
        """Tell the thread."""
        return threading.get_ident()

    assert run(plain, {}).content != str(threading.get_ident())
    assert run(asynchronous, {}).content == str(threading.get_ident())


def test_a_tool_stays_callable_as_the_function_it_was():
    @tool
    def add(a: int, b: int = 2) -> int:
        """Add."""
        return a + b

    @tool(name="plus")
    async def add_slowly(a: int, context: ToolContext) -> int:
        """Add."""
        return a + 1

    assert (add(1), add(1, b=5), add.__name__, add.__doc__) == (3, 6, "add", "Add.")
    assert asyncio.run(add_slowly(1, CONTEXT)) == 2
    assert (repr(add_slowly), add_slowly.spec.name) == ("<FunctionTool plus>", "plus")


def test_options_of_the_decorator():
    @tool(name="x.look-1", description="Look!", parallel_safe=True, timeout_s=2.5, aliases=["see"])
    def look() -> str:
        """Not this."""
        return ""

    assert (look.spec.name, look.spec.description) == ("x.look-1", "Look!")
    assert (look.parallel_safe, look.timeout_s, look.aliases) == (True, 2.5, ("see",))
    assert (search.parallel_safe, search.timeout_s, search.aliases) == (False, None, ())


def test_a_tool_that_takes_too_long_is_given_up():
    @tool(timeout_s=0.01)
    async def wait() -> None:
        """Wait."""
        await asyncio.sleep(30)

    assert refusal(wait, {}) == "wait did not finish within 0.01 seconds"


def test_a_timeout_within_the_tool_is_the_tools_own():
    @tool(timeout_s=30)
    async def wait() -> None:
        """Wait."""
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        run(wait, {})


def test_a_bound_method_can_be_a_tool():
    class Counter:
        count = 0

        def bump(self, by: int) -> int:
            """Bump."""
            self.count += by
            return self.count

    assert run(tool(Counter().bump), {"by": 3}) == ToolOutput("3")


def test_the_context_may_be_imported_for_the_type_checker_only():
    def look(path: str, context) -> str:
        """Look."""
        return f"{path} {context is CONTEXT}"

    look.__annotations__["context"] = "kernel.ToolContext | None"
    assert run(tool(look), {"path": "p"}) == ToolOutput("p True")


def unsupported(annotation: Any) -> str:
    def takes(value):
        """Take it."""

    takes.__annotations__["value"] = annotation
    with pytest.raises(TypeError) as caught:
        tool(takes)
    return str(caught.value)


@pytest.mark.parametrize(
    ("annotation", "says"),
    [
        (bytes, "is annotated bytes, which cannot be described to a model; supported are str, int,"),
        (complex, "is annotated complex, which cannot be described to a model"),
        (list, "is annotated list, which cannot be described to a model: specify the type of its elements: list[str]"),
        (dict, "specify the types of keys and values: dict[str, int]"),
        (dict[int, str], "keys are always str in JSON"),
        (tuple[int, str], "write tuple[X, ...] for any number of X"),
        (list[bytes], "is annotated bytes"),
        ("Nowhere", "is annotated 'Nowhere', which cannot be resolved (NameError: name 'Nowhere' is not defined)"),
        (attrs.make_class("Bare", {"x": attrs.field(type=bytes)}), "field 'x' of Bare is annotated bytes"),
    ],
)
def test_an_annotation_that_cannot_be_told_to_a_model_fails_at_once_and_names_the_parameter(annotation, says):
    text = unsupported(annotation)
    assert text.startswith("parameter 'value' of takes")
    assert says in text


def test_other_mistakes_of_a_signature_fail_at_once():
    def bare(value):
        """Take."""

    def many(*values: int):
        """Take."""

    def positional(value: int, /):
        """Take."""

    def misdocumented(value: int):
        """Take.

        Args:
            valeu: Misspelt.
        """

    def twice(a: ToolContext, b: ToolContext):
        """Take."""

    texts = []
    for function in (bare, many, positional, misdocumented, twice):
        with pytest.raises(TypeError) as caught:
            tool(function)
        texts.append(str(caught.value).partition(";")[0])
    assert texts == [
        "parameter 'value' of bare has no annotation",
        "parameter 'values' of many takes any number of arguments, which cannot be described to a model",
        "parameter 'value' of positional is positional-only, but a model passes arguments by name",
        "the docstring of misdocumented describes valeu, which it has no parameter for",
        "twice has two ToolContext parameters, 'a' and 'b'",
    ]


def test_an_illegal_name_fails_at_once():
    with pytest.raises(ValueError, match="the tool name 'look at' is not allowed"):
        tool(name="look at")(lambda: "")


def test_a_freeform_tool_gets_the_text_and_the_context():
    @freeform_tool(grammar="start: /.+/", parallel_safe=True)
    async def shout(input: str, context: ToolContext) -> str:  # noqa: A002
        """Shout.

        Args:
            input: The text.
        """
        return input.upper() + str(context is CONTEXT)

    assert shout.spec == FreeformSpec("shout", "Shout.", FreeformFormat("lark", "start: /.+/"))
    assert shout.parallel_safe is True
    assert list(spec_problems(shout.spec)) == []
    assert run(shout, "hey", kind="custom") == ToolOutput("HEYTrue")
    assert asyncio.run(shout("a", CONTEXT)) == "ATrue"


def test_a_freeform_tool_may_leave_the_context_out_and_be_a_plain_function():
    @freeform_tool(grammar="[a-z]+", syntax="regex", name="low", description="Lower.")
    def shout(text):
        return text.lower()

    assert shout.spec == FreeformSpec("low", "Lower.", FreeformFormat("regex", "[a-z]+"))
    assert run(shout, "HEY", kind="custom") == ToolOutput("hey")


def test_a_freeform_tool_with_other_parameters_syntax_or_no_grammar_fails_at_once():
    with pytest.raises(TypeError, match=r"two takes a, b; a freeform tool takes one string"):

        @freeform_tool(grammar="x")
        def two(a, b):
            pass

    with pytest.raises(ValueError, match="'lark' or 'regex', not 'ebnf'"):
        freeform_tool(grammar="x", syntax="ebnf")
    with pytest.raises(ValueError, match="the grammar is empty"):
        freeform_tool(grammar=" ")
