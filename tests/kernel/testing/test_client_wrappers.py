"""Clients around clients: which abilities they keep, and what the check of interceptors finds about them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest

from codex_framework import ClientWrapper, Completed, Interceptor, ModelError, ModelEvent, ModelRequest
from codex_framework.contract.roles.client_wrapper import CLIENT_ABILITIES
from codex_framework.testing import ContractViolation, ScriptedModel, check_interceptor, check_provider, say
from codex_framework.testing.requests import model_request


class Able:
    """A client with all abilities."""

    compacts = True
    close_timeout_s = 7.0

    def __init__(self) -> None:
        self.sent: list[Any] = []

    async def stream(self, request: ModelRequest) -> Any:
        self.sent.append(request)
        for event in ():
            yield event

    async def prepare(self, request: ModelRequest, whole: Callable[[], Awaitable[Any]]) -> None:
        self.sent += [request, await whole()]

    async def aclose(self) -> None:
        self.sent.append("closed")


class Short(ClientWrapper):
    def changed(self, request: ModelRequest) -> ModelRequest:
        return request.evolve(instructions="In verse.")


def abilities(client: object) -> list[Any]:
    return [name for name in CLIENT_ABILITIES if getattr(client, name, None)]


def test_a_wrapper_has_the_abilities_of_what_it_wraps_and_no_others() -> None:
    wrapper = ClientWrapper(ClientWrapper(Able()))
    assert abilities(wrapper) == list(CLIENT_ABILITIES)
    assert (wrapper.compacts, wrapper.close_timeout_s) == (True, 7.0)  # type: ignore[attr-defined]
    plain = ClientWrapper(ScriptedModel([]))
    assert [name for name in (*CLIENT_ABILITIES, "sent") if hasattr(plain, name)] == []
    assert not hasattr(wrapper, "sent"), "only abilities are passed on"
    assert not hasattr(ClientWrapper.__new__(ClientWrapper), "compacts"), "without a client"


def test_a_wrapper_can_give_an_ability_up() -> None:
    class Less(ClientWrapper):
        compacts = False
        prepare = None

    assert abilities(ClientWrapper(Less(Able()))) == ["close_timeout_s"]


def test_a_change_of_requests_holds_for_what_the_server_prepares_for() -> None:
    async def run() -> list[Any]:
        inner = Able()
        client: Any = Short(Short(inner))

        async def whole() -> ModelRequest | None:
            return drafts.pop(0)

        async for _ in client.stream(model_request()):
            pass
        drafts = [model_request(), None]
        await client.prepare(model_request(), whole)
        await client.prepare(model_request(), whole)
        await client.aclose()
        return inner.sent

    *requests, closed = asyncio.run(run())
    said = [request and request.instructions for request in requests]
    assert said == ["In verse."] * 4 + [None]
    assert closed == "closed"


class Bare:
    def __init__(self, client: Any) -> None:
        self.client = client

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        return self.client.stream(request)  # type: ignore[no-any-return]

    async def aclose(self) -> None:
        await self.client.aclose()


class Unclosed(ClientWrapper):
    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.kept = self.client.stream(request)
        async for event in self.kept:
            yield event


class Unlike(ClientWrapper):
    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        async with aclosing(self.client.stream(request.evolve(instructions="x"))) as events:  # type: ignore[type-var]
            async for event in events:
                yield event


class Leaving(ClientWrapper):
    async def aclose(self) -> None:
        """Leave the other one open."""


class Endless(ClientWrapper):
    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        async with aclosing(self.client.stream(request)) as events:  # type: ignore[type-var]
            async for event in events:
                if not isinstance(event, Completed):
                    yield event


class Hiding(ClientWrapper):
    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        try:
            async with aclosing(self.client.stream(request)) as events:  # type: ignore[type-var]
                async for event in events:
                    yield event
        except ModelError:
            return


class Renaming(ClientWrapper):
    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        try:
            async with aclosing(self.client.stream(request)) as events:  # type: ignore[type-var]
                async for event in events:
                    yield event
        except ModelError as error:
            raise RuntimeError("it failed") from error


class Stubborn(ClientWrapper):
    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        try:
            async with aclosing(self.client.stream(request)) as events:  # type: ignore[type-var]
                async for event in events:
                    yield event
        except asyncio.CancelledError:
            return


class Forgetful(ClientWrapper):
    def changed(self, request: ModelRequest) -> ModelRequest:
        return None  # type: ignore[return-value]


class Refusing(ClientWrapper):
    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        for event in ():
            yield event
        raise ModelError("the budget is spent")


class Rescuing(ClientWrapper):
    def changed(self, request: ModelRequest) -> ModelRequest:
        return request.evolve(instructions="In verse.")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        try:
            async with self.response(request) as events:
                async for event in events:
                    yield event
        except ModelError:
            yield Completed("another")


class Raising(ClientWrapper):
    async def prepare(self, request: ModelRequest, whole: Any) -> None:
        raise OSError("no")


def wrapping(wrapper: Callable[[Any], Any]) -> Interceptor:
    class Wrapping(Interceptor):
        name = "wrapping"

        def client(self, client: Any, provider: Any) -> Any:
            return wrapper(client)

    return Wrapping()


@pytest.mark.parametrize(
    ("wrapper", "found"),
    [
        (Bare, "(Bare) has no `compacts`, which the client has that it wraps: derive it from ClientWrapper, or set"),
        (Bare, "(Bare) has no `prepare`"),
        (
            Unclosed,
            "(Unclosed) does not close the stream of the client that it wraps: use `async with self.response(request)`",
        ),
        (Unlike, "(Unlike) changes requests in stream(), but not those that prepare() sends: override changed()"),
        (Leaving, "(Leaving) does not close the client that it wraps"),
        (
            Endless,
            "a stream of the client that client() returns (Endless) does not end with one Completed: pass on Completed",
        ),
        (
            Hiding,
            "if the client that it wraps raises ModelError, a stream of the client that client() returns (Hiding) does not",
        ),
        (Renaming, "(Renaming) raises RuntimeError: it failed"),
        (Stubborn, "(Stubborn), when cancelled, goes on and returns; asyncio.CancelledError must be raised again"),
        (Forgetful, "(Forgetful) sends NoneType instead of a ModelRequest: return the request from changed()"),
        (Raising, "prepare() of the client that client() returns (Raising) raises OSError: no"),
        (lambda client: {}["x"], "client() raises KeyError: 'x'"),
    ],
)
def test_what_is_wrong_with_a_wrapper_is_found(wrapper: Any, found: str) -> None:
    with pytest.raises(ContractViolation) as caught:
        check_interceptor(wrapping(wrapper), config="[model_providers.scripted]\nstream_max_retries = 0\n")
    assert any(found in text for text in caught.value.violations), caught.value.violations


@pytest.mark.parametrize("wrapper", [ClientWrapper, Short, lambda client: client])
def test_a_wrapper_that_keeps_all_of_it_is_right(wrapper: Any) -> None:
    check_interceptor(wrapping(wrapper))


def test_a_client_whose_preparation_raises_is_found() -> None:
    class Preparing(ScriptedModel):
        def open(self, *arguments: Any) -> Any:
            return Raising(super().open(*arguments))

    with pytest.raises(ContractViolation, match=r"prepare\(\) of its client raises OSError: no"):
        check_provider(Preparing([say("Hi!")], repeat_last=True))


@pytest.mark.parametrize("wrapper", [Refusing, Rescuing])
def test_a_wrapper_may_refuse_requests_and_answer_itself(wrapper: Any) -> None:
    check_interceptor(wrapping(wrapper))
