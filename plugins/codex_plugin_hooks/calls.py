"""Tool calls as hooks see them."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from codex_framework import CallView, InputText, OutputText, ToolCall, ToolOutput, TurnContext

__all__ = ["Finished", "call_view", "finished"]


class Finished(NamedTuple):
    """A call that has ended.

    Attributes:
        response: What it returned, as plain JSON data.
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
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        arguments = None
    return CallView(name=call.name, arguments=arguments if isinstance(arguments, dict) else {"input": call.arguments})


def finished(call: ToolCall, output: ToolOutput, turn: TurnContext) -> Finished | None:
    """Return the call that has ended with an output. None means that it goes on, or that it has failed without a result."""
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
