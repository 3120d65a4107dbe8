"""The messages of a growing conversation, of which each is encoded once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from codex_contrib_anthropic.blocks import (
    API,
    answer_blocks,
    has_unsupported_image,
    said_blocks,
    thoughts_in,
    tool_ids,
    words_blocks,
)
from codex_framework import Message, ResponseItem
from codex_framework.toolkit.model_server.exchanges import group_ends
from codex_framework.toolkit.model_server.losses import Cause, Losses, lost_in_messages
from codex_framework.toolkit.model_server.message_texts import is_instruction, text_of, utf8

__all__ = ["Conversation", "Conversations", "Messages"]

_THREADS = 256
"""How many conversations are kept. The messages of others are encoded again."""

_RECENT = 4
"""How many messages are kept as blocks, so that marks for the cache can be put into them."""

_THOUGHTS = (b'{"type":"thinking"', b'{"type":"redacted_thinking"')
_RESULT = b'{"type":"tool_result"'
_GO_ON = b'{"type":"text","text":"Continue."}'
"""What the user says if a conversation begins or ends with words of the model, which servers refuse."""


class Messages(NamedTuple):
    """The messages of one request.

    Attributes:
        lead: The text of the developer's messages at the beginning.
        parts: The list ``messages`` in pieces, so that a long one is copied only once.
        may_begin: Whether a budget of tokens for thinking may be given. While calls are being answered, it may only if the model
            began its work with a thought.
    """

    lead: str
    parts: list[bytes]
    may_begin: bool


class Turn(NamedTuple):
    """One message: who speaks, and the blocks.

    Attributes:
        thoughtful: Whether the work of the model that a message belongs to began with a thought.
    """

    is_user: bool
    blocks: tuple[bytes, ...]
    thoughtful: bool = True


class Conversation:
    """The messages of one thread.

    Messages alternate between the user and the model. A group of items is kept when another one follows it. The last one is encoded
    for each request, because it may grow.

    Attributes:
        style: What the messages depend on.
        losses: What requests leave out.

    Args:
        mark: Goes into the last block of the last messages, for the server's cache. Empty means none.
    """

    def __init__(self, mark: bytes, *, images: bool) -> None:
        self.style = mark, images
        self.losses = Losses(lambda item: _lost(item, images=images))
        self._mark = mark
        self._images = images
        self._refused: frozenset[str] = frozenset()
        self._forget()

    def without_thoughts(self, items: Sequence[ResponseItem]) -> int:
        """Leave out the thoughts among these items from now on. Returns how many of them were in the last request."""
        found = thoughts_in(items) - self._refused
        self._refused |= found
        if found:
            self._forget()
        return len(found)

    def _forget(self) -> None:
        self._items: list[ResponseItem] = []
        self._lead: list[str] = []
        self._old: list[bytes] = []
        self._recent: list[Turn] = []
        self._ids: set[str] = set()  # of the calls in messages that are kept

    def messages(self, items: Sequence[ResponseItem]) -> Messages:
        """Return the messages for these items. Those that were encoded before are not read again."""
        items = items if isinstance(items, list) else list(items)
        if not self._items or items[: len(self._items)] != self._items:
            self._forget()
            self._read_lead(items)
        start = len(self._items)
        last: Sequence[ResponseItem] = ()
        for end in group_ends(items, start):
            if last:
                self._keep(last)
            last, start = items[start:end], end
        recent = self._with(self._recent, last)
        if recent and not recent[-1].is_user:
            recent.append(Turn(is_user=True, blocks=(_GO_ON,)))  # the response broke off after these words
        return Messages("\n\n".join(self._lead), self._parts(recent), _may_begin(recent))

    def _read_lead(self, items: Sequence[ResponseItem]) -> None:
        for item in items:
            if not is_instruction(item):
                break
            assert isinstance(item, Message)
            self._items.append(item)
            if text := text_of(item.content):
                self._lead.append(text)

    def _keep(self, group: Sequence[ResponseItem]) -> None:
        recent = self._with(self._recent, group)
        while len(recent) > _RECENT:
            self._old.append(_message(recent.pop(0)) + b",")
        self._recent = recent
        self._ids.update(tool_ids(group, self._ids))
        self._items.extend(group)

    def _with(self, turns: Sequence[Turn], group: Sequence[ResponseItem]) -> list[Turn]:
        """Return messages with those of one more group."""
        grown = list(turns)
        if not group:
            return grown
        first = group[0]
        if isinstance(first, Message) and first.role != "assistant":
            self._add(grown, words_blocks(first, images=self._images), is_user=True)
            return grown
        tools = tool_ids(group, self._ids)
        self._add(grown, said_blocks(group, tools, self._refused), is_user=False)
        self._add(grown, answer_blocks(group, tools, images=self._images), is_user=True)
        return grown

    def _add(self, turns: list[Turn], blocks: Sequence[bytes], *, is_user: bool) -> None:
        if not blocks:
            return
        if not turns and not self._old and not is_user:
            turns.append(Turn(is_user=True, blocks=(_GO_ON,)))
        if turns and turns[-1].is_user is is_user:
            turns[-1] = turns[-1]._replace(blocks=(*turns[-1].blocks, *blocks))
        else:
            turns.append(Turn(is_user, tuple(blocks), is_user or _is_thoughtful(turns, blocks)))

    def _parts(self, turns: Sequence[Turn]) -> list[bytes]:
        """Return the list. Its end is marked, and the end of the last request, which the server has in its cache."""
        marked = [place for place, turn in enumerate(turns) if turn.is_user][-2:] if self._mark else []
        newest = b",".join(_message(turn, self._mark if place in marked else b"") for place, turn in enumerate(turns))
        return [b"[", *self._old, newest, b"]"]


class Conversations:
    """The conversations of a client's threads. The least recently used ones are forgotten."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Conversation] = OrderedDict()

    def of(self, thread_id: str, mark: bytes, *, images: bool) -> Conversation:
        """Return a thread's conversation."""
        conversation = self._known.get(thread_id)
        if conversation is None or conversation.style != (mark, images):
            conversation = self._known[thread_id] = Conversation(mark, images=images)
            if len(self._known) > _THREADS:
                self._known.popitem(last=False)
        self._known.move_to_end(thread_id)
        return conversation


def _lost(item: ResponseItem, *, images: bool) -> Iterator[Cause]:
    yield from lost_in_messages(item, API, images=images)
    if images and has_unsupported_image(item):
        yield "images", "their format is unsupported"


def _is_thoughtful(turns: Sequence[Turn], blocks: Sequence[bytes]) -> bool:
    """Return whether the work that a message of the model goes on with, or begins, began with a thought."""
    if len(turns) > 1 and _answers_calls(turns[-1]):
        return turns[-2].thoughtful
    return blocks[0].startswith(_THOUGHTS)


def _may_begin(turns: Sequence[Turn]) -> bool:
    return len(turns) < 2 or not _answers_calls(turns[-1]) or turns[-2].thoughtful


def _answers_calls(turn: Turn) -> bool:
    return turn.is_user and turn.blocks[0].startswith(_RESULT)


def _message(turn: Turn, mark: bytes = b"") -> bytes:
    *first, last = turn.blocks
    role = utf8("user" if turn.is_user else "assistant")
    return b'{"role":' + role + b',"content":[' + b",".join((*first, last[:-1] + mark + b"}")) + b"]}"
