"""Values to JSON and back: nothing is lost, nothing unknown breaks, what is wrong is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_framework.contract.protocol import events, items, ops, policies, wire
from codex_framework.contract.protocol.wire import (
    WireError,
    encode_item,
    encode_json,
    read,
    read_event,
    read_item,
    read_op,
    to_wire,
)
from codex_framework.contract.value import Value

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
KINDS = st.sampled_from(
    ["message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "local_shell_call", "other"]
)


@given(kind=KINDS, fields=st.dictionaries(st.text(), JSON, max_size=6))
def test_any_object_is_read_as_an_item_and_written_back_as_it_came(kind: str, fields: dict[str, Any]) -> None:
    raw = {**fields, "type": kind}
    written = to_wire(read_item(raw))
    # The wire wants a summary, empty or not, on reasoning items.
    expected = {"summary": [], **without_nulls(raw)} if kind == "reasoning" else without_nulls(raw)
    assert without_nulls(written) in (expected, without_nulls(raw))


def without_nulls(raw: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in raw.items() if value is not None}


@given(
    st.fixed_dictionaries(
        {
            "type": st.just("function_call"),
            "name": st.text(),
            "arguments": st.text(),
            "call_id": st.text(),
            "new_field": JSON,
        }
    )
)
def test_fields_that_are_not_known_are_kept(raw: dict[str, Any]) -> None:
    item = read_item(raw)
    assert isinstance(item, items.FunctionCall)
    assert to_wire(item) == raw


def test_lone_surrogates_do_not_break_a_request() -> None:
    encoded = encode_item(items.user_message("before \ud800 after"))
    assert json.loads(encoded)["content"][0]["text"] == "before \ufffd after"


@pytest.mark.parametrize(
    ("raw", "op"),
    [
        ({"type": "interrupt"}, ops.Interrupt()),
        (
            {"type": "user_input", "items": [{"type": "text", "text": "hi"}, {"type": "new", "x": 1}]},
            ops.UserInputOp((ops.TextInput("hi"), ops.UnknownInput({"type": "new", "x": 1}))),
        ),
        (
            {"type": "exec_approval", "id": "1", "decision": "approved_for_session"},
            ops.ExecApproval("1", policies.ReviewDecision(policies.Decision.APPROVED_FOR_SESSION)),
        ),
        (
            {
                "type": "exec_approval",
                "id": "1",
                "decision": {"approved_execpolicy_amendment": {"proposed_execpolicy_amendment": ["git", "push"]}},
            },
            ops.ExecApproval(
                "1",
                policies.ReviewDecision(policies.Decision.APPROVED, execpolicy_amendment=("git", "push")),
            ),
        ),
        (
            {
                "type": "thread_settings",
                "thread_settings": {
                    "sandbox_policy": {"type": "workspace-write", "network_access": True},
                    "approval_policy": {
                        "granular": {"sandbox_approval": True, "rules": False, "mcp_elicitations": True}
                    },
                },
            },
            ops.ThreadSettings(
                ops.ThreadSettingsOverrides(
                    sandbox_policy=policies.WorkspaceWrite(network_access=True),
                    approval_policy=policies.GranularApproval(
                        sandbox_approval=True, rules=False, mcp_elicitations=True
                    ),
                )
            ),
        ),
    ],
)
def test_ops_are_read(raw: dict[str, Any], op: ops.Op) -> None:
    assert read_op(raw) == op


@pytest.mark.parametrize(
    ("raw", "fact"),
    [
        ({"type": "dance"}, "unknown op 'dance'"),
        ({"type": "exec_approval", "id": 3, "decision": "denied"}, "$.id"),
        ({"type": "exec_approval", "id": "3", "decision": "perhaps"}, "$.decision"),
        ({"type": "user_input", "items": "hi"}, "$.items"),
    ],
)
def test_a_wrong_op_is_refused_with_the_place(raw: dict[str, Any], fact: str) -> None:
    with pytest.raises(WireError, match=fact.replace("$", r"\$")):
        read_op(raw)


def test_events_go_to_the_wire_with_codex_names() -> None:
    event = events.ExecCommandEndEvent(
        call_id="c", turn_id="t", command=("ls",), cwd="/", completed_at_ms=1, stdout="", stderr="", aggregated_output="",
        exit_code=0, duration_s=1.25, formatted_output="", status="completed",
    )  # fmt: skip
    wire = to_wire(event)
    assert wire["type"] == "exec_command_end"
    assert wire["duration"] == {"secs": 1, "nanos": 250_000_000}
    assert read_event(wire) == event
    chunk = events.ExecCommandOutputDeltaEvent(call_id="c", stream="stdout", chunk=b"\xff\x00")
    assert to_wire(chunk)["chunk"] == "/wA="
    assert read_event(to_wire(chunk)) == chunk


def test_old_names_of_turn_events_are_understood() -> None:
    assert isinstance(read_event({"type": "turn_started", "turn_id": "t"}), events.TurnStartedEvent)


def test_a_value_of_no_protocol_is_a_programming_error() -> None:
    with pytest.raises(TypeError, match="object is not a value of the protocol"):
        to_wire(object())


def test_numbers_are_not_taken_for_strings() -> None:
    with pytest.raises(WireError, match=r"expected str \| None @ \$\.model"):
        read(ops.ThreadSettingsOverrides, {"model": 5})


def test_recorded_items_survive_the_way_in_and_out(anchors: Path) -> None:
    checked = 0
    for file in (anchors / "rollouts").glob("*.jsonl"):
        for line in file.read_text().splitlines():
            entry = json.loads(line)
            if entry["type"] == "response_item":
                assert to_wire(read_item(entry["payload"])) == without_nulls(entry["payload"])
                checked += 1
    assert checked > 100


class Round(Value):
    type: ClassVar[str] = "round"
    radius: int


class Square(Value):
    type: ClassVar[str] = "square"
    edge_length: int = attrs.field(metadata={"wire": "edgeLength"})


class Drawing(Value, kw_only=True):
    shapes: tuple[Round | Square, ...] = ()
    frame: Round | Square | None = None
    drawn_by: str = attrs.field(default="", metadata={"wire": "drawnBy"})
    secret: str = attrs.field(default="none", metadata={"wire": False})


def test_what_is_no_object_fits_no_class() -> None:
    for value in ("text", ["shapes"], 7, None):
        with pytest.raises(WireError):
            read(Drawing, value)


def test_fields_can_have_other_names_on_the_wire_and_unions_are_read_by_their_tag() -> None:
    drawing = Drawing(shapes=(Round(1), Square(2)), frame=Square(3), drawn_by="me", secret="x")
    wire = to_wire(drawing)
    assert wire == {
        "shapes": [{"type": "round", "radius": 1}, {"type": "square", "edgeLength": 2}],
        "frame": {"type": "square", "edgeLength": 3},
        "drawnBy": "me",
    }
    assert read(Drawing, wire) == drawing.evolve(secret="none")
    assert read(Drawing, {}) == Drawing()


@pytest.mark.parametrize(
    ("shape", "fact"),
    [
        ({"type": "oval"}, "unknown variant 'oval', expected one of round, square"),
        ({"radius": 1}, "unknown variant None"),
        ({"type": "square", "edge_length": 1}, "required field missing"),
        ({"type": "round", "radius": "1"}, "radius"),
        (7, "unknown variant None"),
    ],
)
def test_what_fits_no_variant_is_named(shape: Any, fact: str) -> None:
    with pytest.raises(WireError, match=fact):
        read(Drawing, {"shapes": [shape]})


PLAIN_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda parts: st.lists(parts) | st.dictionaries(st.text(), parts),
    max_leaves=10,
)


@given(PLAIN_JSON)
def test_json_is_compact(value: Any) -> None:
    assert wire.encode_json(value) == json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class Tell(ops.Op):
    type: ClassVar[str] = "tell"
    nulls = ("whom",)
    whom: str | None = "everybody"
    how: str | None = "loudly"


@pytest.mark.parametrize("depth", [450, 700, 5000])
def test_what_is_nested_too_deeply_to_be_encoded_becomes_null(depth: int) -> None:
    """How deep that is depends on Python: 3.12 and later encode the first one whole."""
    deep: Any = 1
    for _ in range(depth):
        deep = [{"a": deep}]
    item = {"type": "x", "same": [1], "deep": deep}
    for value in (events.ItemCompletedEvent("t", "u", item, 1), {"thread_id": "t", "item": item}):
        found = json.loads(encode_json(value))
        assert (found["thread_id"], found["item"]["same"]) == ("t", [1])
        assert "null" in json.dumps(found["item"]["deep"]) or (depth == 450 and found["item"]["deep"] == deep)


def test_a_field_of_which_null_means_something_is_written_as_null() -> None:
    op = Tell(whom=None, how=None)
    assert to_wire(op) == {"type": "tell", "whom": None}
    assert read_op(to_wire(op), {"tell": Tell}) == Tell(whom=None)
    assert read_op({"type": "tell"}, {"tell": Tell}) == Tell()
