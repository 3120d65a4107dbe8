"""The check of a provider's requests, with a server that records them: conversations arrive, and responses go to the right thread."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from codex_framework.contract.errors import ModelError
from codex_framework.contract.protocol.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputText,
    Message,
    OutputText,
    ResponseItem,
    UnknownItem,
    message_text,
    user_message,
)
from codex_framework.contract.roles.models import (
    Completed,
    LeftOut,
    ModelClient,
    ModelEvent,
    ModelInfo,
    ModelProvider,
    ProviderInfo,
)
from codex_framework.contract.roles.tool_specs import FunctionSpec
from codex_framework.testing.conformance.findings import Findings, Unmet, run_check
from codex_framework.testing.conformance.provider_events import check_events, items_done, repeated_ids
from codex_framework.testing.replies import call, fault, reasoning, say
from codex_framework.testing.requests import model_request
from codex_framework.testing.scripted import Reply
from codex_framework.testing.server import ModelServer, RecordedRequest
from codex_framework.testing.wire import Wire

__all__ = ["check_requests"]

_RESPONSE_S = 10.0
_CLOSED_S = 2.0
_KEY_NAME = "CHECK_PROVIDER_KEY"
_KEY = "sk-canary-4711-do-not-show"
_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
_LOOK = FunctionSpec(
    "look",
    "Looks, as marked by tango8804.",
    {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]},
)
_SEARCH = UnknownItem(
    {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "tango8808"},
    }
)
_PARTS = {
    "tango8800": ("the name of the model", "models"),
    "tango8801": ("the instructions", "instructions"),
    "tango8802": ("what the user said", "messages"),
    "tango8803": ("what the model said", "messages"),
    "tango8804": ("the description of a tool", "tools"),
    "tango8805": ("the arguments of a call", "calls"),
    "tango8806": ("the output of a call", "outputs"),
    "tango8807": ("what the developer said", "messages"),
    _PIXEL: ("an image of the user", "images"),
}
"""The parts that must arrive: a pattern to recognise each, a description, and its name in ``LeftOut``."""


Check: TypeAlias = Callable[[Findings, ModelServer, Callable[[], ModelClient]], Awaitable[None]]
"""A check with a server, and with what opens a client of it."""


def check_requests(
    findings: Findings, provider: ModelProvider, info: ProviderInfo, env: Mapping[str, str], wire: Wire
) -> None:
    """Check that conversations arrive complete, that threads do not get each other's responses, and that connections are closed."""
    table, variables = info, dict(env)
    if info.env_key is None and not info.requires_openai_auth:
        table = info.evolve(env_key=_KEY_NAME)
        variables[_KEY_NAME] = _KEY
    key = variables.get(table.env_key or "", "")

    def served(reply: Callable[[RecordedRequest], Reply], check: Check) -> None:
        with ModelServer([reply], repeat_last=True, wires=[wire]) as server:
            opened = partial(provider.open, table.evolve(base_url=server.url), variables)
            run_check(findings, lambda: check(findings, server, opened))

    served(_rich_reply, partial(_check_conversation, wire))
    served(_echo_reply, _check_separation)
    if key:
        served(_refusal_reply, partial(_check_secrecy, key))


def _rich_reply(request: RecordedRequest) -> Reply:  # noqa: ARG001
    return reasoning("I think.") + say("I look.", deltas=2) + call("look", at="tango8805") + call("look", at="there")


def _echo_reply(request: RecordedRequest) -> Reply:
    found = re.findall(rb"thread-tango-\d", request.body)
    return say(f"This is {found[-1].decode() if found else 'nobody'}.", deltas=2).evolve(delay_s=0.02)


def _refusal_reply(request: RecordedRequest) -> Reply:
    sent = " ".join(request.headers.values())
    return fault(401, body={"error": {"message": f"Wrong key in {request.path}: {sent}"}})


async def _check_conversation(
    wire: Wire, findings: Findings, server: ModelServer, opened: Callable[[], ModelClient]
) -> None:
    client = opened()
    what = "a request with a tool, calls and an image"
    said = Message("user", (InputText("See tango8802."), InputImage(f"data:image/png;base64,{_PIXEL}")))
    history: list[ResponseItem] = [
        Message("developer", (InputText("Mind tango8807."),)),
        said,
        Message("assistant", (OutputText("It is tango8803."),)),
        FunctionCall("look", '{"at": "tango8805"}', "call_before"),
        FunctionCallOutput("call_before", "There is tango8806."),
        user_message("Look again."),
    ]
    model = ModelInfo(slug="tango8800", supports_images=True, apply_patch="function")
    try:
        events = await _ask(findings, client, what, history, model)
        _check_arrived(findings, server, events, what)
        _check_usage(findings, events, wire, what)
        first = items_done(events)
        outputs = [output for item in first if (output := _output(item)) is not None]
        what = "a request with the items of the last response, and outputs of their calls"
        events = await _ask(findings, client, what, [*history, *first, *outputs], model)
        body = server.requests[-1].body
        for text in ["tango9001", *(message_text(item) for item in first if isinstance(item, Message))]:
            findings.require(text.encode() in body, f"the body of {what} does not contain {text!r}")
        await _check_loss(findings, client, server, [*history, _SEARCH, user_message("Go on.")], model)
        again = repeated_ids([*first, *items_done(events)])
        cure = "make ids that are unique among all responses"
        findings.require(not again, f"two responses have items with the same {' and the same '.join(again)}: {cure}")
    finally:
        await client.aclose()
    await _check_closed(findings, server)


