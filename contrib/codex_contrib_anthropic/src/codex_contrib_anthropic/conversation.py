"""The messages of a growing conversation, of which each is encoded once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from codex_contrib_anthropic.album import Album, Limits
from codex_contrib_anthropic.blocks import answer_blocks, said_blocks, sent_ids, thoughts_in, words_blocks
from codex_contrib_anthropic.citations import API
from codex_contrib_anthropic.server_blocks import Pairs, answered, block_of, end_mark, is_own_search, kept_name
from codex_framework import Message, ModelError, ResponseItem
from codex_framework.contract.protocol.items import CustomToolCallOutput, FunctionCallOutput, UnknownItem
from codex_framework.contract.roles.models import LeftOut
from codex_lib_model_client.call_pairing import group_ends
from codex_lib_model_client.dropped_items import Cause, Losses, lost_in_messages
from codex_lib_model_client.message_texts import is_instruction, text_of, utf8

__all__ = ["Conversation", "Conversations", "Messages"]

_THREADS = 256
"""How many conversations are kept. The messages of others are encoded again."""

_RECENT = 4
"""How many messages are kept as blocks, so that marks for the cache can be put into them."""

_PAUSES = 50
"""The maximum number of continuations of a response after a pause. Each pause represents about ten steps of the server."""

_THOUGHTS = (b'{"type":"thinking"', b'{"type":"redacted_thinking"')
_RESULT = b'{"type":"tool_result"'
_GO_ON = b'{"type":"text","text":"Continue."}'
"""The user text that is inserted if a conversation begins or ends with a message of the model, which servers refuse."""


class Messages(NamedTuple):
    """The messages of one request.

    Attributes:
        lead: The text of the developer's messages at the beginning.
        parts: The list ``messages`` in pieces, so that a long one is copied only once.
        may_begin: Whether a budget of tokens for thinking may be given. While calls are being answered, it may only if the model
            began its work with a thought.
        container: The container in which the server continues to run code. None if it does not.
    """

    lead: str
    parts: list[bytes]
    may_begin: bool
    container: str | None = None


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

    Messages alternate between the user and the model. A group of items is kept when another one follows it. The last one is
    encoded for each request, because it may grow.

    Attributes:
        style: The options on which the messages depend.

    Args:
        mark: Added to the last block of the last messages, for the server's cache. May be empty.
        limits: The server's limits for images. None if the model takes no images.
    """

    def __init__(self, mark: bytes, limits: Limits | None) -> None:
        self.style = mark, limits
        self._losses = Losses(lambda item: _loss_causes(item, images=limits is not None))
        self._mark = mark
        self._album = None if limits is None else Album(limits)
        self._refused: frozenset[str] = frozenset()
        self._forget()

    def losses(self, items: Sequence[ResponseItem]) -> list[LeftOut]:
        """Return the omissions of a request with these items that earlier requests have not reported."""
        found = self._losses.new(items)
        return found if self._album is None else [*found, *self._album.losses()]

    def without_thoughts(self, items: Sequence[ResponseItem]) -> int:
        """Leave out the thoughts among these items from now on. Returns how many of them were in the last request."""
        found = thoughts_in(items) - self._refused
        self._refused |= found
        if found:
            self._forget()
        return len(found)

    def without_server_blocks(self, items: Sequence[ResponseItem]) -> int:
        """Leave out the earlier work of the server's tools from now on.

        Return how many calls and cited texts the last request had.
        """
        found = {name for item in items if (name := kept_name(item))} - self._refused
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
        self._open: frozenset[str] = frozenset()  # the server's calls without a result in the last of these messages

    def messages(self, items: Sequence[ResponseItem], *, has_search: bool = False) -> Messages:
        """Return the messages for these items. Items that were encoded before are not read again.

        Args:
            has_search: Whether the request has the search tool, so that the server may continue to search.

        Raises:
            ModelError: The server pauses again and again.
        """
        items = items if isinstance(items, list) else list(items)
        is_other = not self._items or items[: len(self._items)] != self._items
        if is_other and self._album is not None:
            self._album.forget()
        if (self._album is not None and self._album.read(items)) or is_other:
            self._forget()
            self._read_lead(items)
        start = len(self._items)
        last: Sequence[ResponseItem] = ()
        for end in group_ends(items, start):
            if last:
                self._keep(last, items[start:end])
            last, start = items[start:end], end
        pause = _end(last)
        pause = pause if has_search else None
        recent, _ = self._with(self._recent, last, goes_on=pause is not None)
        if recent and not recent[-1].is_user and not (pause is not None and pause.paused):
            recent.append(Turn(is_user=True, blocks=(_GO_ON,)))  # the response broke off after these words
        container = None if pause is None else pause.container
        return Messages("\n\n".join(self._lead), self._parts(recent), _may_begin(recent), container)

    def _read_lead(self, items: Sequence[ResponseItem]) -> None:
        for item in items:
            if not is_instruction(item):
                break
            assert isinstance(item, Message)
            self._items.append(item)
            if text := text_of(item.content):
                self._lead.append(text)

    def _keep(self, group: Sequence[ResponseItem], following: Sequence[ResponseItem]) -> None:
        recent, self._open = self._with(self._recent, group, following)
        while len(recent) > _RECENT:
            self._old.append(_message(recent.pop(0)) + b",")
        self._recent = recent
        self._ids.update(sent_ids(group, self._ids).calls)
        self._items.extend(group)

    def _with(
        self,
        turns: Sequence[Turn],
        group: Sequence[ResponseItem],
        following: Sequence[ResponseItem] = (),
        *,
        goes_on: bool = False,
    ) -> tuple[list[Turn], frozenset[str]]:
        """Return messages with one more group added, and the ids of the server's calls whose results the next group has.

        Args:
            following: The next group.
            goes_on: Whether there is no next group yet, and the server continues its calls.
        """
        grown = list(turns)
        if not group:
            return grown, frozenset()
        first = group[0]
        if isinstance(first, Message) and first.role != "assistant":
            self._add(grown, words_blocks(first, self._album), is_user=True)
            return grown, frozenset()
        ids = sent_ids(group, self._ids)
        answers = answer_blocks(group, ids, self._album)
        pairs = Pairs(self._open)
        going_on: frozenset[str] = frozenset()
        if all(block.startswith(_RESULT) for block in answers):
            # Anything besides results ends the work of the server.
            going_on = _calls_of(group) if goes_on else answered(following)
        self._add(grown, said_blocks(group, ids.calls, self._refused, pairs, going_on), is_user=False)
        self._add(grown, answers, is_user=True)
        return grown, pairs.open & going_on

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

    def of(self, thread_id: str, mark: bytes, limits: Limits | None) -> Conversation:
        """Return a thread's conversation. It takes the same arguments as :class:`Conversation`."""
        conversation = self._known.get(thread_id)
        if conversation is None or conversation.style != (mark, limits):
            conversation = self._known[thread_id] = Conversation(mark, limits)
            if len(self._known) > _THREADS:
                self._known.popitem(last=False)
        self._known.move_to_end(thread_id)
        return conversation


