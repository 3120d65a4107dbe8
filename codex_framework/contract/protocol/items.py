"""The items of a conversation with a model, as on the Responses wire.

Every class is one variant of the wire's ``ResponseItem`` (tag ``type``). Unknown fields are kept in ``extra`` and written back, and
an
unknown variant becomes an :class:`UnknownItem`. So data from a newer server survives the history, the disk and the next request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, TypeAlias

from codex_framework.contract.value import Value

__all__ = [
    "CONTEXT_MARKS",
    "SUMMARY_MARK",
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
    "is_call",
    "is_output",
    "message_text",
    "user_message",
    "with_paired_outputs",
]

CONTEXT_MARKS = (
    "# AGENTS.md instructions for ",
    "<environment_context>",
    "<user_instructions>",
    "<user_shell_command>",
    "<turn_aborted>",
    "<subagent_notification>",
    "<skill>",
    "<codex_internal_context",
    "<goal_context>",
    "<external_",
)
"""The beginnings of user messages that the user did not write (spec: contextual user fragments)."""

SUMMARY_MARK = "Another language model started to solve this problem and produced a summary of its thinking process."
"""What the text of a user message begins with that a model wrote when the conversation was shortened (Codex's words).

Unlike context, a summary stays when the context changes. It is nobody's word but the model's: nothing in it is a person's permission.
"""

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


class Message(Value):
    """One message. ``role`` is ``user``, ``assistant`` or ``developer``; ``phase`` is ``commentary`` or ``final_answer``."""

    type: ClassVar[Literal["message"]] = "message"
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


class FunctionCall(Value):
    """A call of a function tool. ``arguments`` is the JSON text as the model wrote it, valid or not."""

    type: ClassVar[Literal["function_call"]] = "function_call"
    name: str
    arguments: str
    call_id: str
    namespace: str | None = None
    id: str | None = None
    extra: Extra = _NO_EXTRA


class FunctionCallOutput(Value):
    """The output of a function call: a text, or a list of content parts."""

    type: ClassVar[Literal["function_call_output"]] = "function_call_output"
    call_id: str
    output: str | tuple[ContentItem, ...]
    id: str | None = None
    extra: Extra = _NO_EXTRA


class CustomToolCall(Value):
    """A call of a freeform (grammar) tool. ``input`` is plain text."""

    type: ClassVar[Literal["custom_tool_call"]] = "custom_tool_call"
    name: str
    input: str
    call_id: str
    id: str | None = None
    status: str | None = None
    extra: Extra = _NO_EXTRA


class CustomToolCallOutput(Value):
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


CallItem: TypeAlias = FunctionCall | CustomToolCall | LocalShellCall
OutputItem: TypeAlias = FunctionCallOutput | CustomToolCallOutput
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


ABORTED_OUTPUT = "aborted"
"""The output of a call that never ran (Codex's term)."""


def output_for(item: CallItem, text: str) -> OutputItem:
    """Return an output item of the kind that belongs to this kind of call."""
    if isinstance(item, CustomToolCall):
        return CustomToolCallOutput(call_id=item.call_id, output=text)
    return FunctionCallOutput(call_id=item.call_id or "", output=text)


def with_paired_outputs(items: Iterable[ResponseItem]) -> list[ResponseItem]:
    """Return the items with exactly one output per call.

    An output belongs to the latest call of its id that comes before it and has none yet. A call without an output gets the output
    :data:`ABORTED_OUTPUT`; a thread that was killed during a call ends with such a call. An output without a call is dropped.
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
        result.append(item)
    for index in sorted((index for calls in waiting.values() for index in calls), reverse=True):
        call = result[index]
        assert isinstance(call, (FunctionCall, CustomToolCall, LocalShellCall))
        result.insert(index + 1, output_for(call, ABORTED_OUTPUT))
    return result
