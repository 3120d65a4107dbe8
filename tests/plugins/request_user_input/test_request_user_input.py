"""Questions of the model: who is asked in which mode, and what becomes of right, wrong, late and missing answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from codex_framework import Agent
from codex_framework.contract.protocol.events import ErrorEvent, TurnCompleteEvent
from codex_framework.contract.protocol.ops import Interrupt
from codex_framework.contract.protocol.policies import CollaborationMode
from codex_framework.contract.roles.models import ModelInfo
from codex_framework.testing import call, say, turn_facts
from codex_plugin_request_user_input import Answer, RequestUserInputEvent, UserInputAnswer, UserInputResponse
from codex_plugin_request_user_input.tool import RequestUserInput

QUESTION = {
    "id": "db",
    "header": "Storage",
    "question": "Which database?",
    "options": [
        {"label": "SQLite (Recommended)", "description": "One file."},
        {"label": "Postgres", "description": "A server."},
    ],
}
PLAN = CollaborationMode("plan")


def answers(**given: str) -> UserInputResponse:
    return UserInputResponse({name: Answer((text,)) for name, text in given.items()})


def ask(*questions: Any) -> Any:
    return call("request_user_input", questions=list(questions) or [QUESTION])


def played(make_kernel: Any, replies: Any, on_event: Callable[[Any, Any], Any], *config: str, **settings: Any) -> Any:
    """Run a turn with a client, and return the outputs of calls and the errors."""

    async def main() -> Any:
        async with make_kernel(replies, config=list(config)) as kernel, asyncio.timeout(30):
            thread = await kernel.start_thread(**{"collaboration_mode": PLAN, **settings})
            listener = thread.events()
            thread.start("Go!")
            errors = []
            async for event in listener:
                found = on_event(thread, event.msg)
                if found is not None:
                    await found
                if isinstance(event.msg, ErrorEvent):
                    errors.append(event.msg.message)
                if event.msg.type in ("task_complete", "turn_aborted"):
                    break
            outputs = [item.output for item in thread.history.items if item.type == "function_call_output"]
            return outputs, errors, [spec.name for spec in kernel.model.requests[0].tools]

    return asyncio.run(main())


def answering(*ops: Callable[[RequestUserInputEvent], Any]) -> Callable[[Any, Any], Any]:
    async def submit(thread: Any, msg: RequestUserInputEvent) -> None:
        for op in ops:
            await thread.submit(op(msg))

    return lambda thread, msg: submit(thread, msg) if isinstance(msg, RequestUserInputEvent) else None


def right(msg: RequestUserInputEvent) -> UserInputAnswer:
    return UserInputAnswer(msg.turn_id, answers(db="Postgres"))


def test_the_answer_of_the_user_is_the_output_of_the_call(make_kernel: Any) -> None:
    seen: list[RequestUserInputEvent] = []

    def keep(msg: RequestUserInputEvent) -> UserInputAnswer:
        seen.append(msg)
        return right(msg)

    outputs, errors, offered = played(make_kernel, [ask(), say("done")], answering(keep))
    assert [json.loads(output) for output in outputs] == [{"answers": {"db": {"answers": ["Postgres"]}}}]
    assert errors == []
    assert "request_user_input" in offered
    (event,) = seen
    (question,) = event.questions
    assert (question.id, question.isOther, question.isSecret) == ("db", True, False)
    assert question.options is not None
    assert question.options[1].label == "Postgres"


@pytest.mark.parametrize(
    ("wrong", "fact"),
    [
        (
            lambda msg: UserInputAnswer(msg.turn_id, answers(nope="x")),
            "there is no question 'nope'; the questions are: db",
        ),
        (lambda msg: UserInputAnswer("other", answers(db="x")), "no question is open for 'other'"),
        (lambda msg: UserInputAnswer(msg.turn_id, answers(db="x" * 100_001)), "is too long"),
        (lambda msg: UserInputAnswer(msg.turn_id, UserInputResponse({"db": Answer(("x",) * 21)})), "is too long"),
        (lambda msg: UserInputAnswer(msg.turn_id, "Postgres"), "response"),
        (lambda msg: UserInputAnswer(5, answers(db="x")), "id"),
    ],
)
def test_a_wrong_answer_is_an_error_and_the_question_stays_open(make_kernel: Any, wrong: Any, fact: str) -> None:
    outputs, errors, _ = played(make_kernel, [ask(), say("done")], answering(wrong, right))
    assert [json.loads(output) for output in outputs] == [{"answers": {"db": {"answers": ["Postgres"]}}}]
    (error,) = errors
    assert fact in error


def test_a_second_and_a_late_answer_are_errors_and_the_session_goes_on(make_kernel: Any) -> None:
    async def main() -> Any:
        async with make_kernel([ask(), say("done"), say("again")]) as kernel, asyncio.timeout(30):
            thread = await kernel.start_thread(collaboration_mode=PLAN)
            listener = thread.events()
            turn_id = thread.start("Go!")
            errors = []
            async for event in listener:
                if isinstance(event.msg, RequestUserInputEvent):
                    await thread.submit(right(event.msg))
                    await thread.submit(right(event.msg))
                if isinstance(event.msg, ErrorEvent):
                    errors.append(event.msg.message)
                    if len(errors) == 2:
                        break
                if isinstance(event.msg, TurnCompleteEvent):
                    await thread.submit(UserInputAnswer(turn_id, answers(db="late")))
            return errors, (await thread.run("Go on.")).final_message

    errors, message = asyncio.run(main())
    assert all("no question is open" in error for error in errors)
    assert message == "again"


def test_where_nobody_listens_there_are_no_answers(make_kernel: Any) -> None:
    async def main() -> Any:
        async with make_kernel([ask(), say("done")]) as kernel, asyncio.timeout(30):
            thread = await kernel.start_thread(collaboration_mode=PLAN)
            result = await thread.run("Go!")
            outputs = [item.output for item in thread.history.items if item.type == "function_call_output"]
            return outputs, result.final_message

    assert asyncio.run(main()) == (['{"answers":{}}'], "done")


def test_an_interrupt_ends_the_question(make_kernel: Any) -> None:
    outputs, _, _ = played(make_kernel, [ask()], answering(lambda _: Interrupt()))
    assert "aborted" in outputs[0]


@pytest.mark.parametrize(
    ("questions", "fact"),
    [
        ([], "takes 1 to 3 questions, not 0"),
        ([{**QUESTION, "id": str(number)} for number in range(4)], "takes 1 to 3 questions, not 4"),
        ([{**QUESTION, "options": []}], "requires non-empty options for every question"),
        ([QUESTION, QUESTION], "requires an id of its own"),
        ([{**QUESTION, "id": " "}], "requires an id of its own"),
        ([{"id": "x"}], "missing field"),
        ("x", "invalid type"),
    ],
)
def test_wrong_questions_are_told_and_nobody_is_asked(make_kernel: Any, questions: Any, fact: str) -> None:
    asked: list[Any] = []
    replies = [call("request_user_input", {"questions": questions}), say("done")]
    outputs, errors, _ = played(make_kernel, replies, answering(lambda msg: asked.append(msg) or right(msg)))
    assert fact in outputs[0]
    assert (asked, errors) == ([], [])


def test_in_default_mode_the_user_is_asked_only_if_the_feature_is_on(make_kernel: Any) -> None:
    feature = "features.default_mode_request_user_input=true"
    for mode in (None, CollaborationMode("default")):
        outputs, _, offered = played(make_kernel, [ask(), say("x")], answering(right), collaboration_mode=mode)
        assert "request_user_input" in offered
        assert outputs == ["request_user_input is unavailable in Default mode"]
        outputs, _, offered = played(make_kernel, [ask(), say("x")], answering(right), feature, collaboration_mode=mode)
        assert "request_user_input" in offered
        assert "Postgres" in outputs[0]


def test_its_description_says_where_it_can_be_used_in_the_words_of_both_modes() -> None:
    for mode in (None, PLAN):
        facts = turn_facts(model=ModelInfo(slug="m"), collaboration_mode=mode)
        assert RequestUserInput().spec_for(facts).description.endswith("Only available in Plan mode.")
        facts = facts.evolve(config={"features": {"default_mode_request_user_input": True}})
        assert "Plan mode" not in RequestUserInput().spec_for(facts).description


def test_it_can_be_switched_off(make_kernel: Any) -> None:
    setting = "tools.experimental_request_user_input={enabled=false}"
    outputs, _, offered = played(make_kernel, [ask(), say("x")], answering(right), setting)
    assert "request_user_input" not in offered
    assert "Postgres" not in outputs[0]


def test_only_the_agent_that_works_for_the_user_may_ask(make_kernel: Any) -> None:
    async def main() -> Any:
        async with make_kernel([say("hi"), ask(), say("done")]) as kernel, asyncio.timeout(30):
            thread = await kernel.start_thread(collaboration_mode=PLAN)
            await thread.run("Go!")
            child = await thread.conversation.context("x").spawn(Agent(name="x"))
            await child.run("Ask.")
            child_thread = kernel.threads[child.id]
            return [item.output for item in child_thread.history.items if item.type == "function_call_output"]

    (output,) = asyncio.run(main())
    assert "answers" not in output
