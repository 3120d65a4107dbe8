"""The conversation: converts events of a thread to lines, and keeps running work for the live region."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from codex_client_terminal.items import (
    Item,
    Widget,
    agent_text,
    bulleted,
    command_text,
    plan_lines,
    render,
    whole_output,
)
from codex_client_terminal.markdown import MarkdownStream
from codex_client_terminal.text import Line, cut, one_line, wrap
from codex_framework import Event, EventMsg, Thread, Value
from codex_framework.contract.protocol.event_items import Ended, WholeEvent, item_of
from codex_framework.contract.protocol.events import (
    AgentMessageContentDeltaEvent,
    AgentMessageEvent,
    AgentReasoningEvent,
    ContextCompactedEvent,
    DeprecationNoticeEvent,
    ErrorEvent,
    ExecCommandOutputDeltaEvent,
    ItemCompletedEvent,
    ItemStartedEvent,
    PlanStep,
    PlanUpdateEvent,
    ReasoningContentDeltaEvent,
    StreamErrorEvent,
    ThreadRolledBackEvent,
    TokenCountEvent,
    TokenUsageInfo,
    ToolCallBeginEvent,
    ToolCallEndEvent,
    ToolCallProgressEvent,
    TurnAbortedEvent,
    TurnCompleteEvent,
    TurnDiffEvent,
    TurnStartedEvent,
    WarningEvent,
)
from codex_framework.contract.protocol.turn_items import tool_call_item

__all__ = ["Past", "Transcript", "past_items"]

_SHOWN_OTHERWISE = frozenset({"apply_patch", "update_plan", "view_image"})
"""Tools whose calls have special items or events."""

_OUTPUT_KEPT = 2_000
"""How much of a running command's output is kept for the live region, in characters."""

MOST_PAST = 1_000
"""The most items of a stored conversation that are printed."""

_LIVE_COMMANDS, _LIVE_ROWS, _LIVE_AGENTS = 3, 8, 5


