"""The first line of a script, and the declarations of tools."""

from __future__ import annotations

from typing import Any

import pytest

from codex_framework import FreeformFormat, FreeformSpec, FunctionSpec, ToolError
from codex_plugin_code_mode.declarations import declaration, identifier
from codex_plugin_code_mode.pragma import settings_of


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("text(1)", ("text(1)", None, None)),
        ("// @exec: {}\ntext(1)", ("text(1)", None, None)),
        ('  // @exec: {"yield_time_ms": 5, "max_output_tokens": 0}\r\na\nb', ("a\nb", 5, 0)),
        ('a\n// @exec: {"yield_time_ms": 5}', ('a\n// @exec: {"yield_time_ms": 5}', None, None)),
        ("//@exec: {}", ("//@exec: {}", None, None)),
    ],
)
def test_the_first_line_may_hold_settings(text: str, found: Any) -> None:
    settings = settings_of(text)
    assert (settings.source, settings.yield_time_ms, settings.max_output_tokens) == found


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        ('{"bogus": 1}', "exec pragma only supports `yield_time_ms` and `max_output_tokens`; got `bogus`"),
        ("[1]", "exec pragma must be a JSON object with supported fields `yield_time_ms` and `max_output_tokens`"),
        ("", "exec pragma must be a JSON object with supported fields `yield_time_ms` and `max_output_tokens`"),
        ("{", "exec pragma must be valid JSON with supported fields `yield_time_ms` and `max_output_tokens`: "),
        *[
            (f'{{"yield_time_ms": {value}}}', "must be non-negative safe integers: ")
            for value in ("-5", "1.5", "true", '"a"', "null", str(2**53))
        ],
    ],
)
def test_wrong_settings_are_refused(line: str, fact: str) -> None:
    with pytest.raises(ToolError, match="exec pragma") as refused:
        settings_of(f"// @exec: {line}\ntext(1)")
    assert fact in str(refused.value)


def test_settings_alone_are_no_script() -> None:
    with pytest.raises(ToolError, match="must be followed by JavaScript source"):
        settings_of("// @exec: {}\n  \n")


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "object"}, "{}"),
        ({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, "{\n  a: number;\n}"),
        ({"type": "object", "properties": {"a-b": {"enum": ["x", 1]}}}, '{\n  "a-b"?: "x" | 1;\n}'),
        ({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}}, "{\n  a?: Array<string>;\n}"),
        ({"type": "object", "properties": {"a": {"type": ["string", "null"]}}}, "{\n  a?: string | null;\n}"),
        ({"type": "object", "properties": {"a": {"anyOf": [{"const": 1}, {"type": "boolean"}]}}}, "{\n  a?: 1 | boolean;\n}"),
        (
            {"type": "object", "properties": {"a": {"type": "object", "additionalProperties": {"type": "string"}}}},
            "{\n  a?: Record<string, string>;\n}",
        ),
        (
            {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}},
            "{\n  a?: string;\n}",
        ),
        ({"type": "object", "properties": {"a": {"$ref": "https://x/y"}}}, "{\n  a?: unknown;\n}"),
        (
            {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"description": "One.\nTwo."}}}}},
            "{\n  a?: {\n    // One.\n    // Two.\n    b?: unknown;\n  };\n}",
        ),
    ],
)  # fmt: skip
def test_a_schema_is_declared_as_a_type(schema: dict[str, Any], kind: str) -> None:
    spec = FunctionSpec("get-it", "Gets.", schema, result={"type": "string"})
    assert declaration(spec) == f"declare const tools: {{ get_it(args: {kind}): Promise<string>; }};"


def test_a_schema_that_contains_itself_is_declared_up_to_a_depth() -> None:
    tree: dict[str, Any] = {"type": "object", "properties": {"next": {"$ref": "#"}}}
    assert declaration(FunctionSpec("walk", "Walks.", tree)).count("next?:") < 10


def test_a_schema_that_is_too_long_is_unknown() -> None:
    schema = {"type": "object", "properties": {f"name_{n}": {"type": "string"} for n in range(2000)}}
    assert (
        declaration(FunctionSpec("much", "Much.", schema))
        == "declare const tools: { much(args: unknown): Promise<unknown>; };"
    )


def test_names_become_identifiers() -> None:
    assert [identifier(name) for name in ("a.b-c", "2x", "ok_$")] == ["a_b_c", "_2x", "ok_$"]
    spec = FreeformSpec("a b", "A.", FreeformFormat("lark", "x"))
    assert declaration(spec) == "declare const tools: { a_b(input: string): Promise<unknown>; };"
