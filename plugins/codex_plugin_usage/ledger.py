"""Counts the usage in one session file, so that nothing counts twice.

Three kinds of lines contain tokens. ``token_usage_record`` (newer Codex) is one response, exactly. ``token_count`` has the
thread's sum so far and is repeated, for example after a compaction, so only its growth counts. Neither may count where the line
is a copy: the file of a fork begins with the lines of its parent.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol

from codex_plugin_usage.amounts import Amounts, amounts_of
from codex_plugin_usage.calls import Call, ended, estimated_tokens, failed_by_text, tool_name

__all__ = ["UNKNOWN", "Ledger", "Sink", "growth", "unix_seconds"]

UNKNOWN = "unknown"
_COPY_SECONDS = 2.0
"""How long after its first line a fork's file may still contain copied lines. Only for records without ids and times of turns."""

_OPEN_CALLS = 10_000
"""The number of calls of one turn that are kept."""


class Sink(Protocol):
    """Receives the counts of a ledger."""

    def spent(self, amounts: Amounts, at: float, model: tuple[str, str]) -> None:
        """Take the tokens of a response."""
        ...

    def called(self, call: Call) -> None:
        """Take a finished call."""
        ...


class Ledger:
    """The state of one file after the lines so far.

    Args:
        thread_id: The id in the file's name. If it is empty, the first ``session_meta`` contains it.

    Attributes:
        head: The payload of the file's own ``session_meta``. None if it is missing.
        last_at: Unix seconds of the newest line.
    """

    def __init__(self, sink: Sink, thread_id: str = "") -> None:
        self.head: Mapping[str, Any] | None = None
        self.thread_id = thread_id
        self.last_at = 0.0
        self._sink = sink
        self._provider = UNKNOWN
        self._model = UNKNOWN
        self._sum: Amounts | None = Amounts()
        self._recorded = Amounts()
        self._held: tuple[Amounts, float, tuple[str, str]] | None = None
        self._copying = False
        self._begun_at = 0.0
        self._calls: dict[str, Call] = {}

    def take(self, line: Mapping[str, Any]) -> None:
        """Apply a line."""
        payload: Mapping[str, Any] = line["payload"]
        at = unix_seconds(line.get("timestamp")) or self.last_at
        self.last_at = max(self.last_at, at)
        match line["type"]:
            case "session_meta":
                self._begin(payload, at)
            case "turn_context":
                self._turn(payload, at)
                self._model = _text(payload.get("model")) or self._model
            case "token_usage_record":
                self._record(payload, at)
            case "response_item":
                self._item(payload, at)
            case "event_msg":
                self._event(payload, at)

    def close(self) -> None:
        """Report unfinished calls. Call this at the end of the file."""
        if self._held is not None:
            self._sink.spent(*self._held)
            self._held = None
        self._end_calls()

    def _end_calls(self) -> None:
        for call in self._calls.values():
            self._sink.called(call)
        self._calls.clear()

    def _begin(self, payload: Mapping[str, Any], at: float) -> None:
        found = _text(payload.get("id"))
        if not found:
            return
        if self.thread_id and found != self.thread_id:
            self._copying = True  # the head of another thread: what follows was copied from there
            self._begun_at = self._begun_at or at
            return
        if self.head is not None:
            return
        self.thread_id = found
        self.head = payload
        self._provider = _text(payload.get("model_provider")) or UNKNOWN
        self._begun_at = unix_seconds(payload.get("timestamp")) or at
        if payload.get("history_base") is not None:
            self._sum = None  # the sum goes on from that of another file
        else:
            self._copying = _may_begin_with_copies(payload)

    def _turn(self, payload: Mapping[str, Any], at: float) -> None:
        """Look whether a turn is the first that ran in this thread."""
        if self._copying:
            self._copying = not self._is_own(payload, at)

    def _is_own(self, payload: Mapping[str, Any], at: float) -> bool:
        turn, thread = _time_of_id(payload.get("turn_id")), _time_of_id(self.thread_id)
        if turn is not None and thread is not None:
            return turn >= thread
        started = payload.get("started_at")
        if isinstance(started, int) and self._begun_at:
            return started >= int(self._begun_at)
        return at > self._begun_at + _COPY_SECONDS

    def _record(self, payload: Mapping[str, Any], at: float) -> None:
        amounts = amounts_of(payload.get("usage"))
        if amounts is None:
            return
        own = self.thread_id or payload.get("thread_id")
        if not self._copying and payload.get("thread_id", own) == own:
            self._recorded += amounts
            self._held = None
            self._spend(amounts, at)

    def _count(self, info: Mapping[str, Any], at: float) -> None:
        """Count the growth of the sum, without usage that records have already counted."""
        total, last = amounts_of(info.get("total_token_usage")), amounts_of(info.get("last_token_usage"))
        if total is None:
            return
        known, self._sum = self._sum, total
        grown = growth(known, total, last) - self._recorded
        if known is None and not self._recorded and grown:
            # Perhaps the last count of the other file again. Then this program writes records, and one follows.
            self._held = grown, at, (self._provider, self._model)
        elif not self._copying:
            self._spend(grown, at)
        self._recorded = Amounts()

    def _spend(self, amounts: Amounts, at: float) -> None:
        if amounts:
            self._sink.spent(amounts, at, (self._provider, self._model))

    def _event(self, payload: Mapping[str, Any], at: float) -> None:
        match payload.get("type"):
            case "token_count":
                info = payload.get("info")
                if isinstance(info, Mapping):
                    self._count(info, at)
            case "task_started" | "turn_started":
                self._end_calls()
                self._turn(payload, at)
            case "task_complete" | "turn_complete" | "turn_aborted":
                self._end_calls()
            case "thread_settings_applied":
                self._settings(payload.get("thread_settings"))
            case _:
                self._end(payload)

    def _settings(self, settings: Any) -> None:
        if isinstance(settings, Mapping):
            self._model = _text(settings.get("model")) or self._model
            self._provider = _text(settings.get("model_provider_id")) or self._provider

    def _end(self, payload: Mapping[str, Any]) -> None:
        end = ended(payload)
        call = None if end is None else self._calls.get(end[0])
        if end is not None and call is not None:
            call.failed = end[1]
            call.seconds = end[2] if end[2] is not None else call.seconds

    def _item(self, item: Mapping[str, Any], at: float) -> None:
        if self._copying:
            return
        tool = tool_name(item)
        call_id = item.get("call_id")
        if tool is not None:
            call = Call(tool, at, (self._provider, self._model), hosted=not isinstance(call_id, str))
            if isinstance(call_id, str) and len(self._calls) < _OPEN_CALLS:
                self._calls[call_id] = call
            else:
                self._sink.called(call)
            return
        call_ = self._calls.get(call_id) if isinstance(call_id, str) else None
        if call_ is not None and call_.tokens is None:
            _finish(call_, item, at)


