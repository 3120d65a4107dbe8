"""Calls of dynamic tools in turns: asked of the client, answered, refused, late, and on a resumed thread."""

from __future__ import annotations

import asyncio
import json

import pytest

from codex_framework import Closed, InputImage, InputText, RequestResolvedEvent, Status
from codex_framework.contract.protocol.events import ErrorEvent, WarningEvent
from codex_framework.contract.protocol.ops import Interrupt
from codex_framework.contract.protocol.wire import read_op, to_wire
from codex_framework.testing import call, say
from codex_plugin_dynamic_tools import (
    DynamicToolAnswer,
    DynamicToolCallRequest,
    DynamicToolCallResponseEvent,
    DynamicToolResponse,
    ImageContent,
    TextContent,
)

SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "number"}},
    "required": ["id"],
    "additionalProperties": False,
}
LOOKUP = {"type": "function", "name": "lookup", "description": "looks up", "inputSchema": SCHEMA}
CRM = {"namespace": "crm", "name": "find", "description": "finds a customer", "inputSchema": SCHEMA}


def answered(*parts, success=True):
    """An answerer for ``Thread.run``."""

    async def answer(request):
        assert isinstance(request, DynamicToolCallRequest)
        return DynamicToolAnswer(parts, success)

    return answer


def outputs(body) -> list:
    return [item["output"] for item in body["input"] if item["type"] == "function_call_output"]


def of_kind(events, kind) -> list:
    return [event for event in events if isinstance(event, kind)]


def offered(body) -> list[str]:
    return [tool["name"] for tool in body["tools"] if tool["type"] == "function"]


async def next_request(events) -> DynamicToolCallRequest:
    async for event in events:
        if isinstance(event.msg, DynamicToolCallRequest):
            return event.msg
    raise AssertionError("the thread ended without a request")


def test_the_model_is_offered_the_tool_and_the_client_runs_it(scene):
    async def story(kernel):
        thread = await kernel.start_thread(extra={"dynamic_tools": [LOOKUP]})
        return await thread.run("Go.", on_request=answered(TextContent("looked up 7")))

    result = scene.play(story, [call("lookup", id=7, call_id="call_1"), say("Done.")])
    assert result.final_message == "Done."
    first, second = scene.asked
    (tool,) = (tool for tool in first["tools"] if tool.get("name") == "lookup")
    assert tool == {
        "type": "function",
        "name": "lookup",
        "description": "looks up",
        "strict": False,
        "parameters": SCHEMA,
    }
    assert outputs(second) == [[{"type": "input_text", "text": "looked up 7"}]]
    (request,) = of_kind(result.events, DynamicToolCallRequest)
    turn_id = result.events[0].turn_id
    wire = to_wire(request)
    assert wire.pop("startedAtMs") > 0
    assert wire == {
        "type": "dynamic_tool_call_request",
        "callId": "call_1",
        "turnId": turn_id,
        "tool": "lookup",
        "arguments": {"id": 7},
    }
    (response,) = of_kind(result.events, DynamicToolCallResponseEvent)
    wire = to_wire(response)
    assert wire.pop("completed_at_ms") >= request.started_at_ms
    assert set(wire.pop("duration")) == {"secs", "nanos"}
    assert wire == {
        "type": "dynamic_tool_call_response",
        "call_id": "call_1",
        "turn_id": turn_id,
        "tool": "lookup",
        "arguments": {"id": 7},
        "content_items": [{"type": "inputText", "text": "looked up 7"}],
        "success": True,
    }
    assert not any(event.type.startswith("tool_call_") for event in result.events)


