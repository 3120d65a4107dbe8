"""The parts of a conversation that APIs with messages expect together: calls, directly followed by their outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from codex_framework.contract.protocol.items import (
    CallItem,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    LocalShellCall,
    Message,
    OutputItem,
    Reasoning,
    ResponseItem,
    UnknownItem,
)

__all__ = ["call_ids", "group_ends"]


def call_ids(items: Iterable[CallItem | OutputItem]) -> list[str]:
    """Return different ids for calls or for outputs. Repeated ids get a number, which a call and its output have in common."""
    own = [item.call_id or "call" for item in items]
    taken = set(own)
    counts: dict[str, int] = {}
    ids: list[str] = []
    for call_id in own:
        number = counts.get(call_id, 0) + 1
        while number > 1 and f"{call_id}_{number}" in taken:
            number += 1
        counts[call_id] = number
        ids.append(call_id if number == 1 else f"{call_id}_{number}")
    return ids


def group_ends(items: Sequence[ResponseItem], start: int) -> Iterator[int]:
    """Yield the ends of the groups of the items from ``start``.

    A group is one message of the user or the developer, or what the model said at once with the outputs of its calls, and with the
    messages that came between a call and its output.
    """
    waiting: list[str] = []
    answered = False
    in_exchange = False
    for place in range(start, len(items)):
        item = items[place]
        match item:
            case FunctionCall() | CustomToolCall() | LocalShellCall() | Reasoning() | Message(role="assistant"):
                if place > start and (not in_exchange or (answered and not waiting)):
                    yield place
                    answered = False
                    waiting.clear()
                in_exchange = True
                if isinstance(item, (FunctionCall, CustomToolCall, LocalShellCall)):
                    waiting.append(item.call_id or "")
            case FunctionCallOutput() | CustomToolCallOutput():
                answered = True
                if item.call_id in waiting:
                    waiting.remove(item.call_id)
            case UnknownItem():
                pass
            case _:
                if in_exchange and waiting:
                    continue  # it came between a call and its output
                if place > start:
                    yield place
                in_exchange = answered = False
    if start < len(items):
        yield len(items)
