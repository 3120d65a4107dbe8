"""The timeline of a trace: spans say when and how long, events say what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from codex_plugin_trace.reading.calls import show_arguments, show_output
from codex_plugin_trace.reading.plain import mapping, number, pretty, text
from codex_plugin_trace.reading.timeline import Step, Timeline, Tokens
from codex_plugin_trace.reading.turns import TurnBuilder

__all__ = ["timeline_of_trace"]

Record = Mapping[str, Any]

_SUBMISSION = "op.dispatch."
_DECISIONS = {"denied": "refused", "abort": "refused", "timed_out": "refused"}

_DEEPEST = 100
"""How many spans of plugins are shown in one another."""

_OF_CALL = {"codex.approval": "approval", "codex.sandbox.start": "sandbox", "codex.command": "command"}
"""Spans below a call."""


class TraceReader:
    """Collects the records of a trace."""

    def __init__(self) -> None:
        self.timeline = Timeline("Trace")
        self._threads: dict[str, Step] = {}
        self._turns: dict[tuple[str, str], TurnBuilder] = {}
        self._spans: list[tuple[Record, TurnBuilder]] = []
        self._loose: list[Record] = []
        self._turn_of: dict[str, TurnBuilder] = {}
        self._by_span: dict[str, Step] = {}
        self._depths: dict[str, int] = {}

    def add(self, record: Record) -> None:
        """Add a record. Unknown ones are ignored."""
        kind = text(record.get("type"))
        if kind == "trace":
            self._head(record)
        elif kind == "event":
            self._event(record)
        elif kind in ("span", "moment"):
            self._measured(record)

    def finish(self) -> Timeline:
        """Return the timeline."""
        for record in self._loose:  # a plugin's own spans know their parents only
            turn = self._turn_of.get(text(record.get("parent")))
            if turn is not None:
                self._spans.append((record, turn))
        for record, turn in self._spans:
            self._place(record, turn)
        for turn in self._turns.values():
            turn.finish()
        self.timeline.threads = [thread for thread in self._threads.values() if thread.children or thread.parts]
        for thread in self.timeline.threads:
            thread.sort()
        return self.timeline

    def _head(self, record: Record) -> None:
        facts = [("written by", text(record.get("by")))]
        if record.get("content") is False:
            facts.append(("content", "not recorded"))
        self.timeline.facts += [fact for fact in facts if fact[1] and fact not in self.timeline.facts]

    def _thread(self, thread_id: str) -> Step:
        if thread_id not in self._threads:
            self._threads[thread_id] = Step("thread", f"Thread {thread_id}" if thread_id else "No thread")
        return self._threads[thread_id]

    def _turn(self, thread_id: str, turn_id: str) -> TurnBuilder:
        key = (thread_id, turn_id)
        if key not in self._turns:
            self._turns[key] = TurnBuilder(turn_id)
            self._thread(thread_id).children.append(self._turns[key].step)
        return self._turns[key]

    def _event(self, record: Record) -> None:
        event, time = mapping(record.get("event")), number(record.get("time"))
        thread_id, turn_id = text(record.get("thread")), text(record.get("turn"))
        if event.get("type") == "session_configured":
            self._configured(self._thread(thread_id), event, time)
        elif turn_id:
            self._turn(thread_id, turn_id).apply(event, time)
        elif text(event.get("type")) in ("warning", "error", "deprecation_notice"):
            words = text(event.get("message")) or text(event.get("summary"))
            step = Step("error" if event["type"] == "error" else "warning", words[:200], start=time)
            step.part("Text", words)
            self._thread(thread_id).children.append(step)

    def _configured(self, thread: Step, event: Record, time: float | None) -> None:
        thread.start = time
        facts = ("cwd", "model", "model_provider_id", "approval_policy", "rollout_path")
        lines = [f"{name.replace('_', ' ')}: {text(event.get(name))}" for name in facts if text(event.get(name))]
        thread.note = text(event.get("model"))
        thread.part("Thread", "\n".join(lines))

    def _measured(self, record: Record) -> None:
        thread_id, turn_id = text(record.get("thread")), text(record.get("turn"))
        if not turn_id or text(record.get("name")).startswith(_SUBMISSION):
            self._loose.append(record)
            return
        turn = self._turn(thread_id, turn_id)
        if text(record.get("span")):
            self._turn_of[text(record.get("span"))] = turn
        self._spans.append((record, turn))

    def _place(self, record: Record, turn: TurnBuilder) -> None:
        name, attributes = text(record.get("name")), mapping(record.get("attributes"))
        start = number(record.get("time"))
        took = number(record.get("duration")) or 0.0
        if start is None or name.startswith(_SUBMISSION):
            return
        end = start + took
        if record.get("type") == "moment":
            self._moment(name, attributes, record, turn)
            return
        if name == "codex.turn":
            _whole_turn(turn, attributes, start, end)
            return
        if name == "codex.tool.call":
            step = _tool(turn, attributes, mapping(record.get("content")))
        elif name in _OF_CALL:
            step = _of_call(turn, _OF_CALL[name], attributes)
        else:
            step = self._other(name, record, turn)
        step.start, step.end = start, end
        if step.state == "unfinished":
            step.state = ""
        if record.get("failed") is True:
            step.state = step.state or "failed"
        turn.see(start)
        turn.see(end)
        self._by_span[text(record.get("span"))] = step

    def _other(self, name: str, record: Record, turn: TurnBuilder) -> Step:
        attributes = mapping(record.get("attributes"))
        if name == "codex.sampling":
            step = turn.add(_sampling(attributes))
        elif name == "codex.task.compact":
            step = turn.add(Step("compaction", "the conversation was shortened"))
        else:
            step = Step("span", name)
            self._above(record, turn).children.append(step)
        _show_attributes(step, attributes)
        for label, content in mapping(record.get("content")).items():
            step.part(str(label).capitalize(), text(content))
        return step

    def _above(self, record: Record, turn: TurnBuilder) -> Step:
        """Return the step of a span's parent. A span that is nested too deeply is shown directly in the turn."""
        parent = text(record.get("parent"))
        depth = self._depths.get(parent, 0) + 1
        above = self._by_span.get(parent) if parent and depth <= _DEEPEST else None
        self._depths[text(record.get("span"))] = 0 if above is None else depth
        return turn.step if above is None else above

    def _moment(self, name: str, attributes: Record, record: Record, turn: TurnBuilder) -> None:
        if name == "codex.tool_decision":
            call = turn.call(text(attributes.get("call_id")), text(attributes.get("tool_name")))
            decision = text(attributes.get("decision"))
            call.part(
                "Decision", f"{decision.replace('_', ' ')}, by {text(attributes.get('source')).replace('_', ' ')}"
            )
            if decision in _DECISIONS:
                call.state = _DECISIONS[decision]
        elif name == "codex.api_request":
            self._request(attributes, record, turn)

    def _request(self, attributes: Record, record: Record, turn: TurnBuilder) -> None:
        """Keep the attempts to send a request that failed. The others are not interesting."""
        words, status = text(attributes.get("error.message")), attributes.get("http.response.status_code")
        if not words and (not isinstance(status, int) or status < 400):
            return
        said = f"attempt {attributes.get('attempt', 0)}: {words or f'status {status}'}"
        start, took = number(record.get("time")), number(record.get("duration")) or 0.0
        turn.add(Step("error", f"request: {said}", start=start, end=(start or 0.0) + took, state="failed"))


