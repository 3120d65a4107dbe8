"""Images that a model does not take, or that its server refuses, are left out of requests and stay in the history."""

from __future__ import annotations

import asyncio
from typing import Any

from codex_framework import InputImage, InputText, Message, ModelInfo, Status, ToolOutput, tool
from codex_framework.contract.errors import INVALID_IMAGE, ModelError
from codex_framework.contract.protocol.items import FunctionCallOutput
from codex_framework.contract.protocol.ops import ImageInput, TextInput, ThreadSettings, ThreadSettingsOverrides
from codex_framework.contract.protocol.wire import encode_item
from codex_framework.testing import ScriptedModel, call, say
from codex_framework.testing.scripted import Fault, Reply

FIRST, SECOND = "data:image/png;base64,Zmlyc3Q=", "data:image/png;base64,c2Vjb25k"
REFUSED, NOT_SEEN = "Invalid image", "image content omitted because you do not support image input"
REFUSAL = Reply(fault=Fault(error=ModelError("no image", info="bad_request", slug=INVALID_IMAGE)))


@tool
async def snap(url: str) -> ToolOutput:
    """Take a picture."""
    return ToolOutput((InputText("a picture:"), InputImage(url)))


def shown(items: Any) -> list[str]:
    """Return the URLs of the images, and the texts in place of those left out."""
    found: list[str] = []
    for item in items:
        content = item.content if isinstance(item, Message) else getattr(item, "output", ())
        for part in content if isinstance(content, tuple) else ():
            if isinstance(part, InputImage):
                found.append(part.image_url)
            elif isinstance(part, InputText) and part.text in (REFUSED, NOT_SEEN):
                found.append(part.text)
    return found


def sent(requests: Any) -> list[list[str]]:
    for request in requests:
        assert request.prompt.encoded() == b"[" + b",".join(map(encode_item, request.prompt.items)) + b"]"
    return [shown(request.prompt.items) for request in requests]


async def look(thread: Any, *urls: str) -> Any:
    return await thread.run((*map(ImageInput, urls), TextInput("Look!")))


def losses(result: Any) -> list[str]:
    found = [event.message for event in result.events if getattr(event, "slug", "") == "history-loss"]
    return [text.partition(": ")[2] for text in found]


def test_an_image_of_a_tool_that_the_server_refuses_is_left_out_and_the_turn_goes_on(make_thread: Any) -> None:
    async def main() -> None:
        replies = [call("snap", url=FIRST), call("snap", url=SECOND), REFUSAL, say("Sorry."), say("Hello.")]
        async with make_thread(replies, tools=[snap]) as thread:
            result = await thread.run("go")
            assert result.final_message == "Sorry."
            await thread.run("again")
            assert sent(thread.model.requests) == [[], [FIRST], [FIRST, SECOND], [FIRST, REFUSED], [FIRST, REFUSED]]
            assert shown(thread.history.items) == [FIRST, SECOND]
            assert losses(result) == ["images (1), because the server refuses them as invalid"]

    asyncio.run(main())


def test_images_are_left_out_from_the_newest_item_on_until_the_server_is_content(make_thread: Any) -> None:
    async def main() -> None:
        both = call("snap", url=FIRST) + call("snap", url=SECOND)
        async with make_thread([both, REFUSAL, REFUSAL, say("Sorry.")], tools=[snap]) as thread:
            assert (await thread.run("go")).final_message == "Sorry."
            assert sent(thread.model.requests)[1:] == [[FIRST, SECOND], [FIRST, REFUSED], [REFUSED, REFUSED]]

    asyncio.run(main())


def test_a_refused_image_of_the_user_ends_the_turn_and_is_in_the_way_of_no_later_one(make_thread: Any) -> None:
    async def main() -> None:
        async with make_thread([REFUSAL, say("Better.")]) as thread:
            result = await look(thread, FIRST, SECOND)
            assert (result.status, result.error) == (Status.FAILED, "no image")
            assert len(thread.model.requests) == 1
            assert (await thread.run("without")).final_message == "Better."
            assert sent(thread.model.requests) == [[FIRST, SECOND], [REFUSED, REFUSED]]

    asyncio.run(main())


def test_a_refused_image_of_an_earlier_message_is_left_out_at_once(make_thread: Any) -> None:
    async def main() -> None:
        async with make_thread([say("Nice."), REFUSAL, say("Gone.")]) as thread:
            await look(thread, FIRST)
            assert (await thread.run("And now?")).final_message == "Gone."
            assert sent(thread.model.requests) == [[FIRST], [FIRST], [REFUSED]]

    asyncio.run(main())


def test_a_refusal_without_an_image_ends_the_turn(make_thread: Any) -> None:
    async def main() -> None:
        async with make_thread([REFUSAL]) as thread:
            result = await thread.run("go")
            assert (result.status, result.error) == (Status.FAILED, "no image")

    asyncio.run(main())


def test_a_model_that_takes_no_images_gets_a_note_and_another_one_gets_the_image(make_kernel: Any) -> None:
    async def main() -> None:
        replies = [call("snap", url=FIRST), say("Seen."), say("What?"), say("Seen again.")]
        model = ScriptedModel(replies, models={"blind": ModelInfo(slug="blind", supports_images=False)})
        async with make_kernel.around(model, tools=[snap]) as kernel:
            thread = await kernel.start_thread()
            await thread.run("go")
            await thread.submit(ThreadSettings(ThreadSettingsOverrides(model="blind")))
            found = await thread.run("now you")
            await thread.submit(ThreadSettings(ThreadSettingsOverrides(model="sighted")))
            await thread.run("and you")
            assert sent(model.requests) == [[], [FIRST], [NOT_SEEN], [FIRST]]
            assert losses(found) == ["images (1), because the model takes none"]

    asyncio.run(main())


def test_items_of_earlier_requests_stay_the_same_objects(make_thread: Any) -> None:
    """Providers know by them what a server has already got."""

    async def main() -> None:
        replies = [call("snap", url=FIRST), REFUSAL, call("snap", url=SECOND), say("ok")]
        async with make_thread(replies, tools=[snap]) as thread:
            await thread.run("go")
            before, after = (request.prompt.items for request in thread.model.requests[-2:])
            assert all(one is other for one, other in zip(before, after, strict=False))
            assert any(isinstance(item, FunctionCallOutput) for item in before)

    asyncio.run(main())
