"""The items of a conversation with a model, as on the Responses wire.

Every class is one variant of the wire's ``ResponseItem`` (tag ``type``). Unknown fields are kept in ``extra`` and written back,
and an unknown variant becomes an :class:`UnknownItem`. So data from a newer server survives the history, the disk and the next
request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from codex_framework.contract.value import Value

__all__ = [
    "CONTEXT_MARKS",
    "SUMMARY_MARK",
    "AnyCall",
    "CallItem",
    "ContentItem",
    "CustomToolCall",
    "CustomToolCallOutput",
    "FunctionCall",
    "FunctionCallOutput",
    "InputImage",
    "InputText",
    "LocalShellCall",
    "Message",
    "OutputItem",
    "OutputText",
    "Reasoning",
    "ResponseItem",
    "UnknownContent",
    "UnknownItem",
    "begins_turn",
    "is_call",
    "is_output",
    "is_paired_unknown",
    "is_user_message",
    "message_text",
    "search_output",
    "user_message",
    "with_paired_outputs",
]

LETTER_MARK = "<agent_message>"
"""The beginning of a user message that another agent wrote, for models that do not read items of the type ``agent_message``."""

CONTEXT_MARKS = (
    "# AGENTS.md instructions for ",
    "# AGENTS.md instructions\n",
    "<environment_context>",
    "<user_instructions>",
    "<user_shell_command>",
    "<turn_aborted>",
    "<subagent_notification>",
    LETTER_MARK,
    "<skill>",
    "<codex_internal_context",
    "<goal_context>",
    "<external_",
)
"""The beginnings of user messages that the user did not write (spec: contextual user fragments)."""

SUMMARY_MARK = "Another language model started to solve this problem and produced a summary of its thinking process."
"""The prefix of a user message that contains a model's summary of the compacted conversation (Codex's words). Unlike context, a
summary stays when the context changes. It contains only the model's words, so nothing in it is a permission of the user.
"""

PACKED = "_packed"
"""The key in the ``__dict__`` of a packed item under which its JSON is kept."""

Extra: TypeAlias = Mapping[str, Any]

_NO_EXTRA: Extra = {}


class InputText(Value):
    """Text for the model."""

    type: ClassVar[Literal["input_text"]] = "input_text"
    text: str


class InputImage(Value):
    """An image for the model.

    Attributes:
        image_url: An ``https:`` or ``data:`` URL.
        detail: ``low``, ``high``, ``original`` or ``auto``.
    """

    type: ClassVar[Literal["input_image"]] = "input_image"
    image_url: str
    detail: str | None = None


class OutputText(Value):
    """Text from the model."""

    type: ClassVar[Literal["output_text"]] = "output_text"
    text: str
    extra: Extra = _NO_EXTRA


class UnknownContent(Value):
    """A content part of an unknown kind, kept unchanged."""

    type: ClassVar[str] = ""
    raw: Extra


ContentItem: TypeAlias = InputText | InputImage | OutputText | UnknownContent


class Packable(Value):
    """An item whose long fields can be kept as the item's JSON until they are read; see ``wire.packed_item``."""

    long_fields: ClassVar[tuple[str, ...]] = ("output",)
    """Fields without a default, which would hide that an instance does not have them."""
    unpack: ClassVar[Callable[[bytes], Any]]
    """Reads an item's JSON. Set by ``wire``, which alone packs items."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:  # called only for what an instance does not have
            packed = self.__dict__.get(PACKED)
            if packed is not None and name in self.long_fields:
                return getattr(self.unpack(packed), name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class Message(Packable):
    """One message. ``role`` is ``user``, ``assistant`` or ``developer``; ``phase`` is ``commentary`` or ``final_answer``."""

    type: ClassVar[Literal["message"]] = "message"
    long_fields = ("content",)
    role: str
    content: tuple[ContentItem, ...]
    id: str | None = None
    phase: str | None = None
    extra: Extra = _NO_EXTRA


class Reasoning(Value):
    """The model's reasoning: readable summary parts and usually an encrypted body, which is sent back unread."""

    type: ClassVar[Literal["reasoning"]] = "reasoning"
    id: str | None = None
    summary: tuple[Extra, ...] = ()
    content: tuple[Extra, ...] | None = None
    encrypted_content: str | None = None
    extra: Extra = _NO_EXTRA