class Transcript:
    """The conversation of one thread.

    Args:
        widgets: The functions that show calls of plugins' tools.
        cwd: The working folder.
        shows_reasoning: Whether summaries of the model's reasoning are printed.

    Attributes:
        turn_id: The running turn. None while no turn is running.
        began: When it began (monotonic seconds).
        took_s: How long the newest turn took that has ended, in seconds.
        usage: Tokens of the thread so far.
        diff: All file changes of the newest turn, as one unified diff.
        folded: The newest texts of which only a part was printed.
        last_message: The newest message of the model.
    """

    def __init__(self, widgets: Mapping[str, Widget], *, cwd: str = "", shows_reasoning: bool = True) -> None:
        self.turn_id: str | None = None
        self.began = 0.0
        self.took_s: float | None = None
        self.usage: TokenUsageInfo | None = None
        self.diff = ""
        self.folded: list[str] = []
        self.last_message = ""
        self._widgets = widgets
        self._cwd = cwd
        self._shows_reasoning = shows_reasoning
        self._streams: dict[str, MarkdownStream] = {}
        self._printed: set[str] = set()  # streams of which something has been printed
        self._running: dict[str, Item] = {}
        self._outputs: dict[str, str] = {}
        self._thought = ""
        self._steps: Sequence[PlanStep] = ()

    def take(self, event: Event) -> list[Line]:
        """Take an event, and return the lines to print."""
        if event.thread_id:  # of a child, which shows itself by items of its parent
            return []
        show = self._KINDS.get(type(event.msg))
        return [] if show is None else list(show(self, event.msg))

    def live(self, width: int, now: float, agents: Sequence[Thread] = ()) -> list[Line]:
        """Return the lines for running work.

        Args:
            agents: The active sub-agents.
        """
        lines: list[Line] = []
        for stream_id, stream in self._streams.items():
            unfinished = stream.unfinished
            shown = bulleted(unfinished, first=stream_id not in self._printed)
            lines += [row for line in shown for row in wrap(line, width)][-_LIVE_ROWS:]
        for item_id, item in list(self._running.items())[:_LIVE_COMMANDS]:
            lines += self._running_lines(item_id, item)
        if len(self._running) > _LIVE_COMMANDS:
            lines.append([(f"  … and {len(self._running) - _LIVE_COMMANDS} more", "dim")])
        if self.turn_id is not None:
            doing = self._thought or "Working"
            lines.append([])
            lines.append(
                [
                    ("• ", "cyan bold"),
                    (one_line(doing, 60), "bold"),
                    (f" ({elapsed(now - self.began)} • esc to interrupt)", "dim"),
                ]
            )
            lines += self._current_step()
        lines += map(_agent_line, agents[:_LIVE_AGENTS])
        if len(agents) > _LIVE_AGENTS:
            lines.append([(f"  … and {len(agents) - _LIVE_AGENTS} more agents", "dim")])
        return [cut(line, width) for line in lines]

    def _current_step(self) -> Iterator[Line]:
        """Yield the line for the step of the plan that is being worked on."""
        done = sum(step.status == "completed" for step in self._steps)
        for step in self._steps:
            if step.status == "in_progress":
                yield [
                    ("  □ ", "cyan"),
                    (one_line(step.step, 100), ""),
                    (f" ({done} of {len(self._steps)} done)", "dim"),
                ]

    def print_past(self, past: Past) -> Iterator[Line]:
        """Yield the lines of a stored conversation's newest items."""
        self.usage = past.usage
        if past.earlier:
            yield []
            yield [
                (
                    f"… {past.earlier} earlier items are not printed. /export writes the whole conversation to a file.",
                    "dim",
                )
            ]
        for item in past.items:
            yield from self._print_item(item)

    # Turns

    def _begin_turn(self, msg: TurnStartedEvent) -> Iterator[Line]:
        self.turn_id, self.began, self._thought, self.diff = msg.turn_id, time.monotonic(), "", ""
        self._steps = ()
        return iter(())

    def _end_turn(self, msg: TurnCompleteEvent | TurnAbortedEvent) -> Iterator[Line]:
        for stream_id in list(self._streams):
            yield from self._end_stream(stream_id)
        self.turn_id, self._thought = None, ""
        self.took_s = time.monotonic() - self.began
        self._running = {key: item for key, item in self._running.items() if item.get("process_id")}
        self._outputs.clear()
        if isinstance(msg, TurnAbortedEvent):
            text = (
                "Conversation interrupted - tell the model what to do differently."
                if msg.reason == "interrupted"
                else f"The turn was stopped: {msg.reason}"
            )
            yield []
            yield [("■ ", "red bold"), (text, "red")]
        elif msg.duration_ms and msg.duration_ms > 60_000:
            yield []
            yield [(f"─ Worked for {elapsed(msg.duration_ms / 1000)} ─", "dim")]

    def _fail(self, msg: ErrorEvent) -> Iterator[Line]:
        yield []
        yield from _notice_lines("■ ", "red", msg.message)

    def _retry(self, msg: StreamErrorEvent) -> Iterator[Line]:
        yield []
        yield from _notice_lines("⚠ ", "yellow", msg.message)

    def _warn(self, msg: WarningEvent) -> Iterator[Line]:
        yield []
        yield from _notice_lines("⚠ ", "yellow", msg.message)

    def _deprecate(self, msg: DeprecationNoticeEvent) -> Iterator[Line]:
        yield []
        yield from _notice_lines("⚠ ", "yellow", f"{msg.summary} {msg.details or ''}")

    def _count(self, msg: TokenCountEvent) -> Iterator[Line]:
        self.usage = msg.info or self.usage
        return iter(())

    def _keep_diff(self, msg: TurnDiffEvent) -> Iterator[Line]:
        self.diff = msg.unified_diff
        return iter(())

    def _plan(self, msg: PlanUpdateEvent) -> Iterator[Line]:
        self._steps = msg.plan
        yield []
        yield from plan_lines([(step.step, step.status) for step in msg.plan], msg.explanation)

    def _roll_back(self, msg: ThreadRolledBackEvent) -> Iterator[Line]:
        yield []
        yield [(f"• Went back {msg.num_turns} turn{'s' if msg.num_turns != 1 else ''}", "dim")]

    # Items

    def _start(self, msg: ItemStartedEvent) -> Iterator[Line]:
        kind = msg.item.get("type")
        if kind == "AgentMessage":
            self._streams[str(msg.item["id"])] = MarkdownStream()
        elif kind in ("CommandExecution", "FileChange", "WebSearch", "ImageGeneration"):
            self._running[str(msg.item["id"])] = msg.item
        return iter(())

    def _complete(self, msg: ItemCompletedEvent) -> Iterator[Line]:
        item_id = str(msg.item.get("id"))
        self._running.pop(item_id, None)
        self._outputs.pop(item_id, None)
        if msg.item.get("type") == "AgentMessage":
            self.last_message = agent_text(msg.item)
            if item_id in self._printed:
                yield from self._end_stream(item_id)
                return
        self._streams.pop(item_id, None)
        if msg.item.get("type") == "Reasoning":
            self._thought = ""
        yield from self._print_item(msg.item)

    def _print_item(self, item: Item) -> list[Line]:
        if item.get("type") == "Reasoning" and not self._shows_reasoning:
            return []
        lines = render(self._shortened(item), self._widgets)
        if whole := whole_output(item):
            self.folded = [*self.folded[-20:], whole]
        return [[], *lines] if lines else []

    def _shortened(self, item: Item) -> Item:
        """Return a patch with paths as a person in the working folder writes them."""
        if item.get("type") != "FileChange":
            return item
        changes = {path.removeprefix(f"{self._cwd}/"): change for path, change in (item.get("changes") or {}).items()}
        return {**item, "changes": changes}

    def _tool_began(self, msg: ToolCallBeginEvent) -> Iterator[Line]:
        if msg.tool not in _SHOWN_OTHERWISE:
            self._running[msg.call_id] = tool_call_item(msg)
        return iter(())

    def _tool_ended(self, msg: ToolCallEndEvent) -> Iterator[Line]:
        self._running.pop(msg.call_id, None)
        self._outputs.pop(msg.call_id, None)
        if msg.tool not in _SHOWN_OTHERWISE:
            yield from self._print_item({**tool_call_item(msg), "details": msg.details})

    # Deltas

    def _add_text(self, msg: AgentMessageContentDeltaEvent) -> Iterator[Line]:
        stream = self._streams.setdefault(msg.item_id, MarkdownStream())
        yield from self._print_stream(msg.item_id, stream.feed(msg.delta))

    def _end_stream(self, item_id: str) -> Iterator[Line]:
        stream = self._streams.pop(item_id, None)
        if stream is not None:
            yield from self._print_stream(item_id, stream.end())

    def _print_stream(self, item_id: str, lines: list[Line]) -> Iterator[Line]:
        if not lines:
            return
        first = item_id not in self._printed
        if first:
            self._printed.add(item_id)
            yield []
        yield from bulleted(lines, first=first)

    def _add_thought(self, msg: ReasoningContentDeltaEvent) -> Iterator[Line]:
        if self._shows_reasoning and not self._thought and msg.delta.strip():
            self._thought = msg.delta.strip().strip("*")
        return iter(())

    def _add_output(self, msg: ExecCommandOutputDeltaEvent) -> Iterator[Line]:
        text = self._outputs.get(msg.call_id, "") + msg.chunk.decode("utf-8", "replace")
        self._outputs[msg.call_id] = text[-_OUTPUT_KEPT:]
        return iter(())

    def _add_progress(self, msg: ToolCallProgressEvent) -> Iterator[Line]:
        self._outputs[msg.call_id] = msg.text[-_OUTPUT_KEPT:]
        return iter(())

    def _running_lines(self, item_id: str, item: Item) -> list[Line]:
        match item.get("type"):
            case "CommandExecution":
                verb = "Running " if self.turn_id is not None else "In the background: "
                what: Line = [(verb, "bold"), (one_line(command_text(item.get("command") or ())), "")]
            case "FileChange":
                what = [("Editing ", "bold"), (one_line(", ".join(sorted(item.get("changes") or ()))), "")]
            case "McpToolCall":
                what = [("Calling ", "bold"), (f"{item.get('server')}.{item.get('tool')}", "cyan")]
            case "WebSearch":
                what = [("Searching the web", "bold")]
            case _:
                what = [("Generating an image", "bold")]
        output = self._outputs.get(item_id, "").rstrip("\n").split("\n")[-3:]
        tail: list[Line] = [[("    ", ""), (row.rpartition("\r")[2], "dim")] for row in output if row]
        return [[], [("• ", "cyan"), *what], *tail]

    _KINDS: ClassVar[Mapping[type[EventMsg], Callable[[Any, Any], Iterator[Line]]]] = {
        TurnStartedEvent: _begin_turn,
        TurnCompleteEvent: _end_turn,
        TurnAbortedEvent: _end_turn,
        ErrorEvent: _fail,
        StreamErrorEvent: _retry,
        WarningEvent: _warn,
        DeprecationNoticeEvent: _deprecate,
        TokenCountEvent: _count,
        TurnDiffEvent: _keep_diff,
        PlanUpdateEvent: _plan,
        ThreadRolledBackEvent: _roll_back,
        ItemStartedEvent: _start,
        ItemCompletedEvent: _complete,
        ToolCallBeginEvent: _tool_began,
        ToolCallEndEvent: _tool_ended,
        ToolCallProgressEvent: _add_progress,
        AgentMessageContentDeltaEvent: _add_text,
        ReasoningContentDeltaEvent: _add_thought,
        ExecCommandOutputDeltaEvent: _add_output,
    }


