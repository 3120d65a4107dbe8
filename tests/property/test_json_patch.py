"""A JSON Patch turns one document into the other, and tells nothing of the first but its places."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_framework import FunctionSpec, ToolCall, ToolOutput
from codex_framework.contract.protocol.items import InputText, Message, user_message
from codex_framework.contract.roles.interceptors import UserInput
from codex_framework.testing import model_request
from codex_framework.threads.history import HistoryPrompt
from codex_framework.toolkit.json_patch import align_lists, apply_json_patch, json_patch
from codex_framework.toolkit.value_diff import (
    call_documents,
    diff_values,
    input_document,
    output_document,
    request_document,
)

TEXTS = st.text("ab/~\u00e9\U0001f600\ud800", max_size=4)
LEAVES = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.0, 1.5]) | TEXTS
DOCUMENTS = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=12
)


def same(one: Any, other: Any) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


@given(DOCUMENTS, DOCUMENTS)
def test_the_patch_applied_to_the_one_gives_the_other(before: Any, after: Any) -> None:
    text = json.dumps(before)
    patch = json_patch(before, after)
    assert same(apply_json_patch(before, patch), after)
    assert (patch == []) == same(before, after)
    assert json.dumps(before) == text, "the document itself stays as it is"


@given(DOCUMENTS, DOCUMENTS)
def test_the_patch_has_values_of_the_new_document_only(before: Any, after: Any) -> None:
    def parts(value: Any) -> list[str]:
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return [json.dumps(value, sort_keys=True), *(text for part in inner for text in parts(part))]

    known = set(parts(after))
    for operation in json_patch(before, after):
        assert set(operation) <= {"op", "path", "value"}
        assert operation["op"] == "remove" or json.dumps(operation["value"], sort_keys=True) in known


@given(st.lists(st.integers(0, 5)), st.lists(st.integers(0, 5)))
def test_aligned_elements_are_equal_and_ascend(before: list[int], after: list[int]) -> None:
    pairs = align_lists(before, after, lambda element: element)
    assert all(before[first] == after[second] for first, second in pairs)
    assert pairs == sorted(set(pairs))
    assert len({first for first, _ in pairs}) == len({second for _, second in pairs}) == len(pairs)
    if before == after:
        assert len(pairs) == len(before)


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/b"},
        {"op": "replace", "path": "/b", "value": 1},
        {"op": "add", "path": "/a/3", "value": 1},
        {"op": "add", "path": "/a/01", "value": 1},
        {"op": "add", "path": "/a/-1", "value": 1},
        {"op": "remove", "path": "/a/x"},
        {"op": "add", "path": "/a/0/y", "value": 1},
        {"op": "move", "path": "/a", "from": "/b"},
        {"op": "add", "path": "/a"},
        {"path": "/a"},
        {"op": "remove", "path": 3},
    ],
)
def test_a_patch_that_does_not_fit_is_an_error(operation: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        apply_json_patch({"a": [1, 2]}, [operation])


def test_a_long_list_is_compared_quickly() -> None:
    before = list(range(20_000))
    after = before[::-1]
    assert apply_json_patch(before, json_patch(before, after)) == after


ITEMS = st.lists(
    st.builds(
        lambda role, text: Message(role, (InputText(text),)),
        st.sampled_from(["user", "developer"]),
        st.text("abc", max_size=3),
    ),
    max_size=6,
)


@st.composite
def two_lists(draw: Any) -> tuple[list[Any], list[Any]]:
    """Return a list of items, and another that shares some of them as the same objects, some as copies, and changes others."""
    before = draw(ITEMS)
    after: list[Any] = []
    for item in before:
        match draw(st.sampled_from(["keep", "copy", "change", "drop", "insert"])):
            case "keep":
                after.append(item)
            case "copy":
                after.append(item.evolve())
            case "change":
                after.append(item.evolve(content=(InputText(draw(st.text("xyz", max_size=2))),)))
            case "insert":
                after += [user_message(draw(st.text("xyz", max_size=2))), item]
            case _:
                pass
    return before, draw(st.permutations(after)) if draw(st.booleans()) else after


TOOLS = st.lists(
    st.builds(
        lambda name, text: FunctionSpec(name, text, {"type": "object"}), st.sampled_from("abc"), st.sampled_from("xy")
    ),
    max_size=5,
)


def prompt(items: list[Any]) -> HistoryPrompt:
    return HistoryPrompt(items, [])


@given(two_lists(), TOOLS, TOOLS, st.sampled_from(["x", "y"]), st.sampled_from([None, "low"]))
def test_the_diff_values_requests_gives_the_request_that_is_sent(
    lists: Any, tools: Any, others: Any, instructions: str, effort: str | None
) -> None:
    before = model_request("hello", instructions="x").evolve(prompt=prompt(lists[0]), tools=tuple(tools))
    after = before.evolve(
        prompt=prompt(lists[1]), tools=tuple(others), instructions=instructions, reasoning_effort=effort
    )
    found = diff_values("request", before, after)
    assert same(apply_json_patch(request_document(before), found.patch), request_document(after))
    assert set(found.items).isdisjoint(found.without) or lists[0] != lists[1]


@given(two_lists(), st.lists(st.sampled_from("pq")), st.lists(st.sampled_from("pq")))
def test_the_difference_of_inputs_gives_the_input_that_is_recorded(lists: Any, context: Any, more: Any) -> None:
    before, after = UserInput(items=lists[0], context=context), UserInput(items=lists[1], context=more)
    found = diff_values("input", before, after)
    assert same(apply_json_patch(input_document(before), found.patch), input_document(after))
    assert found.without == (), "the original of an input is nowhere recorded, and neither is its mark"


@given(DOCUMENTS, DOCUMENTS, st.booleans())
def test_the_diff_values_calls_gives_the_call_that_is_made(one: Any, other: Any, renamed: bool) -> None:
    before = ToolCall("c", "a", json.dumps(one))
    after = ToolCall("c", "b" if renamed else "a", json.dumps(other))
    first, second = call_documents(before, after)
    assert same(apply_json_patch(first, diff_values("call", before, after).patch), second)


@given(DOCUMENTS, st.booleans(), st.text("ab"), st.text("ab"))
def test_the_diff_values_outputs_gives_the_output_that_is_returned(
    details: Any, ok: bool, one: str, other: str
) -> None:
    before = ToolOutput(one, details={"x": 1})
    after = ToolOutput((InputText(other),) if ok else other, success=ok, details={"x": details})
    patch = diff_values("output", before, after).patch
    assert same(apply_json_patch(output_document(before), patch), output_document(after))


def test_whitespace_in_arguments_is_a_change_of_their_text() -> None:
    patch = diff_values("call", ToolCall("c", "a", '{"x":1}'), ToolCall("c", "a", '{"x": 1}')).patch
    assert patch == [{"op": "replace", "path": "/arguments", "value": '{"x": 1}'}]
