"""What the check of providers finds about their requests, events and tables."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from codex_framework import (
    Completed,
    InputImage,
    ItemAdded,
    ItemDone,
    Message,
    ModelClient,
    ModelError,
    ModelEvent,
    ModelProvider,
    ModelRequest,
    OutputText,
    ProviderInfo,
    TextDelta,
)
from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.contract.protocol.items import FunctionCallOutput, UnknownItem
from codex_framework.contract.roles.models import LeftOut
from codex_framework.testing import RESPONSES, ContractViolation, ItemsPrompt, check_provider
from codex_plugin_openai.provider import ResponsesProvider


class Defect:
    """A way in which a provider is wrong. Without any, it is right."""

    def table(self, info: ProviderInfo) -> ProviderInfo:
        return info

    def request(self, request: ModelRequest) -> ModelRequest:
        return request

    async def events(self, events: AsyncIterator[ModelEvent]) -> AsyncIterator[Any]:
        async for event in events:
            for one in self.event(event):
                yield one

    def event(self, event: Any) -> list[Any]:
        return [event]

    async def close(self, client: ModelClient) -> None:
        await client.aclose()


class Client:
    def __init__(self, client: ModelClient, defect: Defect) -> None:
        self._client, self._defect = client, defect

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        stream: Any = self._client.stream(self._defect.request(request))
        changed: Any = self._defect.events(stream)
        try:
            async for event in changed:
                yield event
        finally:
            await changed.aclose()
            await stream.aclose()

    async def aclose(self) -> None:
        await self._defect.close(self._client)


class Wrong(ModelProvider):
    name = "responses"

    def __init__(self, defect: Defect) -> None:
        self._defect = defect

    def open(self, info: ProviderInfo, env: Mapping[str, str]) -> ModelClient:
        return Client(ResponsesProvider().open(self._defect.table(info), env), self._defect)


def sending(change: Callable[[ModelRequest], ModelRequest]) -> Defect:
    defect = Defect()
    defect.request = change  # type: ignore[method-assign]
    return defect


def yielding(change: Callable[[Any], list[Any]]) -> Defect:
    defect = Defect()
    defect.event = change  # type: ignore[method-assign]
    return defect


def without(request: ModelRequest, drops: Callable[[Any], bool]) -> ModelRequest:
    return request.evolve(prompt=ItemsPrompt([item for item in request.prompt.items if not drops(item)]))


def has_image(item: Any) -> bool:
    return isinstance(item, Message) and any(isinstance(part, InputImage) for part in item.content)


def counted(*counts: int) -> Callable[[Any], list[Any]]:
    return lambda event: [event.evolve(usage=TokenUsage(*counts)) if isinstance(event, Completed) else event]


class Shared(Defect):
    """Answers with what was asked last, by any thread."""

    async def events(self, events: AsyncIterator[ModelEvent]) -> AsyncIterator[Any]:
        heard = self.heard = [event async for event in events]
        await asyncio.sleep(0.05)
        assert heard
        for event in self.heard:
            yield event


class Open(Defect):
    def __init__(self) -> None:
        self.kept: list[ModelClient] = []

    async def close(self, client: ModelClient) -> None:
        self.kept.append(client)


class Telling(Defect):
    async def events(self, events: AsyncIterator[ModelEvent]) -> AsyncIterator[Any]:
        try:
            async for event in events:
                yield event
        except ModelError as error:
            error.args = (f"{error} (with sk-canary-4711-do-not-show)",)
            raise


class Leaving(Defect):
    async def events(self, events: AsyncIterator[ModelEvent]) -> AsyncIterator[Any]:
        try:
            async for event in events:
                yield event
        except ModelError:
            sys.exit(3)


class Lenient(Defect):
    def table(self, info: ProviderInfo) -> ProviderInfo:
        return info.evolve(options={})


class Strict(Defect):
    def table(self, info: ProviderInfo) -> ProviderInfo:
        if info.options:
            raise ModelError(f"unknown keys: {', '.join(info.options)}")
        return info


class Rude(Defect):
    def table(self, info: ProviderInfo) -> ProviderInfo:
        if "no_such_option" in info.options:
            raise ValueError("unknown key")
        return info


@pytest.mark.parametrize(
    ("defect", "found"),
    [
        (
            sending(lambda request: request.evolve(instructions="")),
            "lacks the instructions: send it, or yield LeftOut('instructions'",
        ),
        (sending(lambda request: request.evolve(tools=())), "lacks the description of a tool"),
        (
            sending(lambda request: request.evolve(model=request.model.evolve(slug="mine"))),
            "lacks the name of the model",
        ),
        (
            sending(lambda request: without(request, has_image)),
            "lacks an image of the user: send it, or yield LeftOut('images'",
        ),
        (
            sending(lambda request: without(request, lambda item: isinstance(item, FunctionCallOutput))),
            "and outputs of their calls does not contain 'tango9001'",
        ),
        (
            sending(lambda request: without(request, lambda item: isinstance(item, UnknownItem))),
            "lacks the item `web_search_call`: send it, or yield LeftOut",
        ),
        (Shared(), "keep no conversation in the client"),
        (
            yielding(lambda event: [] if isinstance(event, ItemAdded) else [event]),
            "an item that has not begun: yield ItemAdded",
        ),
        (
            yielding(lambda event: [event, event] if isinstance(event, TextDelta) else [event]),
            "clients show the pieces",
        ),
        (
            yielding(lambda event: [event.evolve(delta=b"x") if isinstance(event, TextDelta) else event]),
            "it yielded a TextDelta whose text is bytes. Pass a string.",
        ),
        (
            yielding(lambda event: [ItemDone(Message("assistant", "hi")) if isinstance(event, ItemDone) else event]),  # type: ignore[arg-type]
            "it yielded a Message that is wrong: its `content` is 'hi'",
        ),
        (
            yielding(counted(-1, 0, 0, 0, 0)),
            "its Completed has input_tokens -1. Count tokens with whole numbers from 0",
        ),
        (yielding(counted(0, 0, 0, 0, 0)), "counts 0 tokens. Pass usage=None if the server has not counted them"),
        (
            yielding(lambda event: [Completed("r") if isinstance(event, Completed) else event]),
            "yields Completed without the numbers of tokens that the server sent",
        ),
        (
            yielding(
                lambda event: [
                    type(event)(Message("assistant", (OutputText("a"),), id="one"))
                    if isinstance(event, ItemDone)
                    else event
                ]
            ),
            "two items with the same id 'one'",
        ),
        (Open(), "aclose() of its client leaves connections to the server open: 1"),
        (Telling(), "raises a ModelError that shows the key: hide it"),
        (Leaving(), "raises SystemExit: 3, not ModelError"),
        (Lenient(), "open() accepts the unknown key 'no_such_option' of its table"),
        (Strict(), "open() refuses the key `record`, with which the responses of any provider are recorded"),
        (Rude(), "open() raises ValueError: unknown key for an unknown key of its table, not ModelError"),
    ],
)
def test_a_wrong_provider_is_found(defect: Defect, found: str) -> None:
    with pytest.raises(ContractViolation) as caught:
        check_provider(Wrong(defect), wire=RESPONSES)
    assert any(found in text for text in caught.value.violations), caught.value.violations


def test_what_is_told_to_be_left_out_may_be_left_out() -> None:
    class Blind(Defect):
        def request(self, request: ModelRequest) -> ModelRequest:
            return without(request, has_image)

        async def events(self, events: AsyncIterator[ModelEvent]) -> AsyncIterator[Any]:
            yield LeftOut("images", 1, "the API has none")
            yield LeftOut("messages", 1, "they come with images")
            async for event in events:
                yield event

    check_provider(Wrong(Blind()), wire=RESPONSES, env={"HOME": os.devnull})
