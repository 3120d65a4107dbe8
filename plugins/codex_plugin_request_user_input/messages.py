"""Messages and questions for the user in the middle of a turn, which continues without an answer.

Names, arguments and outputs are Codex's. The user sees a message of the model; an answer is an ordinary message of the user.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from codex_framework import (
    Argument,
    FunctionSpec,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolOutput,
    TurnFacts,
    arguments_schema,
    parse_arguments,
)
from codex_framework.contract.protocol.events import ItemCompletedEvent, ItemStartedEvent
from codex_framework.contract.protocol.turn_items import older_events

__all__ = ["RequestUserInputAsync", "SendMessageToUserAsync"]

_MESSAGE = {"message": Argument("string", "The message or question, short and complete.", required=True)}
_QUESTIONS = {
    "questions": Argument(
        "objects",
        "The questions, in the order in which they are shown together.",
        required=True,
        fields={
            "title": Argument("string", "The whole question, with what one must know to answer it.", required=True),
            "options": Argument(
                "strings",
                "Possible answers, the recommended one first. The user can always write another one; do not add a choice for that."
                " Without options, the user only writes.",
                schema={"minItems": 1},
            ),
        },
        schema={"minItems": 1},
    )
}


class SendMessageToUserAsync(Tool):
    """Shows a message to the user while the turn continues."""

    parallel_safe = True
    reads = frozenset({"config", "depth", "model"})
    tells_clients = True
    spec = FunctionSpec(
        "send_message_to_user_async",
        "Shows the user a message that needs attention at once, and returns immediately. The turn goes on; an answer arrives as a new"
        " message of the user. Use it for what blocks the task, for a finding that may change what you do, or to answer a question of"
        " the user while you still work. Do not use it for routine progress.",
        arguments_schema(_MESSAGE),
        model_only=True,
    )

    def offered(self, turn: TurnFacts) -> bool:
        """Return whether the model works for the user and knows the tool, or ``features.send_message_to_user_async`` is on."""
        features = turn.config.get("features")
        is_on = isinstance(features, Mapping) and features.get("send_message_to_user_async") is True
        return not turn.depth and (is_on or "send_message_to_user_async" in turn.model.extra_tools)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Run one call."""
        message = parse_arguments(call.arguments, _MESSAGE)["message"].strip()
        if not message:
            raise ToolError("message must not be empty")
        return _send_message(context, message)


class RequestUserInputAsync(Tool):
    """Shows questions to the user while the turn continues."""

    parallel_safe = True
    reads = frozenset({"config", "depth", "model"})
    tells_clients = True
    spec = FunctionSpec(
        "request_user_input_async",
        "Asks the user one or more questions, and returns immediately. The turn goes on; an answer arrives as a new message of the"
        " user. Use it for decisions, preferences or facts that only the user knows, and for approval. Do not ask what you can find"
        " out yourself.",
        arguments_schema(_QUESTIONS),
        model_only=True,
    )

    def offered(self, turn: TurnFacts) -> bool:
        """Return whether the model works for the user and knows the tool, unless ``experimental_request_user_input`` is off."""
        tools = turn.config.get("tools")
        setting = tools.get("experimental_request_user_input") if isinstance(tools, Mapping) else None
        if turn.depth or (isinstance(setting, Mapping) and setting.get("enabled") is False):
            return False
        return not {"request_user_input_async", "send_user_message_async"}.isdisjoint(turn.model.extra_tools)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Run one call."""
        questions = parse_arguments(call.arguments, _QUESTIONS)["questions"]
        if not questions:
            raise ToolError("questions must not be empty")
        if not all(question["title"].strip() for question in questions):
            raise ToolError("question titles must not be empty")
        shown = [{"title": question["title"], "options": question.get("options")} for question in questions]
        given = [question["options"] for question in shown if question["options"] is not None]
        if not all(options and all(option.strip() for option in options) for options in given):
            raise ToolError("options must contain at least one non-empty answer")
        return _send_message(context, "\n\n".join(map(_text, shown)), questions=shown)


def _text(question: Mapping[str, Any]) -> str:
    return "\n".join([question["title"], *(f"- {option}" for option in question["options"] or ())])


def _send_message(context: ToolContext, text: str, **more: Sequence[Mapping[str, Any]]) -> ToolOutput:
    """Show a message to clients, as one of the model, and return the output of the call."""
    content = [{"type": "Text", "text": text}]
    item = {"type": "AgentMessage", "id": context.call_id, "content": content, "phase": "final_answer"}
    item |= {"delivery": "async", **more}
    now, facts = int(time.time() * 1000), context.turn.facts
    context.emit(ItemStartedEvent(facts.thread_id, facts.turn_id, item, now))
    context.emit(ItemCompletedEvent(facts.thread_id, facts.turn_id, item, now))
    for event in older_events(item) or ():
        context.emit(event)
    return ToolOutput('{"accepted":true}', truncate=False)
