"""Tool calls as hooks see them."""

from __future__ import annotations

from typing import Any, NamedTuple

from codex_framework import CallView, InputText, OutputText, ToolCall, ToolOutput, TurnContext
from codex_framework.toolkit.strict_json import strict_json

__all__ = ["Finished", "MadeCalls", "call_view", "finished"]

_MOST = 1_000
"""The number of calls that are remembered; failed calls are forgotten last."""


class MadeCalls:
    """The actual calls of a thread. They can differ from the model's calls, because interceptors change arguments."""

    def __init__(self) -> None:
        self._calls: dict[str, ToolCall] = {}

    def add(self, call: ToolCall) -> None:
        """Remember a call that nothing changes any more."""
        self._calls[call.call_id] = call
        if len(self._calls) > _MOST:
            del self._calls[next(iter(self._calls))]

    def get(self, call_id: str) -> ToolCall | None:
        """Return a call that is running."""
        return self._calls.get(call_id)

    def forget(self, call_id: str) -> None:
        """Forget a call that has ended."""
        self._calls.pop(call_id, None)


class Finished(NamedTuple):
    """A call that has ended.

    Attributes:
        response: Its result, as plain JSON data.
    """

    view: CallView
    call_id: str
    response: Any


def call_view(call: ToolCall, turn: TurnContext) -> CallView:
    """Return the name and arguments of a call. A tool without a view has its own name, and the arguments of the model."""
    view = turn.view(call)
    if view is not None:
        return view
    if call.kind == "custom":
        return CallView(name=call.name, arguments={"input": call.arguments})
    try:
        arguments = strict_json(call.arguments or "{}")
    except (ValueError, RecursionError):
        arguments = None
    return CallView(name=call.name, arguments=arguments if isinstance(arguments, dict) else {"input": call.arguments})


def finished(call: ToolCall, output: ToolOutput, turn: TurnContext) -> Finished | None:
    """Return the call that ended with an output, or None if it continues or has failed without a result."""
    view = output.view
    if view is None:
        return Finished(call_view(call, turn), call.call_id, _text(output)) if output.success else None
    if not view.finished:
        return None
    return Finished(view.call or call_view(call, turn), view.call_id or call.call_id, view.response)


def _text(output: ToolOutput) -> str:
    if isinstance(output.content, str):
        return output.content
    return "\n".join(part.text for part in output.content if isinstance(part, (InputText, OutputText)))
