"""A call of a tool, and what it gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from codex_framework.contract.protocol.items import ContentItem
from codex_framework.contract.value import Value

__all__ = ["CallView", "ToolCall", "ToolOutput"]


class ToolCall(Value):
    """One call by the model.

    Attributes:
        call_id: The model's id of the call; unique within the thread.
        name: The name as called (perhaps an alias).
        arguments: JSON text of a function call, the plain text of a freeform call, or the JSON of a native call's action.
        kind: ``function``, ``custom`` or ``local_shell``.
    """

    call_id: str
    name: str
    arguments: str
    kind: str = "function"


class ToolOutput(Value):
    """What a call gave.

    Attributes:
        content: Text, or content parts (text and images), for the model.
        success: Whether the call did what it was for. Observers are told, the model is not.
        truncate: Whether the kernel may shorten the text to the model's limit. False if the tool has done so itself.
        details: Structured facts for clients (plain JSON data). None means there are none.
    """

    content: str | tuple[ContentItem, ...]
    success: bool = True
    truncate: bool = True
    details: Mapping[str, Any] | None = None


class CallView(Value, kw_only=True):
    """A call in the words of hooks, guards and user interfaces: ``Bash`` with ``{"command": ...}``.

    Attributes:
        name: What the tool is called there.
        aliases: Other names it is known under there.
        arguments: The arguments as plain JSON data.
        server: The server the tool belongs to. None for a tool of a plugin.
    """

    name: str
    arguments: Mapping[str, Any]
    aliases: Sequence[str] = ()
    server: str | None = None