class End(NamedTuple):
    """The end of a response that the server continues: after a pause, or when calls have been answered."""

    paused: bool
    container: str | None


def _end(group: Sequence[ResponseItem]) -> End | None:
    """Return how the last response of a conversation ended. None if nothing is continued.

    Raises:
        ModelError: The server pauses again and again.
    """
    marks = [mark for item in group if (mark := end_mark(item)) is not None]
    last = next((item for item in reversed(group) if not isinstance(item, UnknownItem)), None)
    is_answered = isinstance(last, (FunctionCallOutput, CustomToolCallOutput))
    if not is_answered and not (marks and last is not None and end_mark(last) is marks[-1] and marks[-1]["paused"]):
        return None
    if sum(mark.get("paused") is True for mark in marks) > _PAUSES:
        fact = f"the model server has paused its work {_PAUSES} times"
        raise ModelError(
            fact, info="bad_request", slug="bad-request", hint="Ask for less in one request, or say how to continue."
        )
    container = marks[-1].get("container") if marks else None
    return End(not is_answered, container if isinstance(container, str) else None)


def _calls_of(group: Sequence[ResponseItem]) -> frozenset[str]:
    blocks = (block_of(item) for item in group)
    return frozenset(str(block.get("id")) for block in blocks if block is not None)


def _loss_causes(item: ResponseItem, *, images: bool) -> Iterator[Cause]:
    if not is_own_search(item):
        yield from lost_in_messages(item, API, images=images)


def _is_thoughtful(turns: Sequence[Turn], blocks: Sequence[bytes]) -> bool:
    """Return whether the work that a message of the model continues or begins started with a thought."""
    if len(turns) > 1 and _answers_calls(turns[-1]):
        return turns[-2].thoughtful
    return blocks[0].startswith(_THOUGHTS)


def _may_begin(turns: Sequence[Turn]) -> bool:
    if turns and not turns[-1].is_user:
        return turns[-1].thoughtful  # the server goes on with this message
    return len(turns) < 2 or not _answers_calls(turns[-1]) or turns[-2].thoughtful


def _answers_calls(turn: Turn) -> bool:
    return turn.is_user and turn.blocks[0].startswith(_RESULT)


def _message(turn: Turn, mark: bytes = b"") -> bytes:
    *first, last = turn.blocks
    role = utf8("user" if turn.is_user else "assistant")
    return b'{"role":' + role + b',"content":[' + b",".join((*first, last[:-1] + mark + b"}")) + b"]}"