class Past(Value):
    """The visible part of a stored conversation.

    Attributes:
        items: Its newest items, the oldest first.
        earlier: The number of earlier items.
        usage: Its tokens.
    """

    items: Sequence[Item] = ()
    earlier: int = 0
    usage: TokenUsageInfo | None = None

    @classmethod
    def of(cls, events: Sequence[EventMsg]) -> Past:
        """Return the conversation of a record's events."""
        counts = (msg.info for msg in reversed(events) if isinstance(msg, TokenCountEvent) and msg.info is not None)
        newest: deque[Item] = deque(maxlen=MOST_PAST)
        earlier = -MOST_PAST
        for item in past_items(events):
            newest.append(item)
            earlier += 1
        return cls(tuple(newest), max(earlier, 0), next(counts, None))


def past_items(events: Sequence[EventMsg]) -> Iterator[Item]:
    """Yield the items for the events of a record."""
    numbers = itertools.count(1)
    for msg in events:
        match msg:
            case ItemCompletedEvent():
                yield msg.item
            case AgentMessageEvent():
                yield {
                    "type": "AgentMessage",
                    "id": f"item-{next(numbers)}",
                    "content": [{"type": "Text", "text": msg.message}],
                }
            case AgentReasoningEvent():
                yield {"type": "Reasoning", "id": f"item-{next(numbers)}", "summary_text": [msg.text]}
            case ContextCompactedEvent():
                yield {"type": "ContextCompaction", "id": f"item-{next(numbers)}"}
            case ToolCallEndEvent():
                yield tool_call_item(msg)
            case _ if isinstance(msg, Ended | WholeEvent):
                yield item_of(msg, f"item-{next(numbers)}")
            case _:
                pass


