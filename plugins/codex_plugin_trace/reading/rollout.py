"""The timeline of a recorded session, as far as the record tells: each line has a time, and some events have a duration.

When the model began to respond is not recorded. It is taken to be the moment when everything that it responds to was there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from codex_framework.contract.protocol.items import CONTEXT_MARKS
from codex_plugin_trace.reading.calls import content_text, show_arguments, show_output
from codex_plugin_trace.reading.plain import mapping, number, one_line, sequence, text
from codex_plugin_trace.reading.timeline import Step, Timeline, Tokens
from codex_plugin_trace.reading.turns import TurnBuilder

__all__ = ["ROLLOUT_TYPES", "SessionReader", "timeline_of_session"]

Record = Mapping[str, Any]

ROLLOUT_TYPES = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
"""Types of lines that only a recorded session has."""

_CALLS = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "tool_search_call": "arguments",
}
"""Items that are calls, with the field of the arguments."""

_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output", "tool_search_output"})
_STARTS = frozenset({"task_started", "turn_started"})


class SessionReader:
    """Collects the lines of a session."""

    def __init__(self) -> None:
        self._thread = Step("thread", "Thread")
        self._facts: list[tuple[str, str]] = []
        self._turn: TurnBuilder | None = None
        self._turns: list[TurnBuilder] = []
        self._model = self._provider = ""
        self._ready: float | None = None
        self._sample: Step | None = None
        self._counted_total: Record = {}

    def add(self, record: Record) -> None:
        """Add a line. Unknown ones are ignored."""
        time, payload = _time(record.get("timestamp")), mapping(record.get("payload"))
        match record.get("type"):
            case "session_meta":
                self._meta(payload, time)
            case "turn_context":
                self._context(payload, time)
            case "response_item":
                self._item(payload, time)
            case "event_msg":
                self._event(payload, time)
            case "token_usage_record":
                self._note_response_end(mapping(payload.get("usage")), mapping(payload.get("thread_token_usage")), time)
            case "compacted":
                step = Step("compaction", "the conversation was shortened", start=time)
                step.part("Summary", text(payload.get("message")), "markdown")
                self._now(time).add(step)
                self._ready = time
            case "plugin_entry":
                plugin, kind = text(payload.get("plugin")), text(payload.get("kind"))
                self._now(time).add(Step("event", f"{plugin}: {kind}", start=time))

    def finish(self) -> Timeline:
        """Return the timeline."""
        self._close_sample(None)
        for turn in self._turns:
            turn.finish()
        self._thread.children = [turn.step for turn in self._turns]
        has_more = bool(self._turns or self._facts)
        timeline = Timeline(self._thread.title, facts=self._facts, threads=[self._thread] if has_more else [])
        timeline.name_by_first_message()
        return timeline

    # Lines

    def _meta(self, payload: Record, time: float | None) -> None:
        if self._facts:
            return  # a fork contains the head of its parent, too
        self._thread.title = f"Thread {text(payload.get('id'))}"
        self._thread.start = time
        self._provider = text(payload.get("model_provider"))
        names = {
            "id": "session", "cwd": "folder", "originator": "started by", "cli_version": "version", "model_provider": "provider",
            "forked_from_id": "fork of",
        }  # fmt: skip
        self._facts = [(label, text(payload.get(name))) for name, label in names.items() if text(payload.get(name))]
        self._facts.append(("times", "as recorded; the start of a response is an estimate"))

    def _context(self, payload: Record, time: float | None) -> None:
        self._model = text(payload.get("model")) or self._model
        turn = self._now(time, text(payload.get("turn_id")))
        turn.step.note = turn.step.note or self._model

    def _event(self, payload: Record, time: float | None) -> None:
        kind = text(payload.get("type"))
        if kind in _STARTS:
            self._begin(text(payload.get("turn_id")))
        if kind == "token_count":
            info = mapping(payload.get("info"))
            self._note_response_end(mapping(info.get("last_token_usage")), mapping(info.get("total_token_usage")), time)
            return
        turn = self._now(time)
        turn.apply(payload, time)
        if kind in _STARTS or kind == "user_message":
            self._ready = time
        elif kind in ("task_complete", "turn_complete", "turn_aborted"):
            self._close_sample(None)
            self._turn = None

    def _item(self, payload: Record, time: float | None) -> None:
        kind, turn = text(payload.get("type")), self._now(time)
        if kind in _OUTPUTS:
            self._output(turn, payload, time)
        elif kind in _CALLS:
            self._note_item(time)
            name = text(payload.get("name")) or kind.removesuffix("_call")
            arguments = payload.get(_CALLS[kind])
            step = turn.call(text(payload.get("call_id")) or text(payload.get("id")), name, time)
            if kind == "local_shell_call":
                arguments = {"command": mapping(arguments).get("command")}
            show_arguments(step, name, arguments)
            if step.start is None:
                step.start = time
        elif kind == "message":
            self._message(turn, payload, time)
        elif kind == "reasoning":
            self._note_item(time)
            words = "\n\n".join(text(mapping(part).get("text")) for part in sequence(payload.get("summary")))
            turn.tell("reasoning", words, time, "item")
        elif kind.endswith("_call"):
            self._note_item(time)
            turn.add(Step("tool", kind.removesuffix("_call"), start=time))

    def _output(self, turn: TurnBuilder, payload: Record, time: float | None) -> None:
        step = turn.call(text(payload.get("call_id")), time=time)
        step.end = time if step.end is None else max(step.end, time or 0.0)
        if step.state == "unfinished":
            step.state = ""
        output = payload.get("output")
        if mapping(output).get("success") is False:
            step.state = step.state or "failed"
        show_output(step, output)
        self._ready = time

    def _message(self, turn: TurnBuilder, payload: Record, time: float | None) -> None:
        words = content_text(payload.get("content"))
        role = text(payload.get("role"))
        if role == "assistant":
            self._note_item(time)
            turn.tell("message", words, time, "item")
        elif role == "user" and not words.lstrip().startswith(CONTEXT_MARKS):
            turn.tell("user", words, time, "item")
            self._ready = time
        elif words:
            turn.add(Step("context", f"context: {one_line(words)}", start=time)).part("Text", words)
            self._ready = time

    # Turns and responses

    def _begin(self, turn_id: str) -> TurnBuilder:
        self._close_sample(None)
        self._turn = turn = TurnBuilder(turn_id)
        turn.step.note = self._model
        self._turns.append(turn)
        self._ready = None
        return turn

    def _now(self, time: float | None, turn_id: str = "") -> TurnBuilder:
        """Return the current turn. Older records do not say when a turn begins."""
        turn = self._turn
        if turn is None:
            turn = self._begin(turn_id)
            turn.step.state = ""
        turn.see(time)
        return turn

    def _note_item(self, time: float | None) -> None:
        """Note that the model has sent an item. After the output of a call, it belongs to the next response."""
        if self._sample is not None and self._ready is not None and self._ready > (self._sample.end or 0.0):
            self._close_sample(None)
        if self._sample is None:
            start = time if self._ready is None else self._ready
            self._sample = self._now(time).add(
                Step("model", self._model or "model", start=start, model=(self._provider, self._model))
            )
        self._sample.end = time

    def _note_response_end(self, usage: Record, total: Record, time: float | None) -> None:
        """Note the end of a response, with its tokens. Records that do not change the total are repetitions."""
        tokens = _tokens(usage)
        if tokens is None or (total and total == self._counted_total):
            return
        self._counted_total = total
        if self._sample is None:
            self._note_item(time)
        self._close_sample(tokens)

    def _close_sample(self, tokens: Tokens | None) -> None:
        if self._sample is not None:
            self._sample.tokens = tokens
            if self._ready is None or (self._sample.end or 0.0) > self._ready:
                self._ready = self._sample.end
            self._sample = None


def timeline_of_session(records: Iterable[Record]) -> Timeline:
    """Return the timeline of a recorded session."""
    reader = SessionReader()
    for record in records:
        reader.add(record)
    return reader.finish()


def _tokens(usage: Record) -> Tokens | None:
    names = (
        "input_tokens",
        "cached_input_tokens",
        "output_tokens",
        "reasoning_output_tokens",
        "cache_write_input_tokens",
    )
    if not any(name in usage for name in names):
        return None
    return Tokens(*(int(number(usage.get(name)) or 0) for name in names))


def _time(stamp: Any) -> float | None:
    try:
        instant = datetime.fromisoformat(text(stamp))
        return number((instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError, OSError):
        return None
