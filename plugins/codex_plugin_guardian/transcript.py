"""The conversation for the reviewing model: its most important parts, within limits.

The limits are Codex's, with four bytes per token: 10,000 tokens of messages and 10,000 of tool calls and their outputs; 2,000 of
one message and 1,000 of one call or output; and in addition to the user's messages the newest 40 entries at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from codex_framework.contract.protocol.items import (
    CONTEXT_MARKS,
    LETTER_MARK,
    SUMMARY_MARK,
    ContentItem,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputText,
    LocalShellCall,
    Message,
    OutputText,
    ResponseItem,
    UnknownItem,
)
from codex_framework.contract.value import Value
from codex_plugin_guardian.quoting import fitted_text, quoted, tokens

__all__ = ["MESSAGE_LIMITS", "RECENT", "TOOL_LIMITS", "Transcript", "transcript"]

MESSAGE_LIMITS = (10_000, 2_000)
"""Maximum number of tokens of all messages, and of one."""

TOOL_LIMITS = (10_000, 1_000)
"""Maximum number of tokens of all calls and outputs, and of one."""

RECENT = 40
"""Maximum number of entries in addition to the user's messages."""

_NAME_LENGTH = 100

_USER = {"from": "user"}


class Transcript(Value):
    """The shown parts of a conversation.

    Attributes:
        lines: JSON objects, oldest first. ``n`` numbers them; a gap in the numbers shows omitted entries.
        left_out: The number of entries that are not shown.
    """

    lines: tuple[str, ...]
    left_out: int


class _Entry(Value):
    """An entry. ``kind`` is ``user``, ``agent`` or ``tool``, ``frame`` names the author, and ``field`` the key of the text."""

    kind: str
    frame: Mapping[str, str]
    field: str
    text: str

    def line(self, number: int) -> str:
        limit = (TOOL_LIMITS if self.kind == "tool" else MESSAGE_LIMITS)[1]
        return fitted_text(lambda text: {"n": number, **self.frame, self.field: text}, self.text, limit)


class _Shown:
    """The chosen entries, and the rest of the budgets."""

    def __init__(self, entries: Sequence[_Entry]) -> None:
        self._entries = entries
        self._left = {False: MESSAGE_LIMITS[0], True: TOOL_LIMITS[0]}
        self.lines: dict[int, str] = {}

    def add(self, index: int) -> bool:
        """Add an entry. Return False if it does not fit."""
        if index in self.lines:
            return True
        entry = self._entries[index]
        line = entry.line(index + 1)
        size = tokens(line)
        is_tool = entry.kind == "tool"
        if size > self._left[is_tool]:
            return False
        self._left[is_tool] -= size
        self.lines[index] = line
        return True


def transcript(history: Sequence[ResponseItem], root: Sequence[ResponseItem] | None = None) -> Transcript:
    """Return the parts of a history to show.

    In the history of a sub-agent, only messages that the user wrote to its root thread count as the user's. All others are from
    the agent that started it, which could otherwise write its own permissions.

    The user's newest and first message have the highest priority, then the user's other messages, newest first, then all other
    entries, newest first. Context of the workspace and reasoning are not included.

    Args:
        root: The history of the root thread if the thread is a sub-agent's.
    """
    entries = list(_entries(history) if root is None else _entries_of_child(history, root))
    shown = _Shown(entries)
    persons = [index for index, entry in enumerate(entries) if entry.kind == "user"]
    for index in (*persons[-1:], *persons[:1], *reversed(persons)):
        if not shown.add(index):
            break
    full: set[bool] = set()
    others = [index for index, entry in enumerate(entries) if entry.kind != "user"]
    for index in reversed(others[-RECENT:]):
        is_tool = entries[index].kind == "tool"
        if is_tool not in full and not shown.add(index):
            full.add(is_tool)  # no older entries of this kind, so that the newest are shown without gaps
    return Transcript(tuple(shown.lines[index] for index in sorted(shown.lines)), len(entries) - len(shown.lines))


def _entries_of_child(history: Sequence[ResponseItem], root: Sequence[ResponseItem]) -> Iterator[_Entry]:
    persons = {entry.text: entry for entry in _entries(root) if entry.frame == _USER}
    own = list(_entries(history))
    inherited = {entry.text for entry in own if entry.frame == _USER}
    yield from (entry for text, entry in persons.items() if text not in inherited)
    for entry in own:
        is_task = entry.frame == _USER and entry.text not in persons
        yield entry.evolve(frame={"from": "another agent"}) if is_task else entry


def _entries(history: Sequence[ResponseItem]) -> Iterator[_Entry]:
    called: dict[str, str] = {}
    for item in history:
        match item:
            case Message(role="user") if _text(item.content).lstrip().startswith(SUMMARY_MARK):
                yield _Entry(
                    "agent", {"from": "agent", "wrote": "a summary of what came before"}, "text", _text(item.content)
                )
            case Message(role="user") if _text(item.content).lstrip().startswith(LETTER_MARK):
                yield _Entry("agent", {"from": "another agent"}, "text", _text(item.content))
            case Message(role="user") if not _is_context(item):
                yield _Entry("user", _USER, "text", _text(item.content))
            case Message(role="assistant"):
                yield _Entry("agent", {"from": "agent"}, "text", _text(item.content))
            case FunctionCall() | CustomToolCall() | LocalShellCall():
                name, given = _call(item)
                called[item.call_id or ""] = name
                yield _Entry("tool", {"from": "agent", "calls": name}, "with", given)
            case FunctionCallOutput() | CustomToolCallOutput():
                output = item.output if isinstance(item.output, str) else _text(item.output)
                yield _Entry("tool", {"from": f"tool {called.get(item.call_id, '')}".strip()}, "output", output)
            case UnknownItem(raw={"type": "agent_message", "content": content}):
                yield _Entry("agent", {"from": "another agent"}, "text", quoted(_plain(content)))
            case UnknownItem(raw=raw) if not raw.get("encrypted_content"):
                yield _Entry(
                    "tool", {"from": "agent", "does": _short(str(raw.get("type")))}, "raw", quoted(_plain(raw))
                )
            case _:  # developer messages, reasoning, and items that only the provider can read
                continue


def _call(item: FunctionCall | CustomToolCall | LocalShellCall) -> tuple[str, str]:
    match item:
        case FunctionCall():
            return _short(f"{item.namespace or ''}{item.name}"), item.arguments
        case CustomToolCall():
            return _short(item.name), item.input
        case _:
            return "local_shell", quoted(_plain(item.action))


def _is_context(message: Message) -> bool:
    """Return whether a user message is not from the user: known context, or a text that is completely enclosed in tags."""
    first = next((part.text for part in message.content if isinstance(part, InputText)), "").strip()
    if not first.startswith("<"):
        return first.startswith(CONTEXT_MARKS)
    tag = first[1:].partition(">")[0]
    ends = tuple(f"</{name}>" for name in (tag, *tag.split()[:1]))
    return first.startswith(CONTEXT_MARKS) or (bool(tag) and first.endswith(ends))


def _text(content: Sequence[ContentItem]) -> str:
    parts = []
    for part in content:
        match part:
            case InputText(text) | OutputText(text):
                parts.append(text)
            case InputImage():
                parts.append("[an image]")
            case _:
                parts.append("[something that is not text]")
    return "".join(parts)


def _short(name: str) -> str:
    return name if len(name) <= _NAME_LENGTH else f"{name[:_NAME_LENGTH]}…"


def _plain(value: Any) -> Any:
    """Convert a value to plain dicts and lists."""
    if isinstance(value, Mapping):
        return {str(key): _plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
