"""Building of turns from events of a trace or a recorded session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from codex_plugin_trace.reading.calls import command_text, show_arguments, show_changes, show_output
from codex_plugin_trace.reading.plain import mapping, number, one_line, pretty, seconds_of, sequence, text
from codex_plugin_trace.reading.timeline import Part, Step

__all__ = ["TurnBuilder"]

Event = Mapping[str, Any]

_MARKDOWN = ("message", "reasoning")
"""The kinds of steps with text that a model has written."""

_SILENT = frozenset(
    """
    agent_message_content_delta agent_reasoning_section_break exec_command_output_delta item_started mcp_startup_complete
    mcp_startup_update patch_apply_updated raw_response_item reasoning_content_delta session_configured shutdown_complete
    terminal_interaction thread_settings_applied token_count
    """.split()  # noqa: SIM905
)
"""Events that add nothing to a timeline, or are used elsewhere."""

_STATES = {"declined": "refused", "failed": "failed", "denied": "refused", "abort": "refused", "rejected": "refused"}


class TurnBuilder:
    """A turn that is being built.

    Attributes:
        step: The turn.
        calls: The steps of its calls, by call id.
        approvals: The steps of its approvals, by the id of the request.
    """

    def __init__(self, turn_id: str) -> None:
        self.id = turn_id
        self.step = Step("turn", "Turn", state="unfinished")
        self.calls: dict[str, Step] = {}
        self.approvals: dict[str, Step] = {}
        self._told: dict[str, Counter[tuple[str, str]]] = {}

    def see(self, time: float | None) -> None:
        """Extend the turn to a moment."""
        if time is not None:
            self.step.start = time if self.step.start is None else min(self.step.start, time)
            self.step.end = time if self.step.end is None else max(self.step.end, time)

    def add(self, step: Step) -> Step:
        """Add a step to the turn."""
        self.step.children.append(step)
        self.see(step.start)
        self.see(step.end)
        return step

    def call(self, call_id: str, name: str = "", time: float | None = None) -> Step:
        """Return the step of a call, which is made if it is new."""
        step = self.calls.get(call_id)
        if step is None:
            step = self.calls[call_id] = Step("tool", name or "tool", start=time, state="unfinished")
            self.step.children.append(step)
        self.see(time)
        return step

    def tell(self, kind: str, words: str, time: float | None, source: str) -> None:
        """Add a message, unless another source has told it: a record may contain it as an item and as an event."""
        if not words.strip():
            return
        mine = self._told.setdefault(source, Counter())
        mine[kind, words] += 1
        shown = max((told[kind, words] for name, told in self._told.items() if name != source), default=0)
        if mine[kind, words] > shown:
            form = "markdown" if kind in _MARKDOWN else "text"
            self.add(Step(kind, one_line(words), start=time, parts=[Part("Text", words, form)]))

    def apply(self, event: Event, time: float | None) -> None:
        """Apply an event."""
        self.see(time)
        kind = text(event.get("type"))
        handler = _HANDLERS.get(kind)
        if handler is not None:
            handler(self, event, time)
        elif kind and kind not in _SILENT:
            body = {name: value for name, value in event.items() if name not in ("type", "thread_id", "turn_id")}
            name = text(event.get("kind")) or kind
            self.add(Step("event", name.replace("_", " "), start=time)).part("Event", pretty(body), "json")

    def finish(self) -> None:
        """Complete the turn. Unfinished steps last until the last known time, unless the turn has ended normally."""
        for step in self.step.all():
            if step.state != "unfinished" or step.start is None or step.end is not None:
                continue
            if self.step.state:
                step.end = self.step.end
            else:
                step.note = step.note or "its end is not recorded"
        self._begin_with_input()
        self.step.sort()

    def _begin_with_input(self) -> None:
        """Let the first input of the user be before the first answer.

        Events get their time on the thread that writes them, which a busy machine delays; requests are timed where they are made.
        """
        first = next((step for step in self.step.children if step.kind == "user"), None)
        asked = [step.start for step in self.step.children if step.kind == "model" and step.start is not None]
        if first is not None and first.start is not None and asked and min(asked) <= first.start:
            first.start = min(asked)
            self.step.children.remove(first)
            self.step.children.insert(0, first)


def _told(kind: str, field: str) -> Callable[[TurnBuilder, Event, float | None], None]:
    def apply(turn: TurnBuilder, event: Event, time: float | None) -> None:
        turn.tell(kind, text(event.get(field)), time, "event")

    return apply


def _problem(kind: str) -> Callable[[TurnBuilder, Event, float | None], None]:
    def apply(turn: TurnBuilder, event: Event, time: float | None) -> None:
        words = text(event.get("message")) or text(event.get("summary")) or kind
        step = turn.add(Step(kind, one_line(words), start=time, state="failed" if kind == "error" else ""))
        step.part("Text", words)
        step.part("Details", text(event.get("additional_details")) or text(event.get("details")))

    return apply


def _on_started(turn: TurnBuilder, event: Event, time: float | None) -> None:
    turn.see(time if time is not None else number(event.get("started_at")))


def _on_completed(turn: TurnBuilder, event: Event, time: float | None) -> None:
    turn.step.state = ""
    took, first = number(event.get("duration_ms")), number(event.get("time_to_first_token_ms"))
    if took is not None and time is not None and turn.step.start is None:
        turn.step.start = time - took / 1000
    if first is not None:
        turn.step.note = f"first token after {first:.0f} ms"


def _on_aborted(turn: TurnBuilder, event: Event, time: float | None) -> None:  # noqa: ARG001  # the form of all handlers
    turn.step.state = "failed"
    turn.step.note = (text(event.get("reason")) or "aborted").replace("_", " ")


def _call_began(turn: TurnBuilder, event: Event, time: float | None) -> None:
    name = text(event.get("tool")) or {"exec_command_begin": "command", "patch_apply_begin": "apply_patch"}.get(
        text(event.get("type")), "tool"
    )
    call = turn.call(text(event.get("call_id")), name, time)
    if call.start is None:
        call.start = time
    if "arguments" in event:
        show_arguments(call, name, event["arguments"])
    elif "invocation" in event:
        _show_invocation(call, mapping(event["invocation"]))
    elif "command" in event and not call.parts:
        call.title = f"{call.title.partition(':')[0]}: {one_line(command_text(event['command']))}"
    show_changes(call, event.get("changes"))


def _show_invocation(call: Step, invocation: Event) -> None:
    name = "/".join(filter(None, (text(invocation.get("server")), text(invocation.get("tool"))))) or "tool"
    show_arguments(call, name, invocation.get("arguments"))


def _end(call: Step, event: Event, time: float | None) -> None:
    took = number(event.get("duration_s"))
    took = seconds_of(event.get("duration")) if took is None else took
    if call.end is None:
        call.end = time
    if call.start is None and call.end is not None:
        call.start = call.end - (took or 0.0)
    if call.state == "unfinished":
        call.state = ""


def _call_ended(turn: TurnBuilder, event: Event, time: float | None) -> None:
    call = turn.call(text(event.get("call_id")), text(event.get("tool")))
    _end(call, event, time)
    if "arguments" in event:
        show_arguments(call, text(event.get("tool")) or "tool", event["arguments"])
    elif "invocation" in event:
        _show_invocation(call, mapping(event["invocation"]))
    result = event.get("result", event.get("output"))
    if "Err" in mapping(result) or event.get("success") is False:
        call.state = call.state or "failed"
    show_output(call, mapping(result).get("Ok", mapping(result).get("Err", result)))


def _command_ended(turn: TurnBuilder, event: Event, time: float | None) -> None:
    call = turn.call(text(event.get("call_id")), "command")
    if call.kind == "tool" and not call.has("Arguments") and not call.parts:
        call.title = f"{call.title.partition(':')[0]}: {one_line(command_text(event.get('command')))}"
    if not call.has("Output"):
        _end(call, event, time)
    call.part("Command", command_text(event.get("command")), "command")
    call.part("Printed", text(event.get("aggregated_output")))
    code = event.get("exit_code")
    if isinstance(code, int) and code != 0:
        call.state, call.note = call.state or "failed", f"exit code {code}"
    call.state = _STATES.get(text(event.get("status")), call.state)


def _patch_ended(turn: TurnBuilder, event: Event, time: float | None) -> None:
    call = turn.call(text(event.get("call_id")), "apply_patch")
    _end(call, event, time)
    show_changes(call, event.get("changes"))
    call.part("Printed", text(event.get("stdout")) + text(event.get("stderr")))
    state = "failed" if event.get("success") is False else ""
    call.state = _STATES.get(text(event.get("status")), state or call.state)


def _on_question(turn: TurnBuilder, event: Event, time: float | None) -> None:
    call_id = text(event.get("call_id"))
    step = Step("approval", "approval", start=time, state="unfinished")
    if call_id:
        turn.call(call_id, time=None).children.append(step)
    else:
        turn.add(step)
    request = text(event.get("approval_id")) or text(event.get("request_id")) or text(event.get("id")) or call_id
    turn.approvals[request] = step
    step.part("Reason", text(event.get("reason")))
    step.part("Command", command_text(event.get("command")), "command")
    show_changes(step, event.get("changes"))
    if "permissions" in event:
        step.part("Permissions", pretty(event["permissions"]), "json")


def _on_resolved(turn: TurnBuilder, event: Event, time: float | None) -> None:
    step = turn.approvals.get(text(event.get("request_id")))
    if step is not None and step.state == "unfinished":
        step.state, step.end = "", time


def _plan(turn: TurnBuilder, event: Event, time: float | None) -> None:
    steps = [mapping(each) for each in sequence(event.get("plan"))]
    done = sum(each.get("status") == "completed" for each in steps)
    marks = {"completed": "✓", "in_progress": "→"}
    lines = [f"{marks.get(text(each.get('status')), '•')} {text(each.get('step'))}" for each in steps]
    step = turn.add(Step("plan", f"plan: {done} of {len(steps)} steps done", start=time))
    step.part("Plan", "\n".join([*filter(None, [text(event.get("explanation"))]), *lines]))


def _diff(turn: TurnBuilder, event: Event, time: float | None) -> None:  # noqa: ARG001  # the form of all handlers
    turn.step.part("Changes of the turn", text(event.get("unified_diff")), "diff")


def _on_compacted(turn: TurnBuilder, event: Event, time: float | None) -> None:  # noqa: ARG001
    if not any(step.kind == "compaction" for step in turn.step.children):
        turn.add(Step("compaction", "the conversation was shortened", start=time))


def _on_search(turn: TurnBuilder, event: Event, time: float | None) -> None:
    call = turn.call(text(event.get("call_id")), "web_search", time)
    _end(call, event, time)
    show_arguments(call, "web_search", {"query": text(event.get("query"))})


def _drawn(turn: TurnBuilder, event: Event, time: float | None) -> None:
    call = turn.call(text(event.get("call_id")), "image_generation", time)
    _end(call, event, time)
    known = {key: text(event.get(key)) for key in ("revised_prompt", "saved_path")}
    show_arguments(call, "image_generation", {key: value for key, value in known.items() if value})


def _on_image_viewed(turn: TurnBuilder, event: Event, time: float | None) -> None:
    call = turn.call(text(event.get("call_id")), "view_image", time)
    _end(call, event, time)
    if not call.parts:
        show_arguments(call, "view_image", {"path": text(event.get("path"))})


def _item(turn: TurnBuilder, event: Event, time: float | None) -> None:
    """Apply an item of a paginated session, which replaces the events of other sessions."""
    item = mapping(event.get("item"))
    began, ended = number(event.get("started_at_ms")), number(event.get("completed_at_ms"))
    end = time if ended is None else ended / 1000
    words = "\n".join(text(mapping(part).get("text")) for part in sequence(item.get("content")))
    call_id = text(item.get("id"))
    told = {**item, "call_id": call_id}
    match item.get("type"):
        case "UserMessage":
            turn.tell("user", words, end, "event")
        case "AgentMessage":
            turn.tell("message", words, end, "event")
        case "Reasoning":
            turn.tell("reasoning", "\n\n".join(map(text, sequence(item.get("summary_text")))), end, "event")
        case "CommandExecution":
            _begin_item(turn, call_id, "command", began)
            _command_ended(turn, told, end)
        case "FileChange":
            _begin_item(turn, call_id, "apply_patch", began)
            _patch_ended(turn, told, end)
        case "McpToolCall":
            _begin_item(turn, call_id, text(item.get("tool")), began)
            result = item.get("error") or item.get("result")
            failed = {"Err": result} if item.get("error") else result
            _call_ended(turn, {"call_id": call_id, "invocation": item, "result": failed}, end)
        case "ContextCompaction":
            _on_compacted(turn, event, end)


def _begin_item(turn: TurnBuilder, call_id: str, name: str, began_ms: float | None) -> None:
    call = turn.call(call_id, name)
    if call.start is None and began_ms is not None:
        call.start = began_ms / 1000


_HANDLERS: Mapping[str, Callable[[TurnBuilder, Event, float | None], None]] = {
    "task_started": _on_started,
    "turn_started": _on_started,
    "task_complete": _on_completed,
    "turn_complete": _on_completed,
    "turn_aborted": _on_aborted,
    "user_message": _told("user", "message"),
    "agent_message": _told("message", "message"),
    "agent_reasoning": _told("reasoning", "text"),
    "error": _problem("error"),
    "stream_error": _problem("error"),
    "warning": _problem("warning"),
    "deprecation_notice": _problem("warning"),
    "background_event": _problem("warning"),
    "tool_call_begin": _call_began,
    "mcp_tool_call_begin": _call_began,
    "exec_command_begin": _call_began,
    "patch_apply_begin": _call_began,
    "tool_call_end": _call_ended,
    "mcp_tool_call_end": _call_ended,
    "exec_command_end": _command_ended,
    "patch_apply_end": _patch_ended,
    "web_search_end": _on_search,
    "image_generation_end": _drawn,
    "view_image_tool_call": _on_image_viewed,
    "exec_approval_request": _on_question,
    "apply_patch_approval_request": _on_question,
    "tool_approval_request": _on_question,
    "request_permissions": _on_question,
    "request_resolved": _on_resolved,
    "plan_update": _plan,
    "turn_diff": _diff,
    "context_compacted": _on_compacted,
    "item_completed": _item,
}
