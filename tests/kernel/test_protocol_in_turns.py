"""What clients submit and receive in an ordinary turn, with the values of the fields."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from codex_framework import NativeSpec, Tool, tool
from codex_framework.contract.protocol.events import (
    AgentMessageContentDeltaEvent,
    AgentMessageEvent,
    AgentReasoningEvent,
    ItemCompletedEvent,
    ItemStartedEvent,
    RawResponseItemEvent,
    TokenCountEvent,
    ToolCallBeginEvent,
    ToolCallEndEvent,
    TurnAbortedEvent,
    TurnCompleteEvent,
    TurnStartedEvent,
    UserMessageEvent,
    WarningEvent,
)
from codex_framework.contract.protocol.items import (
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    Message,
    OutputText,
    Reasoning,
    UnknownItem,
    message_text,
)
from codex_framework.contract.protocol.ops import ImageInput, Interrupt, LocalImageInput, TextInput, UserInputOp
from codex_framework.testing import call, reasoning, reply, say

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg=="
)


@tool
def shout(text: str) -> str:
    """Shout."""
    return text.upper()


def test_an_ordinary_turn_is_told_from_its_begin_to_its_end(make_thread: Any) -> None:
    async def main() -> None:
        replies = [call("shout", text="hi", call_id="c1"), reasoning("Easy.") + say("Done now.", deltas=2)]
        async with make_thread(replies, tools=[shout]) as thread:
            events = list((await thread.run("Shout!")).events)
            first, last = events[0], events[-1]
            turn = first.turn_id

            assert isinstance(first, TurnStartedEvent)
            assert first.model_context_window == thread.model.requests[0].model.usable_window == 258_400
            assert isinstance(last, TurnCompleteEvent)
            assert (last.turn_id, last.last_agent_message, last.error) == (turn, "Done now.", None)

            told = [event for event in events if isinstance(event, (UserMessageEvent, AgentReasoningEvent))]
            assert told == [UserMessageEvent("Shout!"), AgentReasoningEvent("Easy.")]
            assert [event for event in events if isinstance(event, AgentMessageEvent)] == [
                AgentMessageEvent("Done now.")
            ]
            deltas = [event for event in events if isinstance(event, AgentMessageContentDeltaEvent)]
            assert "".join(event.delta for event in deltas) == "Done now."
            assert {(event.thread_id, event.turn_id) for event in deltas} == {(thread.id, turn)}

            (begin,) = (event for event in events if isinstance(event, ToolCallBeginEvent))
            (end,) = (event for event in events if isinstance(event, ToolCallEndEvent))
            assert (begin.call_id, begin.turn_id, begin.tool, begin.arguments) == (
                "c1",
                turn,
                "shout",
                '{"text": "hi"}',
            )
            assert (end.call_id, end.turn_id, end.output, end.success) == ("c1", turn, "HI", True)
            assert end.plugin == begin.plugin

            items = [event.item for event in events if isinstance(event, RawResponseItemEvent)]
            shown = [event for event in events if isinstance(event, (ItemStartedEvent, ItemCompletedEvent))]
            message = [event for event in shown if event.item["type"] == "AgentMessage"]
            assert [type(event) for event in message] == [ItemStartedEvent, ItemCompletedEvent]
            assert {event.item["id"] for event in message} == {deltas[0].item_id}
            assert [type(item) for item in items] == [FunctionCall, Reasoning, Message]
            usage = [
                event.info.total_token_usage for event in events if isinstance(event, TokenCountEvent) if event.info
            ]
            assert usage[-1] == thread.total_usage

    asyncio.run(main())


def test_a_call_its_output_and_the_answer_become_items_of_the_next_request(make_thread: Any) -> None:
    async def main() -> None:
        replies = [call("shout", text="hi", call_id="c1"), reasoning("Easy.") + say("One."), say("Two.")]
        async with make_thread(replies, tools=[shout]) as thread:
            await thread.run("Shout!")
            await thread.run("Again.")
            sent = [item for item in thread.model.requests[-1].prompt.items if not _is_context(item)]
            words, made, output, thought, answer, more = sent
            assert (message_text(words), message_text(more)) == ("Shout!", "Again.")
            assert isinstance(made, FunctionCall)
            assert (made.name, made.arguments, made.call_id) == ("shout", '{"text": "hi"}', "c1")
            assert output == FunctionCallOutput("c1", "HI")
            assert isinstance(thought, Reasoning)
            assert thought.summary == ({"type": "summary_text", "text": "Easy."},)
            assert isinstance(answer, Message)
            assert (answer.role, answer.content) == ("assistant", (OutputText("One."),))

    asyncio.run(main())


def _is_context(item: Any) -> bool:
    return isinstance(item, Message) and message_text(item).lstrip().startswith("<")


def test_text_and_images_of_a_user_reach_the_model(make_thread: Any, tmp_path: Path) -> None:
    file = tmp_path / "dot.png"
    file.write_bytes(PNG)
    data = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"

    async def main() -> None:
        async with make_thread([say("Seen.")]) as thread:
            given = (TextInput("Look!"), ImageInput("https://a.example/b.png", "low"), LocalImageInput(str(file)))
            await thread.submit(UserInputOp(given))
            await thread.settled()
            (message,) = (
                item for item in thread.history.items if isinstance(item, Message) if "Look!" in message_text(item)
            )
            images = [(part.image_url, part.detail) for part in message.content if isinstance(part, InputImage)]
            assert images == [("https://a.example/b.png", "low"), (data, "high")]

    asyncio.run(main())


def test_an_interrupt_that_a_client_submits_ends_the_turn(make_thread: Any) -> None:
    async def main() -> None:
        begun = asyncio.Event()

        @tool
        async def rest() -> str:
            """Rest."""
            begun.set()
            await asyncio.sleep(60)
            return "never"

        async with make_thread([call("rest")], tools=[rest]) as thread:
            turn = asyncio.ensure_future(thread.run("go"))
            await begun.wait()
            await thread.submit(Interrupt())
            last = (await turn).events[-1]
            assert isinstance(last, TurnAbortedEvent)
            assert last.reason == "interrupted"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("answer", "shown", "told"),
    [
        ({"saved_path": "/x", "id": "other", "type": "Other"}, {"saved_path": "/x"}, ""),
        (None, {}, "not a turn item"),
        (RuntimeError("boom"), {}, "boom"),
    ],
)
def test_what_a_tool_says_about_a_call_of_the_server_adds_to_its_item(
    make_thread: Any, answer: Any, shown: dict[str, Any], told: str
) -> None:
    class Draws(Tool):
        spec = NativeSpec("image_generation", "image_generation")

        async def shown(self, item: Any, turn: Any) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return None if answer is None else {**item, **answer}

        async def run(self, call: Any, context: Any) -> str:
            return "never"

    async def main() -> None:
        drawn = {"type": "image_generation_call", "id": "ig", "status": "completed", "result": "AAAA"}
        async with make_thread([reply(UnknownItem(drawn)) + say("Done.")], tools=[Draws()]) as thread:
            result = await thread.run("Draw!")
            whole = [event.item for event in result.events if isinstance(event, ItemCompletedEvent)]
            item = {"status": "completed", "revised_prompt": None, "result": "AAAA"}
            assert {"type": "ImageGeneration", "id": "ig", **item, **shown} in whole
            warnings = [event.message for event in result.events if isinstance(event, WarningEvent)]
            assert [told in text for text in warnings if "shown" in text] == ([True] if told else [])
            assert result.final_message == "Done."

    asyncio.run(main())