class FunctionCall(Packable):
    """A call of a function tool. ``arguments`` is the JSON text as the model wrote it, valid or not."""

    type: ClassVar[Literal["function_call"]] = "function_call"
    long_fields = ("arguments",)
    name: str
    arguments: str
    call_id: str
    namespace: str | None = None
    id: str | None = None
    extra: Extra = _NO_EXTRA


class FunctionCallOutput(Packable):
    """The output of a function call: a text, or a list of content parts."""

    type: ClassVar[Literal["function_call_output"]] = "function_call_output"
    call_id: str
    output: str | tuple[ContentItem, ...]
    id: str | None = None
    extra: Extra = _NO_EXTRA


class CustomToolCall(Packable):
    """A call of a freeform (grammar) tool. ``input`` is plain text."""

    type: ClassVar[Literal["custom_tool_call"]] = "custom_tool_call"
    long_fields = ("input",)
    name: str
    input: str
    call_id: str
    id: str | None = None
    status: str | None = None
    extra: Extra = _NO_EXTRA


class CustomToolCallOutput(Packable):
    """The output of a freeform call."""

    type: ClassVar[Literal["custom_tool_call_output"]] = "custom_tool_call_output"
    call_id: str
    output: str | tuple[ContentItem, ...]
    id: str | None = None
    extra: Extra = _NO_EXTRA


class LocalShellCall(Value):
    """A call of the model's native ``local_shell`` tool.

    Attributes:
        action: ``{"type": "exec", "command": [...], "timeout_ms"?, "working_directory"?, "env"?, "user"?}``.
    """

    type: ClassVar[Literal["local_shell_call"]] = "local_shell_call"
    action: Extra
    call_id: str | None = None
    status: str | None = None
    id: str | None = None
    extra: Extra = _NO_EXTRA


class UnknownItem(Value):
    """An item of an unknown kind, kept unchanged."""

    type: ClassVar[str] = ""
    raw: Extra

    @property
    def kind(self) -> str:
        """The ``type`` that was read. Empty if it is missing or not text."""
        tag = self.raw.get("type")
        return tag if isinstance(tag, str) else ""


CallItem: TypeAlias = FunctionCall | CustomToolCall | LocalShellCall
OutputItem: TypeAlias = FunctionCallOutput | CustomToolCallOutput
AnyCall: TypeAlias = CallItem | UnknownItem
"""A call that a tool answers. An ``UnknownItem`` is a tool search, for which :func:`search_output` returns an output."""
ResponseItem: TypeAlias = (
    Message
    | Reasoning
    | FunctionCall
    | FunctionCallOutput
    | CustomToolCall
    | CustomToolCallOutput
    | LocalShellCall
    | UnknownItem
)


def is_call(item: ResponseItem) -> bool:
    """Return whether the item is a tool call."""
    return isinstance(item, (FunctionCall, CustomToolCall, LocalShellCall))


def is_output(item: ResponseItem) -> bool:
    """Return whether the item is the output of a call."""
    return isinstance(item, (FunctionCallOutput, CustomToolCallOutput))


def user_message(text: str, *, role: Literal["user", "developer"] = "user") -> Message:
    """Return a user message of one text part."""
    return Message(role=role, content=(InputText(text),))


def message_text(item: Message) -> str:
    """Return all text of a message, its parts joined without a separator."""
    return "".join(part.text for part in item.content if isinstance(part, (InputText, OutputText)))


def is_user_message(item: ResponseItem) -> bool:
    """Return whether the item is a message that the user wrote. Context and the messages of other agents are not."""
    return (
        isinstance(item, Message) and item.role == "user" and not message_text(item).lstrip().startswith(CONTEXT_MARKS)
    )


