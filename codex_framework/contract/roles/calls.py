"""Tool calls and their outputs."""

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
        name: The name that the model used, which may be an alias.
        arguments: JSON text of a function call, the plain text of a freeform call, or the JSON of a native call's action.
        kind: ``function``, ``custom`` or ``local_shell``.
    """

    call_id: str
    name: str
    arguments: str
    kind: str = "function"


class ToolOutput(Value):
    """The output of a call.

    Attributes:
        content: Text, or content parts (text and images), for the model.
        success: Whether the call succeeded. Observers see this, the model does not.
        truncate: Whether the kernel may shorten the text to the model's limit. False if the tool has done so itself.
        details: Structured data for clients (plain JSON data). None means there are none.
    """

    content: str | tuple[ContentItem, ...]
    success: bool = True
    truncate: bool = True
    details: Mapping[str, Any] | None = None


class CallView(Value, kw_only=True):
    """A call in the vocabulary of hooks, guards and user interfaces: ``Bash`` with ``{"command": ...}``.

    Attributes:
        name: The tool's name in that vocabulary.
        aliases: Other names of the tool there.
        arguments: The arguments as plain JSON data.
        server: The server of the tool. None means that a plugin offers it.
    """

    name: str
    arguments: Mapping[str, Any]
    aliases: Sequence[str] = ()
    server: str | None = None
