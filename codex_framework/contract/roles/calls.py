"""Tool calls and their outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from codex_framework.contract.protocol.items import ContentItem
from codex_framework.contract.value import Value

__all__ = ["CallView", "OutputView", "ToolCall", "ToolCaller", "ToolOutput"]


class ToolCall(Value):
    """One call by the model.

    Attributes:
        call_id: The model's id of the call; unique within the thread.
        name: The name that the model used, which may be an alias.
        arguments: JSON text of a function call, the plain text of a freeform call, or the JSON of a native call's action.
        kind: ``function``, ``custom``, ``local_shell``, or ``tool_search`` for a tool search of the wire. The output of such a
            search is the JSON of an object. Its ``tools`` are the found tools in wire form.
        item_id: The provider's id of the call item. None if the provider gave no id, or if a plugin makes the call.
    """

    call_id: str
    name: str
    arguments: str
    kind: str = "function"
    item_id: str | None = None


class CallView(Value, kw_only=True):
    """A call in the vocabulary of hooks, guards and user interfaces: ``Bash`` with ``{"command": ...}``.

    Attributes:
        name: The tool's name in that vocabulary.
        aliases: Other names of the tool there.
        arguments: The arguments as plain JSON data.
        server: The server of the tool. None if a plugin offers it.
        read_only: Whether the tool says that it changes nothing. None if it says nothing about it.
    """

    name: str
    arguments: Mapping[str, Any]
    aliases: Sequence[str] = ()
    server: str | None = None
    read_only: bool | None = None


class OutputView(Value, kw_only=True):
    """The output of a call in the vocabulary of hooks and guards.

    Attributes:
        response: The tool's result as plain JSON data, without the text added for the model. For a command, its output.
        call: The call that has ended, if it is another one: a command that an earlier call started. Its view.
        call_id: The id of that call. By default, the call of the output.
        finished: Whether the work of the call has ended. False for a command that is still running.
    """

    response: Any
    call: CallView | None = None
    call_id: str | None = None
    finished: bool = True


class ToolOutput(Value):
    """The output of a call.

    Attributes:
        content: Text, or content parts (text and images), for the model.
        success: Whether the call succeeded. Observers see this, the model does not.
        truncate: Whether the kernel may shorten the text to the model's limit. False if the tool has done so itself.
        details: Structured data for clients (plain JSON data), if any.
        view: The output for hooks and guards, which see calls that fail only if they have one. By default, the content.
        result: Plain JSON data that a calling program gets instead of the content. By default, the content, or an
            error with its text if the call failed. If an interceptor replaces the content only, the kernel drops the result.
    """

    content: str | tuple[ContentItem, ...]
    success: bool = True
    truncate: bool = True
    details: Mapping[str, Any] | None = None
    view: OutputView | None = None
    result: Any = None


class ToolCaller(Protocol):
    """The context of work that may call tools: a task or a tool."""

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | str, *, call_id: str | None = None
    ) -> ToolOutput:
        """Call a tool of the turn, with its approvals.

        Interceptors see the call. If the call ends the turn, the caller ends too.

        The call is queued like calls of the model. Calls of parallel-safe tools overlap unless an interceptor wants one
        ``alone``. Any other call runs alone, except that its calling call is still running.

        Args:
            arguments: The arguments of a function by name. For a freeform tool its text, or a mapping with this text only.
            call_id: The id of the call in events and requests, unique within the thread. By default, the kernel chooses one.

        Raises:
            ToolError: There is no such tool, or it failed.
        """
        ...
