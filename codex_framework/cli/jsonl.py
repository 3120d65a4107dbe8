"""The output of ``exec --json``: events as JSON lines, with the names and fields that Codex's SDKs read.

Unlike in Codex, refused commands are items too, and an interrupted turn ends with ``turn.failed``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, get_args

from codex_framework.contract.protocol.events import (
    ErrorEvent,
    EventMsg,
    ExecCommandBeginEvent,
    ExecCommandEndEvent,
    FileChange,
    ItemCompletedEvent,
    ItemStartedEvent,
    KernelEvent,
    PatchApplyBeginEvent,
    PatchApplyEndEvent,
    PlanUpdateEvent,
    StreamErrorEvent,
    TokenUsage,
    ToolCallBeginEvent,
    ToolCallEndEvent,
    TurnAbortedEvent,
    TurnCompleteEvent,
    TurnStartedEvent,
    WarningEvent,
)
from codex_framework.contract.protocol.turn_items import item_text, tool_call_item
from codex_framework.contract.protocol.wire import to_wire
from codex_framework.toolkit.command_line import command_line

__all__ = ["WITH_OWN_ITEMS", "JsonEvents", "json_line", "with_details"]

JsonEvent = dict[str, Any]

WITH_OWN_ITEMS = frozenset({"apply_patch"})
"""Tools whose calls have special items in addition to the events of all calls."""

_NO_PLUGINS: Mapping[type[EventMsg], str] = {}


class JsonEvents:
    """Converts a thread's events to the events of ``--json``. Keeps the state that spans several events.

    ``turn.started`` waits for the first event that is not a warning, because clients expect warnings about the settings of a
    turn before it.

    Args:
        usage: Returns the tokens of the thread and its children so far.
        plugins: The event classes that plugins declare, each with its plugin's name.
    """

    def __init__(self, usage: Callable[[], TokenUsage], plugins: Mapping[type[EventMsg], str] = _NO_PLUGINS) -> None:
        self._usage = usage
        self._plugins = plugins
        self._next_item = 0
        self._running: dict[str, str] = {}
        self._todo: tuple[str, list[JsonEvent]] | None = None
        self._error: str | None = None
        self._starting = False

    def thread_started(self, thread_id: str) -> JsonEvent:
        """Return the first event."""
        return {"type": "thread.started", "thread_id": thread_id}

    def heartbeat(self, elapsed_s: float) -> JsonEvent:
        """Return the heartbeat event, with the ids of the items in progress."""
        return {"type": "heartbeat", "elapsed_s": round(elapsed_s, 1), "running": list(self._running.values())}

    def of(self, msg: EventMsg) -> Iterator[JsonEvent]:
        """Return the JSON events for one event of the thread."""
        if msg.is_delta:
            return
        if self._starting and not isinstance(msg, WarningEvent):
            self._starting = False
            yield {"type": "turn.started"}
        match msg:
            case TurnStartedEvent():
                self._starting = True
            case WarningEvent(message):
                yield _item_completed(self._new_id(), {"type": "error", "message": message})
            case ItemStartedEvent() | ItemCompletedEvent():
                yield from self._item(msg)
            case ExecCommandBeginEvent() | ExecCommandEndEvent():
                yield from self._command(msg)
            case PatchApplyBeginEvent() | PatchApplyEndEvent():
                yield from self._patch(msg)
            case ToolCallBeginEvent() | ToolCallEndEvent() if msg.tool not in WITH_OWN_ITEMS:
                yield from self._tool_call(tool_call_item(msg), begun=isinstance(msg, ToolCallBeginEvent))
            case PlanUpdateEvent():
                yield self._plan(msg)
            case StreamErrorEvent():
                yield {"type": "error", "message": with_details(msg)}
            case ErrorEvent(message):
                self._error = message
                yield {"type": "error", "message": message}
            case TurnCompleteEvent() | TurnAbortedEvent():
                yield from self._ended(msg)
            case _:
                # Plugins declare their events when the table is read, which imports the modules of all of them.
                plugin = None if type(msg) in _kernel_events() else self._plugins.get(type(msg))
                if plugin is not None:
                    yield {"type": "plugin.event", "plugin": plugin, "event": to_wire(msg)}

    def _item(self, msg: ItemStartedEvent | ItemCompletedEvent) -> Iterator[JsonEvent]:
        item = msg.item
        if item.get("type") == "McpToolCall":
            yield from self._tool_call(item, begun=isinstance(msg, ItemStartedEvent))
        if item.get("type") == "CollabAgentToolCall":
            yield from self._agent_call(item, begun=isinstance(msg, ItemStartedEvent))
        if item.get("type") == "WebSearch":
            yield from self._search(item, begun=isinstance(msg, ItemStartedEvent))
        if isinstance(msg, ItemStartedEvent):
            return
        match item.get("type"):
            case "AgentMessage":
                yield _item_completed(self._new_id(), {"type": "agent_message", "text": item_text(item)})
            case "Reasoning":
                if text := item_text(item):
                    yield _item_completed(self._new_id(), {"type": "reasoning", "text": text})

    def _search(self, item: Mapping[str, Any], *, begun: bool) -> Iterator[JsonEvent]:
        fields: JsonEvent = {"type": "web_search", "query": item.get("query"), "action": item.get("action")}
        key = f"web search {item.get('id')}"
        if begun or key not in self._running:
            yield {"type": "item.started", "item": {"id": self._begin(key), **fields}}
        if not begun:
            yield _item_completed(self._end(key), fields)

    def _tool_call(self, item: Mapping[str, Any], *, begun: bool) -> Iterator[JsonEvent]:
        result = item.get("result")
        fields: JsonEvent = {
            "type": "mcp_tool_call",
            "server": item.get("server"),
            "tool": item.get("tool"),
            "arguments": item.get("arguments"),
            "result": None,
            "error": item.get("error"),
            "status": "in_progress" if begun else item.get("status"),
        }
        if isinstance(result, Mapping):
            structured = result.get("structuredContent")
            fields["result"] = {"content": result.get("content", []), "structured_content": structured}
        key = f"tool call {item.get('id')}"
        if begun:
            yield {"type": "item.started", "item": {"id": self._begin(key), **fields}}
        else:
            yield _item_completed(self._end(key), fields)

    def _agent_call(self, item: Mapping[str, Any], *, begun: bool) -> Iterator[JsonEvent]:
        states = item.get("agents_states")
        fields: JsonEvent = {
            "type": "collab_tool_call",
            "tool": item.get("tool"),
            "sender_thread_id": item.get("sender_thread_id"),
            "receiver_thread_ids": item.get("receiver_thread_ids"),
            "prompt": item.get("prompt"),
            "agents_states": {key: _agent_state(state) for key, state in states.items()}
            if isinstance(states, Mapping)
            else {},
            "status": item.get("status"),
        }
        key = f"agent call {item.get('id')}"
        if begun:
            yield {"type": "item.started", "item": {"id": self._begin(key), **fields}}
        else:
            yield _item_completed(self._end(key), fields)

    def _command(self, msg: ExecCommandBeginEvent | ExecCommandEndEvent) -> Iterator[JsonEvent]:
        fields: JsonEvent = {"type": "command_execution", "command": command_line(msg.command)}
        key = f"command {msg.call_id}"
        if isinstance(msg, ExecCommandBeginEvent):
            item = {
                "id": self._begin(key),
                **fields,
                "aggregated_output": "",
                "exit_code": None,
                "status": "in_progress",
            }
            yield {"type": "item.started", "item": item}
            return
        declined = msg.status == "declined"
        fields["aggregated_output"] = msg.aggregated_output
        fields["exit_code"] = None if declined else msg.exit_code
        fields["status"] = msg.status
        yield _item_completed(self._end(key), fields)

    def _patch(self, msg: PatchApplyBeginEvent | PatchApplyEndEvent) -> Iterator[JsonEvent]:
        fields: JsonEvent = {"type": "file_change", "changes": _changes(msg.changes)}
        key = f"patch {msg.call_id}"
        if isinstance(msg, PatchApplyBeginEvent):
            yield {"type": "item.started", "item": {"id": self._begin(key), **fields, "status": "in_progress"}}
            return
        yield _item_completed(self._end(key), {**fields, "status": "completed" if msg.success else "failed"})

    def _plan(self, msg: PlanUpdateEvent) -> JsonEvent:
        items = [{"text": step.step, "completed": step.status == "completed"} for step in msg.plan]
        begun = self._todo is not None
        item_id = self._todo[0] if self._todo is not None else self._new_id()
        self._todo = (item_id, items)
        item = {"id": item_id, "type": "todo_list", "items": items}
        return {"type": "item.updated" if begun else "item.started", "item": item}

    def _ended(self, msg: TurnCompleteEvent | TurnAbortedEvent) -> Iterator[JsonEvent]:
        if self._todo is not None:
            item_id, items = self._todo
            self._todo = None
            yield _item_completed(item_id, {"type": "todo_list", "items": items})
        if isinstance(msg, TurnAbortedEvent):
            yield {"type": "turn.failed", "error": {"message": f"turn {msg.reason}"}}
        elif self._error is not None:
            yield {"type": "turn.failed", "error": {"message": self._error}}
        else:
            yield {"type": "turn.completed", "usage": _usage(self._usage())}
        self._error = None

    def _new_id(self) -> str:
        self._next_item += 1
        return f"item_{self._next_item - 1}"

    def _begin(self, key: str) -> str:
        self._running[key] = item_id = self._new_id()
        return item_id

    def _end(self, key: str) -> str:
        return self._running.pop(key, None) or self._new_id()


_LINE_ENDS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}
"""Characters that some readers treat as line ends, such as Node's readline and Python's splitlines."""


def json_line(event: Mapping[str, Any]) -> bytes:
    """Encode an event as one line of UTF-8."""
    text = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    try:
        return f"{text.translate(_LINE_ENDS)}\n".encode()
    except UnicodeEncodeError:  # half of a surrogate pair, from truncated model output; escaped, it is valid JSON
        return f"{json.dumps(event, separators=(',', ':'))}\n".encode()


def with_details(msg: StreamErrorEvent) -> str:
    """Return the message with its details, such as ``Reconnecting... 1/5 (why)``."""
    details = msg.additional_details
    return msg.message if not details or details in msg.message else f"{msg.message} ({details})"


@cache
def _kernel_events() -> frozenset[type[EventMsg]]:
    return frozenset(get_args(KernelEvent))


def _item_completed(item_id: str, item: JsonEvent) -> JsonEvent:
    return {"type": "item.completed", "item": {"id": item_id, **item}}


def _agent_state(status: Any) -> JsonEvent:
    """Return the status of an agent as an object: ``{"completed": text}`` becomes a status and a message."""
    if isinstance(status, Mapping):
        word, message = next(iter(status.items()), ("unknown", None))
        return {"status": word, "message": message}
    return {"status": status, "message": None}


def _changes(changes: Mapping[str, FileChange]) -> list[JsonEvent]:
    return [{"path": path, "kind": change.type} for path, change in sorted(changes.items())]


def _usage(usage: TokenUsage) -> JsonEvent:
    return {
        "input_tokens": usage.input_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "cache_write_input_tokens": usage.cache_write_input_tokens,
        "output_tokens": usage.output_tokens,
        "reasoning_output_tokens": usage.reasoning_output_tokens,
    }
