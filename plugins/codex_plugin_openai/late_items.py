"""Items that a server completes only at the end of a response, or never: other servers send pieces of them, or the whole at once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from codex_framework import ItemAdded, ItemDone, Message, ModelEvent, OutputText, TextDelta
from codex_framework.contract.protocol.items import CustomToolCall, FunctionCall, Reasoning, ResponseItem, is_call
from codex_plugin_openai.events import finished_item

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
    """Yield the events that complete what a response has begun, or has only at its end.

    Args:
        output: The items that the last event lists.
        finished: The items that are complete.
        begun: The items that have begun and are not complete.
        pieces: The pieces of texts, and the events with the ends of texts and calls, as far as no complete item has them.
    """
    done = list(finished)
    started = {getattr(item, "id", None) for item in begun}
    listed = [finished_item(raw) for raw in output if isinstance(raw, Mapping)]
    for item in [*listed, *_pieced(begun, pieces)]:
        if not _is_wanted(item) or any(_is_same(item, other) for other in done):
            continue
        done.append(item)
        if getattr(item, "id", None) not in started:
            yield ItemAdded(item.evolve(content=()) if isinstance(item, Message) else item)
        yield ItemDone(item)


def _is_wanted(item: ResponseItem) -> bool:
    return is_call(item) or isinstance(item, Reasoning) or (isinstance(item, Message) and bool(_text(item)))


def _is_same(item: ResponseItem, other: ResponseItem) -> bool:
    """Return whether an item is complete already. Some servers write other ids at the end than before."""
    if type(item) is not type(other):
        return False
    if isinstance(item, Reasoning):
        return True  # it adds nothing to the answer
    if getattr(item, "id", None) is not None and item.id == other.id:  # type: ignore[union-attr]
        return True
    match item, other:
        case Message(), Message():
            return _text(item) == _text(other)
        case FunctionCall(), FunctionCall():
            return item.call_id == other.call_id or (item.name, item.arguments) == (other.name, other.arguments)
        case CustomToolCall(), CustomToolCall():
            return item.call_id == other.call_id or (item.name, item.input) == (other.name, other.input)
        case _:
            return item == other


def _text(item: Message) -> str:
    return "".join(part.text for part in item.content if isinstance(part, OutputText))


def _pieced(begun: Sequence[ResponseItem], pieces: Sequence[TextDelta | str]) -> Iterator[ResponseItem]:
    """Yield the items that can be put together from their pieces."""
    texts: dict[str, list[str]] = {}
    ends: dict[str, str] = {}
    inputs: dict[str, Mapping[str, Any]] = {}
    for piece in pieces:
        if isinstance(piece, TextDelta):
            texts.setdefault(piece.item_id, []).append(piece.delta)
            continue
        payload = json.loads(piece)
        kind, item_id = payload.get("type"), str(payload.get("item_id") or "")
        part = payload.get("part")
        part = part if isinstance(part, Mapping) else payload
        text = part.get("text") or part.get("refusal") or part.get("delta")
        if kind in (_ARGUMENTS, _INPUT):
            inputs[item_id] = payload
        elif kind in _TEXTS and isinstance(text, str):
            ends[item_id] = ends.get(item_id, "") + text if kind.endswith(".delta") else text
    for item in begun:
        if isinstance(item, FunctionCall) and (found := inputs.get(item.id or "")) is not None:
            yield item.evolve(arguments=str(found.get("arguments") or "{}"))
        elif isinstance(item, CustomToolCall) and (found := inputs.get(item.id or "")) is not None:
            yield item.evolve(input=str(found.get("input") or ""))
    for item_id in dict.fromkeys((*texts, *ends)):
        text = ends.get(item_id) or "".join(texts.get(item_id, ()))
        yield Message("assistant", (OutputText(text),), id=item_id or None)