def test_a_client_answers_with_an_op(scene):
    op = {
        "type": "dynamic_tool_response",
        "id": "call_1",
        "response": {
            "content_items": [
                {"type": "inputText", "text": "see"},
                {"type": "inputImage", "imageUrl": "data:image/png;base64,AAAA"},
            ],
            "success": False,
        },
    }

    async def story(kernel):
        thread = await kernel.start_thread(extra={"dynamic_tools": [LOOKUP]})
        events = thread.events()
        running = asyncio.ensure_future(thread.run("Go."))
        await next_request(events)
        await thread.submit(read_op(op, {"dynamic_tool_response": DynamicToolResponse}))
        return await running

    result = scene.play(story, [call("lookup", id=7, call_id="call_1"), say("Done.")])
    assert outputs(scene.asked[1]) == [
        [
            {"type": "input_text", "text": "see"},
            {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
        ]
    ]
    (response,) = of_kind(result.events, DynamicToolCallResponseEvent)
    assert response.success is False
    assert response.error is None
    assert to_wire(response)["content_items"] == op["response"]["content_items"]


def test_a_program_can_make_the_op_by_its_tag(scene):
    async def story(kernel):
        thread = await kernel.start_thread(extra={"dynamic_tools": [LOOKUP]})
        events = thread.events()
        running = asyncio.ensure_future(thread.run("Go."))
        request = await next_request(events)
        parts = [{"type": "inputText", "text": "found"}]
        response = {"content_items": parts, "success": True}
        await thread.submit(kernel.op("dynamic_tool_response", id=request.call_id, response=response))
        return await running

    scene.play(story, [call("lookup", id=7), say("Done.")])
    assert outputs(scene.asked[1]) == [[{"type": "input_text", "text": "found"}]]


def test_tools_of_a_namespace_are_told_apart_by_it(scene):
    async def story(kernel):
        thread = await kernel.start_thread(extra={"dynamic_tools": [CRM]})
        return await thread.run("Go.", on_request=answered(TextContent("Ann")))

    result = scene.play(story, [call("crm__find", id=1), say("Done.")])
    assert "crm__find" in offered(scene.asked[0])
    (request,) = of_kind(result.events, DynamicToolCallRequest)
    (response,) = of_kind(result.events, DynamicToolCallResponseEvent)
    assert (request.namespace, request.tool) == (response.namespace, response.tool) == ("crm", "find")
    assert outputs(scene.asked[1]) == [[{"type": "input_text", "text": "Ann"}]]


def test_a_call_that_names_the_namespace_apart_finds_the_tool_as_well(scene):
    from codex_framework import FunctionCall
    from codex_framework.testing import reply

    async def story(kernel):
        thread = await kernel.start_thread(extra={"dynamic_tools": [CRM]})
        return await thread.run("Go.", on_request=answered(TextContent("Ann")))

    apart = reply(FunctionCall("find", '{"id": 1}', "call_1", namespace="crm"))
    scene.play(story, [apart, say("Done.")])
    assert outputs(scene.asked[1]) == [[{"type": "input_text", "text": "Ann"}]]


def test_a_deferred_tool_is_not_offered_and_can_be_called(scene):
    async def story(kernel):
        thread = await kernel.start_thread(extra={"dynamic_tools": [{**LOOKUP, "deferLoading": True}]})
        return await thread.run("Go.", on_request=answered(TextContent("found")))

    scene.play(story, [call("lookup", id=7), say("Done.")])
    assert "lookup" not in offered(scene.asked[0])
    assert outputs(scene.asked[1]) == [[{"type": "input_text", "text": "found"}]]


def test_calls_of_one_response_are_asked_one_after_the_other(scene):
    async def story(kernel):
        open_at_once = []
        thread = await kernel.start_thread(extra={"dynamic_tools": [LOOKUP]})

        async def answer(request):
            open_at_once.append(len(thread.open_requests))
            return DynamicToolAnswer((TextContent(str(request.arguments["id"])),))

        await thread.run("Go.", on_request=answer)
        return open_at_once

    replies = [call("lookup", id=1) + call("lookup", id=2) + call("lookup", id=3), say("Done.")]
    assert scene.play(story, replies) == [1, 1, 1]
    assert [part["text"] for output in outputs(scene.asked[1]) for part in output] == ["1", "2", "3"]


def test_an_empty_answer_is_said_to_be_one(scene):
    async def story(kernel):
        thread = await kernel.start_thread(extra={"dynamic_tools": [LOOKUP]})
        return await thread.run("Go.", on_request=answered())

    scene.play(story, [call("lookup", id=7), say("Done.")])
    assert outputs(scene.asked[1]) == ["the tool gave no output"]


def test_a_long_answer_is_shortened_as_any_output(scene):
    async def story(kernel):
        thread = await kernel.start_thread(extra={"dynamic_tools": [LOOKUP]})
        return await thread.run("Go.", on_request=answered(TextContent("x" * 400_000)))

    scene.play(story, [call("lookup", id=7), say("Done.")])
    (((part),),) = outputs(scene.asked[1])
    assert "tokens truncated" in part["text"]
    assert len(part["text"]) < 60_000


# Where there is no answer


def test_without_a_client_the_model_is_told_so(scene):
    async def story(kernel):
        thread = await kernel.start_thread(extra={"dynamic_tools": [LOOKUP]})
        return await thread.run("Go.")

    result = scene.play(story, [call("lookup", id=7), say("Done.")])
    text = "lookup failed: the client that runs this tool is not connected"
    assert outputs(scene.asked[1]) == [text]
    (response,) = of_kind(result.events, DynamicToolCallResponseEvent)
    assert (response.success, response.error, response.content_items) == (False, text, ())
    assert any("the client's tool lookup" in event.message for event in of_kind(result.events, WarningEvent))


def test_a_client_that_answers_too_late_has_not_answered(scene):
    async def story(kernel):
        thread = await kernel.start_thread(extra={"dynamic_tools": [LOOKUP]})
        events = thread.events()
        running = asyncio.ensure_future(thread.run("Go."))
        request = await next_request(events)
        result = await running
        return result, thread.answer(request.request_id, DynamicToolAnswer())

    config = "framework.plugins.dynamic_tools.timeout_s=0.2"
    result, late = scene.play(story, [call("lookup", id=7), say("Done.")], config)
    assert late is False
    assert outputs(scene.asked[1]) == ["lookup failed: the client did not answer within 0.2 seconds"]
    assert [event.how for event in of_kind(result.events, RequestResolvedEvent)] == [Closed.TIMED_OUT]


def test_an_interrupt_ends_the_waiting(scene):
    async def story(kernel):
        thread = await kernel.start_thread(extra={"dynamic_tools": [LOOKUP]})
        events = thread.events()
        running = asyncio.ensure_future(thread.run("Go."))
        request = await next_request(events)
        await thread.submit(Interrupt())
        result = await running
        await thread.submit(DynamicToolResponse(request.call_id, DynamicToolAnswer()), id="late")
        await thread.shutdown()
        return result, [event.msg async for event in events if event.id == "late"]

    result, told = scene.play(story, [call("lookup", id=7, call_id="call_1")])
    assert result.status is Status.INTERRUPTED
    (response,) = of_kind(result.events, DynamicToolCallResponseEvent)
    assert response.error == "the turn ended before the client answered"
    (error,) = told
    assert isinstance(error, ErrorEvent)
    assert error.message.startswith("no call 'call_1' of a dynamic tool is waiting for an answer. ")


def test_the_first_answer_counts(scene):
    async def story(kernel):
        thread = await kernel.start_thread(extra={"dynamic_tools": [LOOKUP]})
        events = thread.events()
        running = asyncio.ensure_future(thread.run("Go."))
        request = await next_request(events)
        for text in ("first", "second"):
            answer = DynamicToolAnswer((TextContent(text),))
            await thread.submit(DynamicToolResponse(request.call_id, answer), id=text)
        await running
        await thread.shutdown()
        return [event.id async for event in events if isinstance(event.msg, ErrorEvent)]

    assert scene.play(story, [call("lookup", id=7), say("Done.")]) == ["second"]
    assert outputs(scene.asked[1]) == [[{"type": "input_text", "text": "first"}]]


# Bad input


@pytest.mark.parametrize("arguments", ["{", '{"id": 1', "\ud800", '{"id": NaN}', '{"id": 1e999}'])
def test_arguments_that_are_no_json_go_back_to_the_model(scene, arguments):
    async def story(kernel):
        thread = await kernel.start_thread(extra={"dynamic_tools": [LOOKUP]})
        return await thread.run("Go.", on_request=answered(TextContent("never")))

    result = scene.play(story, [call("lookup", arguments), say("Done.")])
    assert of_kind(result.events, DynamicToolCallRequest) == []
    (output,) = outputs(scene.asked[1])
    assert output.startswith("failed to parse function arguments: ")


def test_a_call_without_arguments_has_empty_ones(scene):
    async def story(kernel):
        thread = await kernel.start_thread(extra={"dynamic_tools": [LOOKUP]})
        return await thread.run("Go.", on_request=answered(TextContent("fine")))

    result = scene.play(story, [call("lookup", ""), say("Done.")])
    assert [request.arguments for request in of_kind(result.events, DynamicToolCallRequest)] == [{}]


@pytest.mark.parametrize(
    "answer",
    [
        DynamicToolAnswer(({"type": "inputText", "text": "raw"},)),
        DynamicToolAnswer((TextContent(7),)),
        DynamicToolAnswer((TextContent("good"), ImageContent(None))),
        DynamicToolAnswer("text"),
        DynamicToolAnswer(7),
    ],
)
def test_an_answer_that_a_program_got_wrong_is_told_to_the_model_and_ends_nothing(scene, answer):
    async def story(kernel):
        async def answerer(request):
            return answer

        thread = await kernel.start_thread(extra={"dynamic_tools": [LOOKUP]})
        return await thread.run("Go.", on_request=answerer)

    result = scene.play(story, [call("lookup", id=7), say("Done.")])
    assert result.final_message == "Done."
    (output,) = outputs(scene.asked[1])
    assert output.startswith("lookup failed: the client's answer cannot be read")


def test_an_answer_of_another_class_is_refused_and_the_call_goes_on_waiting(scene):
    async def story(kernel):
        thread = await kernel.start_thread(extra={"dynamic_tools": [LOOKUP]})
        events = thread.events()
        running = asyncio.ensure_future(thread.run("Go."))
        request = await next_request(events)
        await thread.submit(DynamicToolResponse(request.call_id, {"success": True}), id="wrong")
        await thread.submit(DynamicToolResponse(request.call_id, DynamicToolAnswer((TextContent("right"),))))
        await running
        await thread.shutdown()
        return [event.msg.message async for event in events if event.id == "wrong"]

    (message,) = scene.play(story, [call("lookup", id=7), say("Done.")])
    assert "is dict, not DynamicToolAnswer" in message
    assert outputs(scene.asked[1]) == [[{"type": "input_text", "text": "right"}]]


@pytest.mark.parametrize(
    ("response", "fact"),
    [
        ({"content_items": [{"type": "inputAudio", "audioUrl": "x"}]}, "unknown variant 'inputAudio'"),
        ({"content_items": [{"type": "inputText"}]}, "required field missing"),
        ({"content_items": "text"}, "content_items"),
        ({"success": "yes"}, "success"),
        ("text", "response"),
    ],
)
def test_an_op_that_cannot_be_read_is_named(response, fact):
    from codex_framework.contract.protocol.wire import WireError

    raw = {"type": "dynamic_tool_response", "id": "call_1", "response": response}
    with pytest.raises(WireError, match=fact):
        read_op(raw, {"dynamic_tool_response": DynamicToolResponse})


# On record


def test_a_resumed_thread_has_the_tools_and_codex_finds_them_in_its_head(scene):
    async def first(kernel):
        thread = await kernel.start_thread(extra={"dynamic_tools": [LOOKUP]})
        await thread.run("Go.")
        return thread.id

    thread_id = scene.play(first, [say("Done.")])
    tools = scene.asked[0]["tools"]
    head = json.loads(scene.rollout.read_text().splitlines()[0])
    assert head["payload"]["dynamic_tools"] == [LOOKUP]

    async def second(kernel):
        thread = await kernel.resume_thread(thread_id)
        return await thread.run("On.", on_request=answered(TextContent("found")))

    scene.play(second, [call("lookup", id=7), say("Done.")])
    assert scene.asked[0]["tools"] == tools
    assert outputs(scene.asked[1]) == [[{"type": "input_text", "text": "found"}]]


def test_threads_of_one_kernel_have_tools_of_their_own(scene):
    async def story(kernel):
        one = await kernel.start_thread(extra={"dynamic_tools": [LOOKUP]})
        two = await kernel.start_thread(extra={"dynamic_tools": [CRM]})
        three = await kernel.start_thread()
        for thread in (one, two, three):
            await thread.run("Go.")

    scene.play(story, [say("1"), say("2"), say("3")])
    found = [{"lookup", "crm__find"} & set(offered(body)) for body in scene.asked]
    assert found == [{"lookup"}, {"crm__find"}, set()]


def test_the_parts_of_an_answer_are_those_of_the_conversation():
    """What goes into history is what every tool gives."""
    assert InputText("a").type == "input_text"
    assert InputImage("a").type == "input_image"