async def _ask(
    findings: Findings, client: Any, what: str, items: list[ResponseItem], model: ModelInfo
) -> list[ModelEvent]:
    request = model_request(*items, instructions="Be as tango8801.", tools=(_LOOK,), model=model)

    async def read() -> list[ModelEvent]:
        return [event async for event in client.stream(request)]

    try:
        events = await findings.wait_for(what, read(), within_s=_RESPONSE_S, allowed=(ModelError,))
    except ModelError as error:
        findings.note(f"{what} fails with a ModelError ({error}), although the server answers")
        raise Unmet from error
    check_events(findings, what, events, client)
    return events


async def _check_loss(
    findings: Findings, client: Any, server: ModelServer, history: list[ResponseItem], model: ModelInfo
) -> None:
    """Check that an item without a place in many APIs is sent, or that its loss is reported."""
    what = "a request with a search of the web by another model's server"
    events = await _ask(findings, client, what, history, model)
    is_told = any(isinstance(event, LeftOut) for event in events)
    cure = "send it, or yield LeftOut before the response (`lost_in_messages` of the toolkit finds such items)"
    sent = server.requests[-1].body
    findings.require(b"tango8808" in sent or is_told, f"the body of {what} lacks the item `web_search_call`: {cure}")


def _output(item: ResponseItem) -> ResponseItem | None:
    if isinstance(item, FunctionCall):
        return FunctionCallOutput(item.call_id, "It is tango9001.")
    return CustomToolCallOutput(item.call_id, "It is tango9001.") if isinstance(item, CustomToolCall) else None


def _check_arrived(findings: Findings, server: ModelServer, events: list[ModelEvent], what: str) -> None:
    if not server.requests:
        findings.note(f"{what} does not reach the server at base_url")
        raise Unmet
    request = server.requests[-1]
    sent = request.body + request.path.encode()
    told = " ".join(event.what.lower() for event in events if isinstance(event, LeftOut))
    for mark, (noun, loss) in _PARTS.items():
        cure = f"send it, or yield LeftOut({loss!r}, ...) before the response"
        findings.require(mark.encode() in sent or loss.rstrip("s") in told, f"the body of {what} lacks {noun}: {cure}")


def _check_usage(findings: Findings, events: list[ModelEvent], wire: Wire, what: str) -> None:
    """Check that tokens are counted, if the API has a form for their number."""
    if wire.events(say("Hello."), 1) == wire.events(say("Hello.").evolve(usage=None), 1):
        return
    counted = [event.usage for event in events if isinstance(event, Completed) and event.usage is not None]
    cure = "pass them to Completed as TokenUsage"
    findings.require(counted, f"{what} yields Completed without the numbers of tokens that the server sent: {cure}")


async def _check_closed(findings: Findings, server: ModelServer) -> None:
    left = await asyncio.to_thread(server.wait_closed, _CLOSED_S)
    findings.require(not left, f"aclose() of its client leaves connections to the server open: {left}")


async def _check_separation(findings: Findings, _: ModelServer, opened: Callable[[], ModelClient]) -> None:
    """Check that threads do not share a conversation, and that a client works after another one has been closed."""
    other, client = opened(), opened()

    async def ask(name: str) -> None:
        request = model_request(f"I am {name}.", thread_id=name, cache_key=name)
        events = [event async for event in client.stream(request)]
        said = [message_text(item) for item in items_done(events) if isinstance(item, Message)]
        text = f"a thread gets {said} where the server answered 'This is {name}.'"
        findings.require(said == [f"This is {name}."], f"{text}: keep no conversation in the client")

    try:
        await findings.wait_for("aclose() of another client", other.aclose(), within_s=5.0)
        work = asyncio.gather(*(ask(f"thread-tango-{number}") for number in range(5)))
        await findings.wait_for("one of five requests of different threads", work, within_s=_RESPONSE_S)
    finally:
        await client.aclose()


async def _check_secrecy(key: str, findings: Findings, _: ModelServer, opened: Callable[[], ModelClient]) -> None:
    client = opened()

    async def read() -> None:
        async for _ in client.stream(model_request()):
            pass

    what = "a request to a server that refuses the key and repeats it"
    try:
        await findings.wait_for(what, read(), within_s=_RESPONSE_S, allowed=(ModelError,))
    except ModelError as error:
        shown = f"{error} {error.hint}"
        cure = "hide it (`MessageClient` and `ServerClient` do)"
        findings.require(key not in shown, f"{what} raises a ModelError that shows the key: {cure}")
    finally:
        await client.aclose()