def elapsed(seconds: float) -> str:
    """Return a duration in a few characters."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    return f"{whole // 60}m {whole % 60:02}s" if whole < 3600 else f"{whole // 3600}h {whole % 3600 // 60:02}m"


def _agent_line(thread: Thread) -> Line:
    """Return the line for a sub-agent at work: its name, whether it waits for an answer, and its tokens."""
    match thread.meta.extra.get("source_detail"):
        case {"subagent": {"thread_spawn": {"agent_path": str(name)} | {"agent_nickname": str(name)}}}:
            pass
        case _:
            name = thread.id
    doing = "waits for your answer" if thread.status == "waiting" else "is working"
    return [
        ("  ↳ ", "cyan"),
        (one_line(name, 40), "bold"),
        (f" {doing} · {short_number(thread.usage.total_tokens)} tokens", "dim"),
    ]


def short_number(number: int) -> str:
    """Return a number in a few characters."""
    return f"{number / 1e6:.1f}M" if number >= 1e6 else f"{number / 1e3:.1f}K" if number >= 1e3 else str(number)


def _notice_lines(mark: str, style: str, text: str) -> Iterator[Line]:
    for number, row in enumerate(text.split("\n")):
        yield [(mark if number == 0 else "  ", f"{style} bold"), (row, style)]