def begins_turn(item: ResponseItem) -> bool:
    """Return whether a turn can begin with the item: a message of the user or of another agent (Codex's user boundaries)."""
    if isinstance(item, UnknownItem):
        return item.kind == "agent_message"
    if not isinstance(item, Message) or item.role == "developer":
        return False
    if item.role == "user":
        text = message_text(item).lstrip()
        return text.startswith(LETTER_MARK) or not text.startswith(CONTEXT_MARKS)
    return item.phase == "commentary" and message_text(item).startswith('{"author":')


ABORTED_OUTPUT = "aborted"
"""The output of a call that never ran (Codex's term)."""


def output_for(item: AnyCall, text: str) -> OutputItem | UnknownItem:
    """Return an output item of the kind that belongs to this kind of call.

    The output of a tool search has no text and no tools.
    """
    if isinstance(item, UnknownItem):
        output = search_output(item)
        assert output is not None
        return output
    if isinstance(item, CustomToolCall):
        return CustomToolCallOutput(call_id=item.call_id, output=text)
    return FunctionCallOutput(call_id=item.call_id or "", output=text)


def search_output(item: ResponseItem, tools: Sequence[Mapping[str, Any]] = ()) -> UnknownItem | None:
    """Return the output for a tool search that the client is to make. None for any other item.

    Args:
        tools: The found tools, as on the wire.
    """
    if not isinstance(item, UnknownItem) or item.kind != "tool_search_call":
        return None
    call_id = item.raw.get("call_id")
    if item.raw.get("execution") != "client" or not isinstance(call_id, str):
        return None
    fields = {"call_id": call_id, "status": "completed", "execution": "client", "tools": list(tools)}
    return UnknownItem({"type": "tool_search_output", **fields})


_PAIRED_TYPES = frozenset(
    {
        *("function_call", "custom_tool_call", "local_shell_call", "tool_search_call"),
        *("function_call_output", "custom_tool_call_output", "tool_search_output"),
    }
)


def is_paired_unknown(item: ResponseItem) -> bool:
    """Return whether an item is a call or an output without a class: a tool search, or an item that could not be read."""
    return isinstance(item, UnknownItem) and item.kind in _PAIRED_TYPES


def with_paired_outputs(items: Iterable[ResponseItem]) -> list[ResponseItem]:
    """Return the items with exactly one output per call.

    An output belongs to the latest preceding call with its id that has no output yet. A call without an output gets the output
    :data:`ABORTED_OUTPUT`; a thread that was killed during a call ends with such a call. Outputs without a call, and unreadable
    calls and outputs, are dropped, because no server accepts a call without its output.
    """
    result: list[ResponseItem] = []
    waiting: dict[str, list[int]] = {}
    for item in items:
        if isinstance(item, (FunctionCall, CustomToolCall, LocalShellCall)):
            waiting.setdefault(item.call_id or "", []).append(len(result))
        elif isinstance(item, (FunctionCallOutput, CustomToolCallOutput)):
            calls = waiting.get(item.call_id)
            if not calls:
                continue
            calls.pop()
        elif is_paired_unknown(item) and not _pairs_search(item, waiting, len(result)):
            continue
        result.append(item)
    for index in sorted((index for calls in waiting.values() for index in calls), reverse=True):
        result.insert(index + 1, _missing_output(result[index]))
    return result


def _pairs_search(item: ResponseItem, waiting: dict[str, list[int]], place: int) -> bool:
    """Return whether the item is a tool search of the server, or a call or output of one of ours, which is then paired."""
    assert isinstance(item, UnknownItem)
    if item.kind not in ("tool_search_call", "tool_search_output"):
        return False
    if item.raw.get("execution") == "server":
        return True
    key = f"search {item.raw.get('call_id')}"
    if search_output(item) is not None:
        waiting.setdefault(key, []).append(place)
        return True
    calls = waiting.get(key) if item.kind == "tool_search_output" else None
    if not calls:
        return False
    calls.pop()
    return True


def _missing_output(item: ResponseItem) -> ResponseItem:
    assert isinstance(item, (FunctionCall, CustomToolCall, LocalShellCall, UnknownItem))
    return output_for(item, ABORTED_OUTPUT)
