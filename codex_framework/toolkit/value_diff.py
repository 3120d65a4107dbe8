"""The difference that an interceptor makes to a value, as a JSON Patch of the documents described at ``Provenance``.

The kernel never imports it. The recorder of changes and the check of interceptors do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.contract.protocol.wire import encode_item, to_wire
from codex_framework.contract.roles.calls import ToolCall, ToolOutput
from codex_framework.contract.roles.interceptors import UserInput
from codex_framework.contract.roles.models import ModelRequest
from codex_framework.contract.roles.tool_specs import ToolSpec
from codex_framework.contract.value import Value, fields_of
from codex_framework.toolkit.item_marks import item_mark
from codex_framework.toolkit.json_patch import Operation, align_lists, array_patch, json_patch, pointer
from codex_framework.toolkit.strict_json import strict_json

__all__ = ["Difference", "call_documents", "diff_values", "documents_of"]

_UNSENT = ("measure",)
"""Fields of a request that no model gets."""


class Difference(Value):
    """The difference between two values.

    Attributes:
        patch: The operations.
        items: The marks of added and changed items, after the change.
        without: The marks of removed and changed items, before the change.
    """

    patch: list[Operation]
    items: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


def diff_values(what: str, before: Any, after: Any) -> Difference:
    """Return the difference between two values of a kind (``what`` of ``Provenance``).

    Raises:
        TypeError, ValueError: One of them cannot be shown as JSON.
    """
    match what:
        case "input":
            return _diff_inputs(before, after)
        case "request":
            return _diff_requests(before, after)
        case "stop":
            return _diff_items(before, after)
        case "call":
            return Difference(json_patch(*call_documents(before, after)))
        case "output":
            return Difference(json_patch(output_document(before), output_document(after)))
        case _:
            return Difference(json_patch(_data(before), _data(after)))


def call_documents(before: ToolCall, after: ToolCall) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return two calls as documents. Their arguments are objects if both are JSON of one, and differ as such."""
    first, second = _object(before.arguments), _object(after.arguments)
    if first is None or second is None or (before.arguments != after.arguments and not json_patch(first, second)):
        return _call(before, before.arguments), _call(after, after.arguments)
    return _call(before, first), _call(after, second)


def _call(call: ToolCall, arguments: Any) -> dict[str, Any]:
    return {"call_id": call.call_id, "name": call.name, "kind": call.kind, "arguments": arguments}


def _object(text: str) -> dict[str, Any] | None:
    try:
        found = strict_json(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def output_document(output: ToolOutput) -> dict[str, Any]:
    """Return an output as a document."""
    return {
        "content": to_wire(output.content),
        "success": output.success,
        "truncate": output.truncate,
        "details": to_wire(output.details),
    }


def input_document(given: UserInput) -> dict[str, Any]:
    """Return an input as a document."""
    return {"items": [_data(item) for item in given.items], "context": list(given.context)}


def request_document(request: ModelRequest) -> dict[str, Any]:
    """Return a request as a document. The order of its tools is stored separately."""
    fields = {field.name: to_wire(getattr(request, field.name)) for field in _request_fields()}
    items = [_data(item) for item in request.prompt.items]
    return {**fields, "tools": _tools(request.tools), "tool_order": _order(request.tools), "items": items}


def documents_of(what: str, before: Any, after: Any) -> tuple[Any, Any]:
    """Return the whole documents of two values of a kind: the input and the result of a patch.

    Raises:
        TypeError, ValueError: One of them cannot be shown as JSON.
    """
    if what == "call":
        return call_documents(before, after)
    kinds: dict[str, Callable[[Any], Any]] = {
        "input": input_document,
        "request": request_document,
        "output": output_document,
    }
    document: Callable[[Any], Any] = kinds.get(what, _data)
    return document(before), document(after)


def _request_fields() -> list[Any]:
    return [field for field in fields_of(ModelRequest) if field.name not in (*_UNSENT, "tools", "prompt")]


def _diff_requests(before: ModelRequest, after: ModelRequest) -> Difference:
    patch: list[Operation] = []
    for field in _request_fields():
        old, new = getattr(before, field.name), getattr(after, field.name)
        if old is not new:
            patch += json_patch(to_wire(old), to_wire(new), pointer(field.name))
    if before.tools is not after.tools:
        patch += json_patch(_tools(before.tools), _tools(after.tools), "/tools")
        patch += json_patch(_order(before.tools), _order(after.tools), "/tool_order")
    if before.prompt is after.prompt:
        return Difference(patch)
    items = _diff_items(before.prompt.items, after.prompt.items)
    return Difference([*patch, *items.patch], items.items, items.without)


def _diff_inputs(before: UserInput, after: UserInput) -> Difference:
    found = _diff_items(before.items, after.items)
    added = json_patch(list(before.context), list(after.context), "/context")
    return Difference([*found.patch, *added], found.items)  # what is left out of an input is not in the history


def _diff_items(before: Sequence[ResponseItem], after: Sequence[ResponseItem]) -> Difference:
    """Return the difference of two lists of items. Items that are the same object are skipped."""
    patch: list[Operation] = []
    items: list[str] = []
    without: list[str] = []
    at = first = second = 0
    for kept, place in [*align_lists(before, after, id), (len(before), len(after))]:
        if first < kept or second < place:
            old = [_data(item) for item in before[first:kept]]
            new = [_data(item) for item in after[second:place]]
            patch += array_patch(old, new, "/items", at)
            was, is_now = list(map(item_mark, old)), list(map(item_mark, new))
            items += [mark for mark in is_now if mark not in was]
            without += [mark for mark in was if mark not in is_now]
        at += place - second + 1
        first, second = kept + 1, place + 1
    return Difference(patch, tuple(items), tuple(without))


def _tools(tools: Sequence[ToolSpec]) -> dict[str, Any]:
    return dict(zip(_order(tools), map(to_wire, tools), strict=True))


def _order(tools: Sequence[ToolSpec]) -> list[str]:
    """Return the names of tools. A name that is there already gets a number."""
    names: dict[str, None] = {}
    for tool in tools:
        name, number = tool.name, 1
        while name in names:
            number += 1
            name = f"{tool.name}#{number}"
        names[name] = None
    return list(names)


def _data(item: ResponseItem) -> Any:
    return json.loads(encode_item(item))
