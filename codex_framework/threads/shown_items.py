"""Reports input, commands, patches and images to clients as turn items, in addition to their specific events."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from codex_framework.contract.protocol.event_items import INTERACTION, Began, Ended, WholeEvent, item_of
from codex_framework.contract.protocol.events.command import (
    ExecCommandBeginEvent,
    ExecCommandEndEvent,
    PatchApplyBeginEvent,
    PatchApplyEndEvent,
    ViewImageToolCallEvent,
)
from codex_framework.contract.protocol.events.event import EventMsg
from codex_framework.contract.protocol.events.message import (
    ItemCompletedEvent,
    ItemStartedEvent,
    UserMessageEvent,
)
from codex_framework.contract.protocol.events.turn import TurnStartedEvent
from codex_framework.threads.ids import new_id

__all__ = ["ShownItems"]


class ShownItems:
    """The turn items of one thread that are derived from its other events.

    An item has the id of its call. If one call runs several commands, the later ones get a number, because clients know items by
    their ids.
    """

    def __init__(self, thread_id: str) -> None:
        self._thread_id = thread_id
        self._numbers: dict[str, int] = {}  # of this turn, by id of the call
        self._open: dict[tuple[str, str | None], list[tuple[str, int]]] = {}  # ids and begins of running ones

    def events_before(self, submission: str, msg: EventMsg) -> Sequence[EventMsg]:
        """Return the events to send before ``msg``."""
        make = self._KINDS.get(type(msg))
        return () if make is None else make(self, submission, msg)

    def _begin_turn(self, submission: str, msg: TurnStartedEvent) -> Sequence[EventMsg]:
        del submission, msg
        if not self._open:  # a command that outlives its turn keeps its id
            self._numbers.clear()
        return ()

    def _show_whole(self, submission: str, msg: WholeEvent) -> Sequence[EventMsg]:
        now = _now_ms()
        wanted = getattr(msg, "call_id", None)
        item = item_of(msg, new_id() if wanted is None else self._id(wanted))
        return (
            ItemStartedEvent(self._thread_id, submission, item, now),
            ItemCompletedEvent(self._thread_id, submission, item, now, now),
        )

    def _show_begin(self, submission: str, msg: Began) -> Sequence[EventMsg]:
        if getattr(msg, "source", None) == INTERACTION:
            return ()
        began, item_id = _now_ms(), self._id(msg.call_id)
        self._open.setdefault(_key(msg), []).append((item_id, began))
        return (ItemStartedEvent(self._thread_id, msg.turn_id or submission, item_of(msg, item_id), began),)

    def _show_end(self, submission: str, msg: Ended) -> Sequence[EventMsg]:
        if getattr(msg, "source", None) == INTERACTION:
            return ()
        now, turn_id = _now_ms(), msg.turn_id or submission
        running = self._open.get(_key(msg))
        if running:
            item_id, began = running.pop(0)
            if not running:
                del self._open[_key(msg)]
            return (ItemCompletedEvent(self._thread_id, turn_id, item_of(msg, item_id), now, began),)
        item = item_of(msg, self._id(msg.call_id))  # a command or patch that was declined never began
        return (
            ItemStartedEvent(self._thread_id, turn_id, item, now),
            ItemCompletedEvent(self._thread_id, turn_id, item, now, now),
        )

    def _id(self, call_id: str) -> str:
        number = self._numbers[call_id] = self._numbers.get(call_id, 0) + 1
        return call_id if number == 1 else f"{call_id}-{number}"

    _KINDS: ClassVar[Mapping[type[EventMsg], Callable[[Any, str, Any], Sequence[EventMsg]]]] = {
        UserMessageEvent: _show_whole,
        ViewImageToolCallEvent: _show_whole,
        ExecCommandBeginEvent: _show_begin,
        PatchApplyBeginEvent: _show_begin,
        ExecCommandEndEvent: _show_end,
        PatchApplyEndEvent: _show_end,
        TurnStartedEvent: _begin_turn,
    }


def _key(msg: Began | Ended) -> tuple[str, str | None]:
    return msg.call_id, getattr(msg, "process_id", None)


def _now_ms() -> int:
    return int(time.time() * 1000)
