"""The messages of a growing conversation, of which each is encoded once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import count
from typing import NamedTuple

from codex_framework import Message, ResponseItem
from codex_lib_model_client.call_pairing import ID_CHARACTERS, SentCallIds, SentIds, group_ends
from codex_lib_model_client.dropped_items import Losses, lost_in_messages
from codex_lib_model_client.message_texts import is_instruction, utf8
from codex_lib_model_client.private_data import private_data
from codex_plugin_chat.messages import API, Style, exchange, lead_text, other_message

__all__ = ["Conversation", "Conversations"]

_THREADS = 256
"""How many conversations are kept. The messages of others are encoded again."""


_ID_CHARACTERS = f"{ID_CHARACTERS}.:"
"""Characters that are sent in the ids of calls. The templates of some models read colons and dots in their own ids."""


class Group(NamedTuple):
    """Items that become messages together: one message of the user, or output of the model with the outputs of its calls.

    Attributes:
        end: The number of items up to its end.
        is_user: Whether it is a message of the user or the developer.
        bare: Its messages without reasoning.
        full: Its messages with reasoning. None without reasoning.
        calls: The ids of its calls.
    """

    end: int
    is_user: bool
    bare: bytes
    full: bytes | None
    calls: tuple[str, ...] = ()


class Conversation:
    """The messages of one thread.

    A group is kept when another one follows it. The last one is encoded for each request, because it may grow.

    Attributes:
        losses: The omissions of requests.
    """

    def __init__(self, style: Style) -> None:
        self.style = style
        self.losses = Losses(lambda item: lost_in_messages(item, API, images=style.images))
        self._items: list[ResponseItem] = []
        self._lead: list[str] = []
        self._groups: list[Group] = []
        self._parts: list[bytes] = []
        self._calls: set[str] = set()
        """The ids of the calls in the groups."""
        self._reasoned: list[int] = []
        """The groups of the current turn whose messages have reasoning."""

    def messages(self, items: Sequence[ResponseItem]) -> tuple[str, list[bytes]]:
        """Return the text of the developer's messages at the beginning, and the encoded messages after them."""
        items = items if isinstance(items, list) else list(items)
        if items[: len(self._items)] != self._items:
            self._forget(items)
        last: Group | None = None
        for group in self._grouped(items):
            if last is not None:
                self._keep(last)
            last = group
        self._items.extend(items[len(self._items) : self._groups[-1].end if self._groups else len(self._lead)])
        parts = self._parts.copy()
        if last is not None:
            if last.is_user:
                for index in self._reasoned:
                    parts[index] = self._groups[index].bare
            parts.append(self._sendable(last))
        return "\n\n".join(self._lead), [part for part in parts if part]

    def _sendable(self, group: Group) -> bytes:
        """Return a group's messages in the form that is sent while no message of the user follows."""
        return group.bare if group.full is None or self.style.send_reasoning == "none" else group.full

    def _keep(self, group: Group) -> None:
        if group.is_user:
            for index in self._reasoned:
                self._parts[index] = self._groups[index].bare
            self._reasoned.clear()
        elif group.full is not None and self.style.send_reasoning == "turn":
            self._reasoned.append(len(self._groups))
        self._groups.append(group)
        self._calls.update(group.calls)
        self._parts.append(self._sendable(group))

    def _forget(self, items: Sequence[ResponseItem]) -> None:
        """Forget the groups that differ from these items, and all later groups."""
        pairs = zip(count(), self._items, items)  # the shorter one decides
        same = next((place for place, mine, other in pairs if mine != other), min(len(self._items), len(items)))
        groups = [group for group in self._groups if group.end <= same] if same >= len(self._lead) else []
        lead = self._lead if groups else []
        self._lead, self._groups, self._parts, self._reasoned, self._calls = lead, [], [], [], set()
        for group in groups:
            self._keep(group)
        del self._items[groups[-1].end if groups else 0 :]

    def _grouped(self, items: Sequence[ResponseItem]) -> Iterator[Group]:
        """Return the groups of the items that are not kept."""
        start = len(self._items)
        if start == 0:
            self._lead = []
            if self.style.developer_role == "system":
                start = self._read_lead(items)
        call_ids = SentCallIds(_ID_CHARACTERS, self._calls, short=self.style.short_ids)
        for end in group_ends(items, start):
            yield self._group(items[start:end], end, call_ids)
            start = end

    def _read_lead(self, items: Sequence[ResponseItem]) -> int:
        for item in items:
            if not is_instruction(item):
                break
            self._lead.append(lead_text(item))
        return len(self._lead)

    def _group(self, items: Sequence[ResponseItem], end: int, call_ids: SentCallIds) -> Group:
        if isinstance(items[0], Message) and items[0].role != "assistant":
            message = other_message(items[0], self.style)
            return Group(end=end, is_user=True, bare=utf8(message) if message else b"", full=None)
        ids = call_ids.of_items(items)
        bare = _encode_group(items, self.style, ids, reasoning=False)
        has_reasoning = any(private_data(item, API) is not None for item in items)
        full = _encode_group(items, self.style, ids, reasoning=True) if has_reasoning else None
        return Group(end=end, is_user=False, bare=bare, full=full, calls=ids.calls)


class Conversations:
    """The conversations of a client's threads. The least recently used ones are forgotten."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Conversation] = OrderedDict()

    def of(self, thread_id: str, style: Style) -> Conversation:
        """Return a thread's conversation."""
        conversation = self._known.get(thread_id)
        if conversation is None or conversation.style != style:
            conversation = self._known[thread_id] = Conversation(style)
            if len(self._known) > _THREADS:
                self._known.popitem(last=False)
        self._known.move_to_end(thread_id)
        return conversation


def _encode_group(items: Sequence[ResponseItem], style: Style, ids: SentIds, *, reasoning: bool) -> bytes:
    return b",".join(map(utf8, exchange(items, style, ids, reasoning=reasoning)))
