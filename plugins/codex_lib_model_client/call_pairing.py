"""The parts of a conversation that APIs with messages expect together: calls, directly followed by their outputs."""

from __future__ import annotations

import re
import warnings
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

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

__all__ = ["ID_CHARACTERS", "SentCallIds", "SentIds", "call_ids", "group_ends"]

ID_CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
"""The characters that every server takes in ids."""

_LONGEST = 64
"""Characters of the longest id that servers take."""

_SHORT = re.compile(r"[A-Za-z0-9]{9}")


class SentIds(NamedTuple):
    """The ids of the calls and of the outputs among some items, in their order."""

    calls: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


class SentCallIds:
    """The ids of calls in requests: of the server's form, each of them once, at most 64 characters, and equal for call and output.

    A history has the ids as other servers wrote them. Servers refuse ids in other forms, and ids that occur twice.

    Args:
        allowed: The characters that the server takes.
        earlier: The ids of earlier calls.
        short: Whether all ids have nine letters and digits, as the templates of Mistral's models demand.
    """

    def __init__(self, allowed: str, earlier: Collection[str] = (), *, short: bool = False) -> None:
        self._allowed = allowed
        self._earlier = earlier
        self._short = short
        self._taken: set[str] = set()
        self._open: dict[str, list[str]] = {}

    def of_items(self, items: Iterable[ResponseItem]) -> SentIds:
        """Return the ids for the calls and outputs that follow."""
        calls: list[str] = []
        outputs: list[str] = []
        for item in items:
            if isinstance(item, (FunctionCall, CustomToolCall, LocalShellCall)):
                calls.append(self.of_call(item.call_id))
            elif isinstance(item, (FunctionCallOutput, CustomToolCallOutput)):
                outputs.append(self.of_output(item.call_id))
        return SentIds(tuple(calls), tuple(outputs))

    def of_call(self, call_id: str | None) -> str:
        """Return the id for the next call."""
        sent = self._unused(call_id or "call")
        self._open.setdefault(call_id or "", []).append(sent)
        return sent

    def of_output(self, call_id: str | None) -> str:
        """Return the id for the next output: the id of the first call with its id that has no output yet."""
        waiting = self._open.get(call_id or "")
        if not waiting:
            return self._unused(call_id or "call")
        sent = waiting.pop(0)
        if not waiting:
            del self._open[call_id or ""]
        return sent

    def _unused(self, call_id: str) -> str:
        first = number = 1
        while not self._is_free(self._numbered(call_id, number)):
            first, number = number + 1, number * 2
        numbers = range(first, number)  # the ids up to the one before the first are taken
        first += bisect_left(numbers, 1, key=lambda each: int(self._is_free(self._numbered(call_id, each))))
        unused = self._numbered(call_id, first)
        self._taken.add(unused)
        return unused

    def _is_free(self, call_id: str) -> bool:
        return call_id not in self._taken and call_id not in self._earlier

    def _numbered(self, call_id: str, number: int) -> str:
        """Return an id in the server's form. The first of equal ids is kept if possible."""
        if self._short:
            return call_id if number == 1 and _SHORT.fullmatch(call_id) else _short_id(call_id, number)
        if call_id.strip(self._allowed):  # a character is not allowed
            call_id = "".join(character if character in self._allowed else "_" for character in call_id)
        ending = "" if number == 1 else f"_{number}"
        return f"{call_id[: _LONGEST - len(ending)]}{ending}"


def _short_id(call_id: str, number: int) -> str:
    from hashlib import sha256

    return sha256(f"{number} {call_id}".encode("utf-8", "surrogatepass")).hexdigest()[:9]


def call_ids(items: Iterable[CallItem | OutputItem]) -> list[str]:
    """Return different ids for calls or for outputs. Deprecated: use :class:`SentCallIds`, which also keeps to a server's form."""
    warnings.warn("call_ids() goes in 0.2: use SentCallIds", DeprecationWarning, stacklevel=2)
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

    A group is one message of the user or the developer, or one turn of the model with the outputs of its calls and the messages
    that came between a call and its output.
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
