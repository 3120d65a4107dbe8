"""What ``check_tool`` finds in what a tool says of calls: views, other arguments, approvals, previews."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from codex_framework import Approval, CallView, FunctionSpec, NativeSpec, Tool, ToolError
from codex_framework.contract.protocol.events import WarningEvent
from codex_framework.testing import ContractViolation, check_tool

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def violations(tool: Any) -> tuple[str, ...]:
    with pytest.raises(ContractViolation) as caught:
        check_tool(tool, None if isinstance(tool.spec, NativeSpec) else {"text": "x"})
    return caught.value.violations


class Says(Tool):
    """A tool that says of each call what a test wants."""

    spec = FunctionSpec("says", "Says.", TEXT)

    def __init__(self, **methods: Any) -> None:
        for name, method in methods.items():
            setattr(self, name, method)

    async def run(self, call: Any, context: Any) -> str:
        if call.arguments != '{"text": "x"}':
            raise ToolError("no")
        return "x"


CALL = """the call with '{"text": "x"}'"""


def _shown(call: Any) -> Any:
    return CallView(name="Says", arguments={"text": call.arguments})


def _changed(call: Any, arguments: Any) -> Any:
    if not isinstance(arguments.get("text"), str):
        raise ToolError("no text")
    return call.evolve(arguments=arguments["text"])


def _of_call(found: tuple[str, ...]) -> set[str]:
    """What was found about the call that works."""
    return {one.replace(CALL, "CALL") for one in found if CALL in one}


def test_what_a_tool_says_of_calls_is_tried() -> None:
    def needs_approval(call: Any, turn: Any) -> Any:
        if call.arguments != '{"text": "x"}':
            raise ToolError("that is no call")
        return Approval(question="?", key="says", always=True, details={"a": [1]})

    async def allow_always(call: Any, turn: Any) -> None:
        raise AssertionError("a check must not save anything")

    def preview(call_id: str, text: str) -> Any:
        return WarningEvent(text) if text else None

    methods = {"view": _shown, "with_arguments": _changed, "preview": preview}
    check_tool(Says(**methods, needs_approval=needs_approval, allow_always=allow_always), {"text": "x"})


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("view", "found"),
    [
        (lambda call: 1 / 0, "view() of CALL raises ZeroDivisionError: division by zero"),
        (lambda call: {"name": "x"}, "view() of CALL returns dict, not a CallView or None"),
        (lambda call: CallView(name="", arguments={}), "view() of CALL returns the name '', not a word"),
        (lambda call: CallView(name="x", arguments=[1]), "view() of CALL returns arguments that are not a JSON object"),  # type: ignore[arg-type]
        (
            lambda call: CallView(name="x", arguments={"a": {1}}),
            "view() of CALL returns arguments that are not a JSON object",
        ),
        (lambda call: time.sleep(0.6), "view() of CALL takes 0.6 s; it may take 0.5 s"),
    ],
)
def test_a_view_that_nobody_can_use_is_found(view: Any, found: str) -> None:
    assert found in _of_call(violations(Says(view=view)))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (
            lambda call, arguments: 1 / 0,
            "with_arguments() of CALL raises ZeroDivisionError: division by zero, not ToolError",
        ),
        (lambda call, arguments: arguments["text"], "with_arguments() of CALL returns str, not a ToolCall"),
        (
            lambda call, arguments: _changed(call, arguments).evolve(name="other"),
            "with_arguments() of CALL changes more than the arguments of the call",
        ),
        (
            lambda call, arguments: _changed(call, arguments).evolve(arguments="{}"),
            "with_arguments() of CALL, given the arguments that view() shows, returns a call with other arguments",
        ),
        (
            lambda call, arguments: _changed(call, {}),
            "with_arguments() of CALL refuses the arguments that view() shows: no text",
        ),
        (
            lambda call, arguments: call.evolve(arguments=arguments["text"]),
            "with_arguments() of CALL raises KeyError: 'text', not ToolError",
        ),
    ],
)
def test_a_change_of_arguments_that_goes_wrong_is_found(change: Any, found: str) -> None:
    assert _of_call(violations(Says(view=_shown, with_arguments=change))) == {found}


def test_arguments_that_can_be_changed_but_not_seen_are_found() -> None:
    assert violations(Says(with_arguments=_changed)) == (
        "it has with_arguments() but no view(), which says in what form the arguments are given",
    )


@pytest.mark.parametrize(
    ("approval", "found"),
    [
        (lambda: 1 / 0, "needs_approval() of CALL raises ZeroDivisionError: division by zero, not ToolError"),
        (lambda: True, "needs_approval() of CALL returns bool, not an Approval or None"),
        (
            lambda: Approval(question=" "),
            "needs_approval() of CALL has no question, so the user would not know what it is about",
        ),
        (lambda: Approval(question="?", key=1), "needs_approval() of CALL has the key 1, not a string"),  # type: ignore[arg-type]
        (
            lambda: Approval(question="?", details={"a": object()}),
            "needs_approval() of CALL has details that are not plain JSON data",
        ),
        (
            lambda: Approval(question="?", always=True),
            "needs_approval() of CALL offers to allow it always, and there is no allow_always() that would save the answer",
        ),
    ],
)
def test_an_approval_that_cannot_be_asked_for_is_found(approval: Any, found: str) -> None:
    tool = Says(needs_approval=lambda call, turn: approval())
    assert _of_call(violations(tool)) == {found}


def test_a_refusal_without_a_reason_is_found() -> None:
    def needs_approval(call: Any, turn: Any) -> Any:
        raise ToolError("")

    assert _of_call(violations(Says(needs_approval=needs_approval))) == {
        "needs_approval() of CALL raises a ToolError without text: the model reads nothing"
    }


@pytest.mark.parametrize(
    ("preview", "found"),
    [
        (lambda call_id, text: "shown", "preview() of CALL returns str, not an EventMsg or None"),
        (lambda call_id, text: json.loads(text), "preview() of CALL raises JSONDecodeError"),
    ],
)
def test_a_preview_that_falls_over_what_is_not_whole_is_found(preview: Any, found: str) -> None:
    (said,) = _of_call(violations(Says(preview=preview)))
    assert said.startswith(found)


def test_a_tool_that_cannot_tell_of_refused_calls_is_found() -> None:
    found = violations(Says(refused=lambda call, context, why: 1 / 0))
    assert "it has refused(), which is called only if tells_clients is true" in found
    assert "refused() of a call with no arguments raises ZeroDivisionError: division by zero" in found
    check_tool(
        Says(refused=lambda call, context, why: context.emit(WarningEvent(why)), tells_clients=True), {"text": "x"}
    )


def test_a_tool_that_fails_over_calls_that_the_server_ran_is_found() -> None:
    class Draws(Tool):
        spec = NativeSpec("image_generation", "image_generation")

        async def shown(self, item: Any, turn: Any) -> Any:
            return {**item, "saved_path": object()} if item["result"] else 1 / 0

        async def run(self, call: Any, context: Any) -> str:
            raise ToolError("run by the server")

    found = violations(Draws())
    assert "shown() failed: ZeroDivisionError: division by zero" in str(found)
    assert "shown() returns something that is not plain JSON data" in str(found)


def test_a_method_that_should_be_async_and_a_misspelt_one_are_found() -> None:
    class Careless(Says):
        def allow_always(self, call, turn):  # type: ignore[no-untyped-def]
            self.allowed = call

        def views(self, call):  # type: ignore[no-untyped-def]
            return None

    found = violations(Careless())
    assert any(
        "its allow_always is not async: write `async def allow_always(self, call, turn)` (" in one for one in found
    )
    assert any("its views has no effect: Tool has no member of this name (" in one for one in found)
