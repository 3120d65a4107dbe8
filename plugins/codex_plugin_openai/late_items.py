"""Items that a server completes only at the end of a response, or never: other servers send pieces of them, or a complete item."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from codex_framework import ItemAdded, ItemDone, Message, ModelEvent, OutputText, TextDelta
from codex_framework.contract.protocol.items import (
    CustomToolCall,
    FunctionCall,
    LocalShellCall,
    Reasoning,
    ResponseItem,
    is_call,
)
from codex_plugin_openai.events import arguments_text, finished_item, input_text

__all__ = ["late_events"]

_TEXTS = ("response.output_text.done", "response.refusal.done", "response.refusal.delta", "response.content_part.done")
_ARGUMENTS = "response.function_call_arguments.done"
_INPUT = "response.custom_tool_call_input.done"


def late_events(
    output: Sequence[Any],
    finished: Sequence[ResponseItem],
    begun: Sequence[ResponseItem],
    pieces: Sequence[TextDelta | str],
) -> Iterator[ModelEvent]:
    """Yield the events that complete unfinished items of a response, and items that occur only at its end.

    Args:
        output: The items that the last event lists.
        finished: The items that are complete.
        begun: The items that have begun and are not complete.
        pieces: The pieces of texts, and the events with the ends of texts and calls, unless a complete item contains them.
    """
    started = {getattr(item, "id", None) for item in begun}
    listed = _new_items((finished_item(raw) for raw in output if isinstance(raw, Mapping)), finished)
    for item in [*listed, *_new_items(_assembled_items(begun, pieces), [*finished, *listed])]:
        if getattr(item, "id", None) not in started:
            yield ItemAdded(item.evolve(content=()) if isinstance(item, Message) else item)
        yield ItemDone(item)


def _new_items(items: Iterable[ResponseItem], known: Sequence[ResponseItem]) -> list[ResponseItem]:
    """Return the unknown items, each once.

    Some servers change ids at the end. So an item with an unknown id may still equal a known item. It is matched with one item
    only: a model may call a tool twice with the same arguments.
    """
    others = list(known)
    new: list[ResponseItem] = []
    for item in items:
        if (
            _is_wanted(item)
            and not _take(others, item, _has_same_id)
            and not any(_has_same_id(item, one) for one in new)
        ):
            new.append(item)
    return [item for item in new if not _take(others, item, _has_same_content)]


def _take(
    others: list[ResponseItem], item: ResponseItem, is_same: Callable[[ResponseItem, ResponseItem], bool]
) -> bool:
    """Remove the first item of a list that equals an item. Return False if there is none."""
    place = next((place for place, other in enumerate(others) if is_same(item, other)), None)
    if place is not None:
        del others[place]
    return place is not None


def _is_wanted(item: ResponseItem) -> bool:
    return is_call(item) or isinstance(item, Reasoning) or (isinstance(item, Message) and bool(_text(item)))


def _has_same_id(item: ResponseItem, other: ResponseItem) -> bool:
    if type(item) is not type(other):
        return False
    calls = getattr(item, "call_id", None), getattr(other, "call_id", None)
    if all(calls):
        return calls[0] == calls[1]
    item_id = getattr(item, "id", None)
    return item_id is not None and item_id == getattr(other, "id", None)


def _has_same_content(item: ResponseItem, other: ResponseItem) -> bool:
    match item, other:
        case Reasoning(), Reasoning():
            return True  # it adds nothing to the answer
        case Message(), Message():
            return _text(item).strip() == _text(other).strip()
        case FunctionCall(), FunctionCall():
            same_tool = (item.namespace, item.name) == (other.namespace, other.name)
            return same_tool and _value(item.arguments) == _value(other.arguments)
        case CustomToolCall(), CustomToolCall():
            return (item.name, item.input) == (other.name, other.input)
        case LocalShellCall(), LocalShellCall():
            return item.action == other.action
        case _:
            return item == other


def _text(item: Message) -> str:
    return "".join(part.text for part in item.content if isinstance(part, OutputText))


def _value(arguments: str) -> Any:
    """Return the value of a JSON text. Other text is returned unchanged."""
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments


def _assembled_items(begun: Sequence[ResponseItem], pieces: Sequence[TextDelta | str]) -> Iterator[ResponseItem]:
    """Yield the items that can be put together from their pieces."""
    deltas: dict[str, list[str]] = {}
    ends: dict[str, dict[int, str]] = {}
    inputs: dict[str, Any] = {}
    for piece in pieces:
        if isinstance(piece, TextDelta):
            deltas.setdefault(piece.item_id, []).append(piece.delta)
            continue
        payload = json.loads(piece)
        kind, item_id = payload.get("type"), str(payload.get("item_id") or "")
        if kind in (_ARGUMENTS, _INPUT):
            inputs[item_id] = payload.get("arguments" if kind == _ARGUMENTS else "input")
        elif kind in _TEXTS:
            _add_end(ends.setdefault(item_id, {}), payload)
    for item in begun:
        if isinstance(item, FunctionCall) and item.id in inputs:
            yield item.evolve(arguments=arguments_text(inputs[item.id]))
        elif isinstance(item, CustomToolCall) and item.id in inputs:
            yield item.evolve(input=input_text(inputs[item.id]))
    for item_id in dict.fromkeys((*deltas, *ends)):
        whole = "".join(deltas.get(item_id, ()))
        parts = [text for _, text in sorted(ends.get(item_id, {}).items())]
        if len(whole) > sum(map(len, parts)):  # a part of the message has no end
            parts = [whole]
        yield Message("assistant", tuple(map(OutputText, parts)), id=item_id or None)


def _add_end(parts: dict[int, str], payload: Mapping[str, Any]) -> None:
    """Add the text of an event to the parts of its message."""
    index = payload.get("content_index")
    place = index if type(index) is int else 0
    inner = payload.get("part")
    part = inner if isinstance(inner, Mapping) else payload
    text = part.get("text") or part.get("refusal") or part.get("delta")
    if isinstance(text, str):
        parts[place] = parts.get(place, "") + text if payload["type"].endswith(".delta") else text
