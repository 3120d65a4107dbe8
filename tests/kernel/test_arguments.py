from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_framework import Argument, ToolError, arguments_schema, parse_arguments

FIELDS = {
    "cmd": Argument("string", required=True),
    "yield_time_ms": Argument("u64", aliases=("yield",)),
    "tty": Argument("boolean"),
    "session_id": Argument("i32"),
    "prefix_rule": Argument("strings"),
    "status": Argument("string", choices=("pending", "in_progress", "completed")),
    "level": Argument("string", choices=("low", "high")),
    "ratio": Argument("number"),
    "extra": Argument("any"),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"cmd": "x"}', {"cmd": "x"}),
        (' {"cmd": "x", "bogus": {"a": [1]}} ', {"cmd": "x"}),
        ('{"cmd": "x", "yield": 5}', {"cmd": "x", "yield_time_ms": 5}),
        ('{"cmd": "x", "tty": null, "prefix_rule": null}', {"cmd": "x"}),
        ('{"cmd": "x", "prefix_rule": ["a", "b"], "tty": true}', {"cmd": "x", "prefix_rule": ["a", "b"], "tty": True}),
        ('{"cmd": "x", "status": "pending", "ratio": 1}', {"cmd": "x", "status": "pending", "ratio": 1}),
        ('{"cmd": "\\ud83d\\ude00"}', {"cmd": "😀"}),
        ('{"cmd": "x", "extra": [1, {}]}', {"cmd": "x", "extra": [1, {}]}),
    ],
)
def test_fields_that_were_asked_for_come_back(text: str, expected: dict[str, Any]) -> None:
    assert parse_arguments(text, FIELDS) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "EOF while parsing a value at line 1 column 0"),
        ("{not json", "key must be a string at line 1 column 2"),
        ("{}", "missing field `cmd` at line 1 column 2"),
        ('{"cmd": 5}', "invalid type: integer `5`, expected a string at line 1 column 9"),
        ('{"cmd": 1.5}', "invalid type: floating point `1.5`, expected a string at line 1 column 11"),
        ('{"cmd": null}', "invalid type: null, expected a string at line 1 column 12"),
        ('{"cmd": true}', "invalid type: boolean `true`, expected a string at line 1 column 12"),
        ('{"cmd": ["a"]}', "invalid type: sequence, expected a string at line 1 column 8"),
        ('{"cmd": {}}', "invalid type: map, expected a string at line 1 column 8"),
        ('{"cmd":\n  5}', "invalid type: integer `5`, expected a string at line 2 column 3"),
        ('{"cmd": "é", "session_id": "x"}', 'invalid type: string "x", expected i32 at line 1 column 31'),
        ('{"session_id": ""}', 'invalid type: string "", expected i32 at line 1 column 17'),
        ('{"session_id": 5000000000}', "invalid value: integer `5000000000`, expected i32 at line 1 column 25"),
        ('{"yield_time_ms": 1.0}', "invalid type: floating point `1.0`, expected u64 at line 1 column 21"),
        ('{"cmd": "y", "yield_time_ms": -5}', "invalid value: integer `-5`, expected u64 at line 1 column 32"),
        ('{"tty": "yes"}', 'invalid type: string "yes", expected a boolean at line 1 column 13'),
        ('{"prefix_rule": "ls"}', 'invalid type: string "ls", expected a sequence at line 1 column 20'),
        ('{"prefix_rule": ["a", 3]}', "invalid type: integer `3`, expected a string at line 1 column 23"),
        (
            '{"plan": [], "status": "bogus"}',
            "unknown variant `bogus`, expected one of `pending`, `in_progress`, `completed` at line 1 column 30",
        ),
        ('{"level": "mid"}', "unknown variant `mid`, expected `low` or `high` at line 1 column 15"),
        ('{"level": 3}', "expected value at line 1 column 11"),
        ("[]", "invalid type: sequence, expected a map at line 1 column 2"),
        ('"text"', 'invalid type: string "text", expected a map at line 1 column 6'),
        ('{"cmd": "a",}', "trailing comma at line 1 column 13"),
        ('{"cmd": "a" "b"}', "expected `,` or `}` at line 1 column 13"),
        ('{"cmd" "a"}', "expected `:` at line 1 column 8"),
        ('{"cmd": "a', "EOF while parsing a string at line 1 column 10"),
        ('{"cmd": "a"', "EOF while parsing an object at line 1 column 11"),
        ('{"cmd": ', "EOF while parsing a value at line 1 column 8"),
        ('{"x": [1', "EOF while parsing a list at line 1 column 8"),
        ('{"x": [1 2]}', "expected `,` or `]` at line 1 column 10"),
        ('{"cmd": "a"} x', "trailing characters at line 1 column 14"),
        ('{"cmd": NaN}', "expected value at line 1 column 9"),
        ('{"cmd": "a", "x": [-1e999]}', "number out of range at line 1 column 25"),
        ('{"cmd": tru}', "expected ident at line 1 column 12"),
        ('{"cmd": 01}', "invalid number at line 1 column 10"),
        ('{"cmd": -}', "invalid number at line 1 column 10"),
        ('{"cmd": "a\nb"}', "control character (\\u0000-\\u001F) found while parsing a string at line 1 column 10"),
        ('{"cmd": "\\q"}', "invalid escape at line 1 column 11"),
        ('{"cmd": "\\ud800"}', "unexpected end of hex escape at line 1 column 16"),
        ('{"cmd": "\\udc00"}', "lone leading surrogate in hex escape at line 1 column 15"),
        ("[" * 100_000, "recursion limit exceeded at line 1 column 129"),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(text: str, expected: str) -> None:
    with pytest.raises(ToolError) as caught:
        parse_arguments(text, FIELDS)
    assert caught.value.fact == f"failed to parse function arguments: {expected}"


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*FIELDS, "x"]), inner, max_size=3),
    max_leaves=8,
)


