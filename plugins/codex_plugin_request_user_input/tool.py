"""The tool itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from codex_framework import (
    Argument,
    FunctionSpec,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolOutput,
    ToolSpec,
    TurnFacts,
    arguments_schema,
    parse_arguments,
)

if TYPE_CHECKING:
    from codex_plugin_request_user_input.questions import Question

__all__ = ["RequestUserInput"]

_MOST = 3

_PURPOSE = (
    "Asks the user one to three short questions and waits for the answers. Use it for decisions that only the user can make and"
    " that change what you do. Do not ask what you can find out yourself."
)

_ARGUMENTS = {
    "questions": Argument(
        "objects",
        "One to three questions. Prefer one.",
        required=True,
        fields={
            "id": Argument("string", "The name under which you get the answer, in snake_case.", required=True),
            "header": Argument("string", "A heading of at most 12 characters.", required=True),
            "question": Argument("string", "The question, in a sentence.", required=True),
            "options": Argument(
                "objects",
                "Two or three choices that exclude each other, the recommended one first, with '(Recommended)' at the end of its"
                " label. The user can always give another answer; do not add a choice for that.",
                required=True,
                fields={
                    "label": Argument("string", "One to five words.", required=True),
                    "description": Argument("string", "What the choice leads to, in a short sentence.", required=True),
                },
            ),
        },
    )
}


class RequestUserInput(Tool):
    """Asks the user, in Plan mode; in Default mode if ``features.default_mode_request_user_input`` is on.

    It is offered in both modes, so that a change of the mode does not change the tools, and refuses in Default mode.
    """

    tells_clients = True
    spec = FunctionSpec(
        "request_user_input",
        _PURPOSE,
        arguments_schema(_ARGUMENTS),
        model_only=True,
    )

    def offered(self, turn: TurnFacts) -> bool:
        """Return whether the thread is one with the user, and the configuration permits it."""
        return _prohibition(turn) is None

    def spec_for(self, turn: TurnFacts) -> ToolSpec:
        """Return the spec, which says in which mode the user may be asked."""
        return self.spec if _asks_in_default_mode(turn) else _ONLY_PLAN

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Run one call. The output is ``{"answers": {ID: {"answers": [...]}}}``; a question without an answer is left out."""
        from codex_plugin_request_user_input.ops import Open, problem_of
        from codex_plugin_request_user_input.questions import RequestUserInputEvent

        arguments = parse_arguments(call.arguments, _ARGUMENTS)
        facts = context.turn.facts
        refusal = _prohibition(facts)
        if refusal is None and facts.mode != "plan" and not _asks_in_default_mode(facts):
            refusal = "request_user_input is unavailable in Default mode"
        if refusal is not None:
            raise ToolError(refusal)
        questions = _questions(arguments["questions"])
        request = RequestUserInputEvent(call_id=context.call_id, turn_id=context.turn_id, questions=questions)
        waiting = context.turn.thread.state(Open, Open).requests
        waiting[request.request_id] = request
        try:
            response = await context.request(request)
        finally:
            waiting.pop(request.request_id, None)
        problem = problem_of(response, request)
        if problem is not None:
            raise ToolError(f"the answer of the user cannot be used: {problem}")
        answers = {name: {"answers": list(answer.answers)} for name, answer in response.answers.items()}
        return ToolOutput(json.dumps({"answers": answers}, ensure_ascii=False, separators=(",", ":")))


_ONLY_PLAN = RequestUserInput.spec.evolve(description=f"{_PURPOSE} Only available in Plan mode.")


def _prohibition(facts: TurnFacts) -> str | None:
    """Return why the user cannot be asked in any mode, or None if they can."""
    tools = facts.config.get("tools")
    setting = tools.get("experimental_request_user_input") if isinstance(tools, Mapping) else None
    if isinstance(setting, Mapping) and setting.get("enabled") is False:
        return "request_user_input is switched off in the configuration"
    if facts.depth:
        return "request_user_input is only available to the agent that works for the user; decide yourself"
    return None


def _asks_in_default_mode(facts: TurnFacts) -> bool:
    features = facts.config.get("features")
    return isinstance(features, Mapping) and features.get("default_mode_request_user_input") is True


def _questions(given: Any) -> tuple[Question, ...]:
    """Return the checked questions.

    Raises:
        ToolError: Questions are missing or too many, an id is used twice, or a question has no options.
    """
    from codex_plugin_request_user_input.questions import Option, Question

    if not 1 <= len(given) <= _MOST:
        raise ToolError(f"request_user_input takes 1 to {_MOST} questions, not {len(given)}")
    if any(not question["options"] for question in given):
        raise ToolError("request_user_input requires non-empty options for every question")
    ids = [question["id"] for question in given]
    if len(set(ids)) != len(ids) or not all(text.strip() for text in ids):
        raise ToolError("every question of request_user_input requires an id of its own")
    return tuple(
        Question(
            id=question["id"],
            header=question["header"],
            question=question["question"],
            options=tuple(Option(option["label"], option["description"]) for option in question["options"]),
        )
        for question in given
    )