def timeline_of_trace(records: Iterable[Record]) -> Timeline:
    """Return the timeline of a trace."""
    reader = TraceReader()
    for record in records:
        reader.add(record)
    return reader.finish()


def _whole_turn(turn: TurnBuilder, attributes: Record, start: float, end: float) -> None:
    turn.step.start, turn.step.end = start, end
    status = text(attributes.get("status"))
    turn.step.state = "" if status == "completed" else "failed"
    facts = [text(attributes.get("model")), "" if status == "completed" else status.replace("_", " ")]
    kind = text(attributes.get("kind"))
    if kind not in ("", "regular"):
        turn.step.title = kind.replace("_", " ").capitalize()
    turn.step.note = ", ".join(filter(None, facts))
    _show_attributes(turn.step, attributes)


def _sampling(attributes: Record) -> Step:
    model = text(attributes.get("model")) or "model"
    first = number(attributes.get("ttft_ms"))
    note = "" if first is None else f"first token after {first:.0f} ms"
    error = text(attributes.get("error.type"))
    origin = (text(attributes.get("provider")), model)
    return Step("model", model, note=error.replace("_", " ") or note, tokens=_tokens(attributes), model=origin)


def _tokens(attributes: Record) -> Tokens | None:
    names = (
        "input_tokens",
        "cached_input_tokens",
        "output_tokens",
        "reasoning_output_tokens",
        "cache_write_input_tokens",
    )
    counts = [attributes.get(name) for name in names]
    if not any(isinstance(count, int) for count in counts):
        return None
    return Tokens(*(int(number(count) or 0) for count in counts))


def _tool(turn: TurnBuilder, attributes: Record, content: Record) -> Step:
    name = text(attributes.get("tool_name")) or "tool"
    step = turn.call(text(attributes.get("call_id")), name)
    if text(content.get("arguments")):
        show_arguments(step, name, content["arguments"])
    elif step.title == "tool":
        step.title = name
    show_output(step, content.get("output", ""))
    return step


def _of_call(turn: TurnBuilder, kind: str, attributes: Record) -> Step:
    call_id = text(attributes.get("call_id"))
    below = turn.call(call_id).children if call_id in turn.calls else turn.step.children
    step = next((each for each in below if each.kind == kind and each.start == each.end is None), None)
    if kind == "approval":  # its request was an event, which has the details
        step = next((each for each in below if each.kind == kind and not each.note), step)
    if step is None:
        step = Step(kind, kind)
        below.append(step)
    if kind == "approval":
        decision, source = text(attributes.get("decision")), text(attributes.get("source")).replace("_", " ")
        step.title = f"approval: {decision.replace('_', ' ') or 'no decision'}"
        step.note = f"by {source or 'nobody'}"
        step.state = _DECISIONS.get(decision, "")
    elif kind == "sandbox":
        step.title = "sandbox start" if attributes.get("sandboxed") is not False else "start without a sandbox"
    else:
        code = attributes.get("exit_code")
        step.note = "" if not isinstance(code, int) else f"exit code {code}"
        if attributes.get("timed_out") is True:
            step.note = f"{step.note}, timed out".removeprefix(", ")
        if attributes.get("denied") is True:
            step.note = f"{step.note}, denied by the sandbox".removeprefix(", ")
    return step


def _show_attributes(step: Step, attributes: Record) -> None:
    lines = [
        f"{name.replace('_', ' ')}: {value}"
        for name, value in attributes.items()
        if isinstance(value, (str, int, float))
    ]
    nested = {name: value for name, value in attributes.items() if not isinstance(value, (str, int, float))}
    step.part("Facts", "\n".join([*lines, *([pretty(nested)] if nested else [])]))
