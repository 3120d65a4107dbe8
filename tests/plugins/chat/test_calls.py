"""Tool calls in pieces, as orderly and as careless as servers send them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from codex_framework import FreeformFormat, FreeformSpec, FunctionSpec, NativeSpec
from codex_framework.contract.protocol.items import CustomToolCall, FunctionCall, LocalShellCall
from codex_framework.testing.replies import call, fault
from tests.plugins.chat.conftest import delta

Hear = Callable[..., Any]

PATCH = "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"
WRITE = FreeformSpec("apply_patch", "Writes.", FreeformFormat("lark", "start: x"))


def piece(
    index: int | None = None, call_id: str | None = None, name: str | None = None, arguments: Any = None
) -> dict[str, Any]:
    """Return a piece of a call without what is None."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    fields = {"index": index, "id": call_id, "function": function}
    return {key: value for key, value in fields.items() if value is not None}


def heard(hear: Hear, *chunks: list[dict[str, Any]], **request: Any) -> list[tuple[str, str, str]]:
    """Return name, arguments and id of the calls in these chunks. An id that was made up is ``-``."""
    outcome = hear(*(delta(tool_calls=chunk) for chunk in chunks), delta("tool_calls"), "[DONE]", **request)
    assert outcome.errors == [None]
    calls = [item for item in outcome.items if isinstance(item, FunctionCall)]
    assert len({one.call_id for one in calls}) == len(calls)
    return [(one.name, one.arguments, "-" if one.call_id.startswith("call_") else one.call_id) for one in calls]


TWO = [("f", '{"a":1}', "x"), ("g", '{"b":2}', "y")]
UNNAMED = [("f", '{"a":1}', "-"), ("g", '{"b":2}', "-")]


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param(
            [
                [piece(0, "x", "f", "")],
                [piece(0, arguments='{"a"')],
                [piece(0, arguments=":1}")],
                [piece(1, "y", "g", "")],
                [piece(1, arguments='{"b":2}')],
            ],
            id="one after the other",
        ),
        pytest.param(
            [
                [piece(0, "x", "f", ""), piece(1, "y", "g", "")],
                [piece(1, arguments='{"b"'), piece(0, arguments='{"a"')],
                [piece(0, arguments=":1}")],
                [piece(1, arguments=":2}")],
            ],
            id="interleaved",
        ),
        pytest.param([[piece(1, "y", "g", '{"b":2}')], [piece(0, "x", "f", '{"a":1}')]], id="in the other order"),
        pytest.param([[piece(0, "x", "f", '{"a":1}'), piece(0, "y", "g", '{"b":2}')]], id="index 0 for all"),
        pytest.param([[piece(0, "x", "f", '{"a":1}')], [piece(0, "y", "g", '{"b":2}')]], id="index 0 in chunks"),
        pytest.param([[piece(None, "x", "f", '{"a":1}'), piece(None, "y", "g", '{"b":2}')]], id="no index"),
        pytest.param(
            [
                [piece(None, "x", "f", '{"a"')],
                [piece(None, "x", "f", ":1}")],
                [piece(None, "y", "g", '{"b"')],
                [piece(None, "y", "g", ":2}")],
            ],
            id="no index, ids and names repeated",
        ),
        pytest.param(
            [
                [piece(0, "x", "f", '{"a"')],
                [piece(0, "x", "f", ":1}")],
                [piece(1, "y", "g", '{"b"')],
                [piece(1, "y", "g", ":2}")],
            ],
            id="ids and names repeated",
        ),
        pytest.param(
            [[piece(0, "x", "f", '{"a":1}')], [piece(0, "x", "f", '{"a":1}'), piece(1, "y", "g", '{"b":2}')]],
            id="whole arguments repeated",
        ),
        pytest.param([[piece(0, "x", "f", {"a": 1}), piece(1, "y", "g", {"b": 2})]], id="arguments as objects"),
        pytest.param(
            [
                [piece(0, "", "f", "")],
                [piece(0, "x", "", '{"a":1}')],
                [piece(1, None, "g", None)],
                [piece(1, "y", None, '{"b":2}')],
            ],
            id="ids that come late",
        ),
    ],
)
def test_two_calls_are_understood(hear: Hear, chunks: list[list[dict[str, Any]]]) -> None:
    calls = [
        (name, json.dumps(json.loads(text), separators=(",", ":")), one) for name, text, one in heard(hear, *chunks)
    ]
    assert calls == TWO


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param(
            [[piece(None, None, "f", '{"a":1}'), piece(None, None, "g", '{"b":2}')]], id="neither index nor id"
        ),
        pytest.param(
            [
                [piece(None, None, "f", '{"a"')],
                [piece(None, None, None, ":1}")],
                [piece(None, None, "g", '{"b"')],
                [piece(None, None, "g", ":2}")],
            ],
            id="neither index nor id, in pieces",
        ),
        pytest.param([[piece(0, None, "f", '{"a":1}')], [piece(0, None, "g", '{"b":2}')]], id="index 0 and no id"),
    ],
)
def test_two_calls_without_ids_are_told_apart(hear: Hear, chunks: list[list[dict[str, Any]]]) -> None:
    assert heard(hear, *chunks) == UNNAMED


def test_calls_of_one_response_never_share_an_id(hear: Hear) -> None:
    assert heard(hear, [piece(0, "x", "f", '{"a":1}')], [piece(1, "x", "g", '{"b":2}')]) == [
        ("f", '{"a":1}', "x"),
        ("g", '{"b":2}', "-"),
    ]


