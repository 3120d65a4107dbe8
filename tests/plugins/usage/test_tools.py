"""Usage by tool and plugin."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codex_framework import ModelPrices
from codex_plugin_usage.prices import known_prices

from .conftest import answered, called, counted, turn

LATER = "2026-11-20T18:27:43.123Z"


def item(**fields: Any) -> tuple[str, Any]:
    return "event_msg", {"type": "item_completed", "item": fields}


def one(rows: Any, **query: Any) -> dict[str, Any]:
    (row,) = rows(by="tool", **query).values()
    found: dict[str, Any] = row
    return found


def test_the_output_of_a_call_is_estimated_once(session: Any, rows: Any) -> None:
    session(*turn(), called("read_file"), answered("ü" * 100), counted((500, 0, 50), (500, 0, 50)))
    assert one(rows) == {
        "key": "read_file",
        "plugin": None,
        "sessions": 1,
        "calls": 1,
        "failures": 0,
        "unfinished": 0,
        "seconds": 0.0,
        "estimated_output_tokens": 50,
        "estimated_cost": None,
        "unpriced": ["mock/m"],
    }


def test_time_is_that_between_call_and_output_unless_the_record_says_more(session: Any, rows: Any) -> None:
    session(*turn(), called("a"), answered("x", stamp=LATER))
    assert one(rows)["seconds"] == 1.5
    end = item(
        type="CommandExecution", id="c1", status="completed", exit_code=0, duration={"secs": 2, "nanos": 250_000_000}
    )
    session(*turn(), called("a"), end, answered("x", stamp=LATER))
    assert one(rows)["seconds"] == 2.25


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    ("end", "failures"),
    [
        (item(type="CommandExecution", id="c1", status="completed", exit_code=0), 0),
        (item(type="CommandExecution", id="c1", status="failed", exit_code=2), 1),
        (item(type="CommandExecution", id="c1", status="declined"), 1),
        (item(type="FileChange", id="c1", status="failed"), 1),
        (item(type="McpToolCall", id="c1", status="failed", error={"message": "no"}), 1),
        (item(type="McpToolCall", id="c1", status="completed", result={}), 0),
        (item(type="McpToolCall", id="other", status="failed"), 0),
        (("event_msg", {"type": "patch_apply_end", "call_id": "c1", "success": False}), 1),
        (("event_msg", {"type": "patch_apply_end", "call_id": "c1", "success": True}), 0),
        (("event_msg", {"type": "mcp_tool_call_end", "call_id": "c1", "result": {"Err": "gone"}}), 1),
        (("event_msg", {"type": "mcp_tool_call_end", "call_id": "c1", "result": {"Ok": {"isError": True}}}), 1),
        (("event_msg", {"type": "mcp_tool_call_end", "call_id": "c1", "result": {"Ok": {"content": []}}}), 0),
    ],
)
def test_failures_are_those_that_the_record_says(
    session: Any, rows: Any, end: Any, failures: int, *, late: bool
) -> None:
    lines = [called("t"), answered("text"), end] if late else [called("t"), end, answered("text")]
    session(*turn(), *lines)
    assert (one(rows)["calls"], one(rows)["failures"]) == (1, failures)


@pytest.mark.parametrize(
    ("output", "failures"),
    [
        ("Chunk ID: 1\nWall time: 0.0 seconds\nProcess exited with code 3\nOutput:\nno\n", 1),
        ("Chunk ID: 1\nProcess exited with code 0\nOutput:\nProcess exited with code 3\n", 0),
        ("Exit code: 1\nWall time: 0 seconds\nOutput:\nno", 1),
        ("Exit code: 0\nWall time: 0 seconds\nOutput:\nno", 0),
        ("Output:\nExit code: 1\n", 0),
        (json.dumps({"output": "no", "metadata": {"exit_code": 1}}), 1),
        (json.dumps({"output": "no", "metadata": {"exit_code": 0}}), 0),
        ('{"output" broken', 0),
        ([{"type": "input_text", "text": "Exit code: 4\nOutput:\n"}], 1),
        ([], 0),
        ([None], 0),
        (None, 0),
        (7, 0),
    ],
)
def test_commands_say_in_their_output_how_they_ended(session: Any, rows: Any, output: Any, failures: int) -> None:
    session(*turn(), called("exec_command"), answered(output))
    assert one(rows)["failures"] == failures


def test_calls_without_an_output_are_unfinished(session: Any, rows: Any) -> None:
    session(*turn(), called("a", "c1"), called("a", "c2"), answered("x", "c2"))
    assert (one(rows)["calls"], one(rows)["unfinished"]) == (2, 1)


def test_calls_of_all_kinds_have_a_name(session: Any, rows: Any) -> None:
    items = [
        {"type": "custom_tool_call", "name": "apply_patch", "call_id": "1", "input": ""},
        {"type": "custom_tool_call_output", "call_id": "1", "output": "ok"},
        {"type": "local_shell_call", "call_id": "2", "action": {}},
        {"type": "tool_search_call", "call_id": "3", "arguments": {}},
        {"type": "tool_search_output", "call_id": "3", "tools": [{"name": "a" * 100}]},
        {"type": "web_search_call", "id": "ws_1"},
        {"type": "function_call", "name": "get", "namespace": "mcp__docs", "call_id": "5", "arguments": ""},
        {"type": "function_call", "name": "get", "namespace": "mcp__docs__", "call_id": "6", "arguments": ""},
        {"type": "function_call", "name": "mcp__docs__get", "namespace": "mcp__docs", "call_id": "7", "arguments": ""},
        {"type": "function_call", "name": None, "call_id": "8"},
    ]
    session(*turn(), *(("response_item", each) for each in items))
    found = {key: (row["calls"], row["unfinished"]) for key, row in rows(by="tool").items()}
    assert found == {
        "apply_patch": (1, 0),
        "local_shell": (1, 1),
        "tool_search": (1, 0),
        "web_search": (1, 0),
        "mcp__docs__get": (3, 3),
        "unknown": (1, 1),
    }
    assert rows(by="tool")["tool_search"]["estimated_output_tokens"] == 29


def test_an_id_that_is_used_again_in_a_later_turn_is_another_call(session: Any, rows: Any) -> None:
    session(*turn(), called("a"), answered("x" * 4), *turn(), called("a"), answered("x" * 8))
    assert (one(rows)["calls"], one(rows)["estimated_output_tokens"]) == (2, 3)


def test_images_are_not_estimated(session: Any, rows: Any) -> None:
    session(
        *turn(),
        called("view_image"),
        answered([{"type": "input_image", "image_url": "data:" + "x" * 999}, {"type": "input_text", "text": "abcd"}]),
    )
    assert one(rows)["estimated_output_tokens"] == 1


def test_the_cost_of_outputs_is_that_of_uncached_input(session: Any, rows: Any) -> None:
    session(*turn(), called("a"), answered("x" * 4000))
    price = known_prices({"m": ModelPrices(input=2.0, output=8.0, cached_input=0.2)})
    assert one(rows, price=price)["estimated_cost"] == {"USD": 0.002}


def test_plugins_sum_their_tools(session: Any, rows: Any) -> None:
    session(*turn(), *(called(name, name) for name in ("read_file", "list_dir", "gone")))
    plugins = {"read_file": "read_file", "list_dir": "read_file"}
    found = {key: (row["plugin"], row["calls"]) for key, row in rows(by="plugin", plugin_of=plugins.get).items()}
    assert found == {"read_file": ("read_file", 2), "unknown": (None, 1)}
