"""A thread's history: appended to, encoded once, never walked again per turn.

``append`` encodes each item as it comes. A prompt is a snapshot of the lists, and its JSON a join of parts that exist already;
so a request costs what copying its bytes costs, however long the thread is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from codex_framework.protocol.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    LocalShellCall,
    Message,
    ResponseItem,
    is_call,
    is_output,
)
from codex_framework.protocol.wire import encode_item
from codex_framework.turn import ABORTED_OUTPUT, output_for
from codex_framework.value import Value

__all__ = ["History", "HistoryPrompt", "normalised"]


class HistoryPrompt(Value):
    """The history as one request sees it (see ``roles.providers.Prompt``)."""

    items: Sequence[ResponseItem]
    parts: Sequence[bytes] = attrs.field(repr=False)

    def encoded(self) -> bytes:
        """The items as a JSON array in UTF-8."""
        return b"[" + b",".join(self.parts) + b"]"


class History:
    """The items a prompt is made of, oldest first."""

    def __init__(self, items: Iterable[ResponseItem] = ()) -> None:
        self._items: list[ResponseItem] = []
        self._parts: list[bytes] = []
        self._open_calls: dict[str, int] = {}
        self._orphans = False
        for item in items:
            self.append(item)

    def __len__(self) -> int:
        """How many items there are."""
        return len(self._items)

    @property
    def items(self) -> Sequence[ResponseItem]:
        """The items; not to be changed."""
        return self._items

    def append(self, item: ResponseItem) -> bytes:
        """Add an item; returns its JSON, for whoever stores it."""
        encoded = encode_item(item)
        self._items.append(item)
        self._parts.append(encoded)
        self._track(item)
        return encoded

    def prompt(self) -> HistoryPrompt:
        """A snapshot, normalised: every call has exactly one output, right or later behind it, and no output lacks its call."""
        if self._orphans or self._open_calls:
            items = normalised(self._items)
            return HistoryPrompt(items, [encode_item(item) for item in items])
        return HistoryPrompt(self._items.copy(), self._parts.copy())

    def last_with(self, start: str) -> str | None:
        """The newest text part of a user or developer message that begins with ``start``, or None."""
        for item in reversed(self._items):
            if isinstance(item, Message) and item.role != "assistant":
                for part in reversed(item.content):
                    text = getattr(part, "text", "")
                    if text.startswith(start):
                        return str(text)
        return None

    def _track(self, item: ResponseItem) -> None:
        """Keep count of calls without output, so that the usual prompt needs no walk."""
        if isinstance(item, (FunctionCall, CustomToolCall, LocalShellCall)):
            call_id = item.call_id or ""
            self._open_calls[call_id] = self._open_calls.get(call_id, 0) + 1
        elif isinstance(item, (FunctionCallOutput, CustomToolCallOutput)):
            count = self._open_calls.pop(item.call_id, 0) - 1
            if count > 0:
                self._open_calls[item.call_id] = count
            elif count < 0:
                self._orphans = True


def normalised(items: Sequence[ResponseItem]) -> list[ResponseItem]:
    """The items with one output for every call: a missing one is put in behind its call, a stray one left out."""
    # An output answers the latest unanswered call of its id that stands before it.
    answered: set[int] = set()
    keep: set[int] = set()
    waiting: dict[str, list[int]] = {}
    for index, item in enumerate(items):
        if isinstance(item, (FunctionCall, CustomToolCall, LocalShellCall)):
            waiting.setdefault(item.call_id or "", []).append(index)
        elif isinstance(item, (FunctionCallOutput, CustomToolCallOutput)):
            calls = waiting.get(item.call_id)
            if calls:
                answered.add(calls.pop())
                keep.add(index)
    result: list[ResponseItem] = []
    for index, item in enumerate(items):
        if is_output(item) and index not in keep:
            continue
        result.append(item)
        if is_call(item) and index not in answered:
            assert isinstance(item, (FunctionCall, CustomToolCall, LocalShellCall))
            result.append(output_for(item, ABORTED_OUTPUT))
    return result