def _finish(call: Call, item: Mapping[str, Any], at: float) -> None:
    output = item.get("output")
    if item.get("type") == "tool_search_output":
        import json

        output = json.dumps(item.get("tools"), separators=(",", ":"))
    call.tokens = estimated_tokens(output)
    if call.seconds is None and at >= call.at > 0:
        call.seconds = at - call.at
    if call.failed is None:
        call.failed = failed_by_text(output)


def growth(before: Amounts | None, total: Amounts, last: Amounts | None) -> Amounts:
    """Return the growth of a sum.

    Args:
        before: The sum so far. None if it is unknown, because it continues from another file.
    """
    if total == before:
        return Amounts()
    if before is None:
        return last or Amounts()
    if total.contains(before) and total != last:
        return total - before
    # The count began anew: after a full context window, or in another process.
    return last if last is not None and total.contains(last) else total


def _may_begin_with_copies(head: Mapping[str, Any]) -> bool:
    """Return whether a thread was forked or spawned, so that its file may begin with lines of its parent."""
    source = head.get("source")
    is_spawned = isinstance(source, Mapping) and "custom" not in source
    return bool(head.get("forked_from_id") or head.get("parent_thread_id") or is_spawned)


def _time_of_id(value: object) -> int | None:
    """Return the milliseconds in a UUID of version 7, or None if it is not one."""
    if not isinstance(value, str) or len(value) != 36 or value[14] != "7":
        return None
    try:
        return int(value[:8] + value[9:13], 16)
    except ValueError:
        return None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def unix_seconds(stamp: object) -> float | None:
    """Return the unix seconds of a line's timestamp, or None if it is not one."""
    if not isinstance(stamp, str):
        return None
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