@given(ANY_JSON, st.data())
def test_any_text_gives_arguments_or_a_clear_error(value: object, data: st.DataObject) -> None:
    text = json.dumps(value, ensure_ascii=data.draw(st.booleans()))
    text = text[: data.draw(st.integers(0, len(text)))] + data.draw(st.sampled_from(["", "}", "]", '"', "\\", "1"]))
    try:
        found = parse_arguments(text, FIELDS)
    except ToolError as error:
        refused = error
    else:
        assert set(found) <= set(FIELDS)
        assert isinstance(found["cmd"], str)
        return
    assert "cannot be read" not in refused.fact
    assert refused.fact.startswith("failed to parse function arguments: ")


def test_the_schema_and_the_reader_come_from_one_description() -> None:
    fields = {
        "cmd": Argument("string", "The command.", required=True),
        "level": Argument("string", choices=("low", "high"), description="How loud."),
        "times": Argument("u64", "How often.", aliases=("n",)),
        "ratio": Argument("number"),
        "tty": Argument("boolean"),
        "words": Argument("strings", "Words.", required=True),
        "around": Argument("object", "Around.", fields={"lines": Argument("usize", "Lines."), "old": _HIDDEN}),
        "steps": Argument("objects", "Steps.", fields={"step": Argument("string", required=True)}),
        "extra": Argument("any"),
        "rights": Argument("any", "Rights.", schema={"type": "object", "properties": {}}),
        "mode": Argument("string", choices=("a", "b", "c"), schema={"enum": ["b", "a"]}),
        "old": _HIDDEN,
    }
    nested = {"type": "object", "properties": {"step": {"type": "string"}}, "required": ["step"], **_CLOSED}
    assert json.dumps(arguments_schema(fields)) == json.dumps(
        {
            "type": "object",
            "properties": {
                "cmd": {"type": "string", "description": "The command."},
                "level": {"type": "string", "enum": ["low", "high"], "description": "How loud."},
                "times": {"type": "number", "description": "How often."},
                "ratio": {"type": "number"},
                "tty": {"type": "boolean"},
                "words": {"type": "array", "items": {"type": "string"}, "description": "Words."},
                "around": {
                    "type": "object",
                    "description": "Around.",
                    "properties": {"lines": {"type": "number", "description": "Lines."}},
                    **_CLOSED,
                },
                "steps": {"type": "array", "description": "Steps.", "items": nested},
                "extra": {},
                "rights": {"type": "object", "properties": {}, "description": "Rights."},
                "mode": {"type": "string", "enum": ["b", "a"]},
            },
            "required": ["cmd", "words"],
            **_CLOSED,
        }
    )
    whole = '{"cmd": "x", "words": [], "n": 2, "mode": "c", "old": true, "around": {"old": true}}'
    found = {"cmd": "x", "words": [], "times": 2, "mode": "c", "old": True, "around": {"old": True}}
    assert parse_arguments(whole, fields) == found


_HIDDEN = Argument("boolean", "An older name.", hidden=True)
_CLOSED = {"additionalProperties": False}


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_json_cannot_write_are_refused(word: str) -> None:
    with pytest.raises(ToolError):
        parse_arguments(f'{{"x": {word}}}', {"x": Argument("any", "Anything.")})