def test_a_name_does_not_change_once_arguments_have_come(hear: Hear) -> None:
    chunks = [[piece(0, "x", "f", '{"a"')], [piece(0, "x", "other", ":1}")]]
    assert heard(hear, *chunks) == [("f", '{"a":1}', "x")]


def test_a_name_may_come_in_pieces(hear: Hear) -> None:
    chunks = [[piece(0, "x", "exec_")], [piece(0, None, "command")], [piece(0, None, None, "{}")]]
    assert heard(hear, *chunks) == [("exec_command", "{}", "x")]


def test_the_older_form_of_a_call_is_understood(hear: Hear) -> None:
    pieces = [{"name": "f", "arguments": ""}, {"arguments": '{"a"'}, {"arguments": ":1}"}]
    outcome = hear(*(delta(function_call=one) for one in pieces), delta("function_call"), "[DONE]")
    (one,) = outcome.items
    assert (one.name, one.arguments) == ("f", '{"a":1}')


def test_calls_count_whatever_reason_the_server_gives(hear: Hear) -> None:
    outcome = hear(delta(tool_calls=[piece(0, "x", "f", "")]), delta("stop"), "[DONE]")
    assert [(one.name, one.arguments) for one in outcome.items] == [("f", "{}")]


def test_arguments_that_are_no_json_are_left_to_the_tool(hear: Hear) -> None:
    assert heard(hear, [piece(0, "x", "f", '{"a": 1')]) == [("f", '{"a": 1', "x")]


def test_a_call_without_a_name_breaks_the_response(hear: Hear) -> None:
    outcome = hear(delta(tool_calls=[piece(0, "x", None, "{}")]), delta("tool_calls"), "[DONE]")
    assert outcome.items == []
    assert outcome.error.retryable
    assert "a tool call without a name" in outcome.error.fact


@pytest.mark.parametrize("pieces", [7, "x", [7], [{"function": {"name": 7}}], [{"function": 7}], {"index": 0}])
def test_calls_that_cannot_be_read_break_the_response(hear: Hear, pieces: Any) -> None:
    outcome = hear(delta(tool_calls=pieces), delta("tool_calls"), "[DONE]")
    assert outcome.error.retryable
    assert "an event that cannot be read" in outcome.error.fact


def test_calls_of_a_response_that_breaks_off_are_not_made(ask: Hear) -> None:
    outcome = ask([call("f", a=1) + call("g", b=2) + fault(after=5)])
    assert outcome.items == []
    assert outcome.error.retryable


@pytest.mark.parametrize(
    "arguments",
    [
        json.dumps({"input": PATCH}),
        '{"input": "' + PATCH + '"}',  # line breaks within the string
        json.dumps({"patch": PATCH}),
        json.dumps(PATCH),
        PATCH,
    ],
)
def test_a_freeform_call_gets_its_text_back(hear: Hear, arguments: str) -> None:
    chunks = [delta(tool_calls=[piece(0, "x", "apply_patch", arguments)]), delta("tool_calls"), "[DONE]"]
    (one,) = hear(*chunks, tools=(WRITE,)).items
    assert one == CustomToolCall("apply_patch", PATCH, "x", one.id, "completed")


@pytest.mark.parametrize("arguments", ['{"a": "x", "b": "y"}', "[1]", "7", '{"input": 7, "n": 1}'])
def test_a_freeform_call_without_a_text_gets_its_arguments(hear: Hear, arguments: str) -> None:
    chunks = [delta(tool_calls=[piece(0, "x", "apply_patch", arguments)]), delta("tool_calls"), "[DONE]"]
    assert hear(*chunks, tools=(WRITE,)).items[0].input == arguments


@pytest.mark.parametrize(
    ("arguments", "action"),
    [
        ('{"command": ["ls", "-l"]}', {"type": "exec", "command": ["ls", "-l"]}),
        ('{"command": "ls | wc"}', {"type": "exec", "command": ["bash", "-lc", "ls | wc"]}),
        (
            '{"command": ["ls"], "timeout_ms": 5, "working_directory": "/", "user": "root"}',
            {"type": "exec", "command": ["ls"], "working_directory": "/", "timeout_ms": 5},
        ),
        ('{"command": []}', None),
        ('{"command": [7]}', None),
        ('{"command": ["ls"], "timeout_ms": NaN}', None),
        ("ls", None),
    ],
)
def test_the_native_shell_is_a_function_here(hear: Hear, arguments: str, action: dict[str, Any] | None) -> None:
    chunks = [delta(tool_calls=[piece(0, "x", "local_shell", arguments)]), delta("tool_calls"), "[DONE]"]
    (one,) = hear(*chunks, tools=(NativeSpec("local_shell", "local_shell"),)).items
    if action is None:
        assert one == FunctionCall("local_shell", arguments, "x", id=one.id)
    else:
        assert one == LocalShellCall(action, "x", "completed", one.id)


def test_a_tool_keeps_its_name_although_functions_have_no_dots(hear: Hear) -> None:
    schema = {"type": "object", "properties": {}}
    tools = (FunctionSpec("a.b", "One.", schema), FunctionSpec("a_b", "Two.", schema), FunctionSpec("c.d", "", schema))
    chunks = [
        [
            piece(0, "x", "a_b", "{}"),
            piece(1, "y", "a_b_2", "{}"),
            piece(2, "z", "c_d", "{}"),
            piece(3, "w", "e_f", "{}"),
        ]
    ]
    assert [name for name, _, _ in heard(hear, *chunks, tools=tools)] == ["a.b", "a_b", "c.d", "e_f"]
