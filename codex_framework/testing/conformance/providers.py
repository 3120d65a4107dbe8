"""The check of model providers: their streams, errors and cancellation."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Mapping
from typing import Any

from codex_framework.contract.errors import ModelError, described
from codex_framework.contract.protocol.items import FunctionCall, FunctionCallOutput, Message, OutputText
from codex_framework.contract.roles.models import (
    ModelClient,
    ModelEvent,
    ModelInfo,
    ModelProvider,
    ModelRequest,
    ProviderInfo,
)
from codex_framework.contract.roles.tool_specs import (
    FreeformFormat,
    FreeformSpec,
    FunctionSpec,
    NativeSpec,
    ToolNamespace,
)
from codex_framework.testing.conformance.findings import Findings, Unmet, run_check
from codex_framework.testing.conformance.provider_events import check_events
from codex_framework.testing.replies import say
from codex_framework.testing.requests import model_request
from codex_framework.testing.wire import Wire
from codex_framework.toolkit.roles import add_defaults

__all__ = ["check_provider"]

_NOWHERE = "http://127.0.0.1:9/v1"
"""No program listens on port 9 (discard), so connections to it are refused immediately."""

_OPEN_S = 3.0
"""Time limit in seconds: enough to import an HTTP library on a busy machine, too short to wait for an unresponsive server."""

_RESPONSE_S = 30.0

_UNKNOWN = "no_such_option"

_TOOLS = (
    FunctionSpec("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}),
    FunctionSpec(
        "sea__listen", "Listens.", {"type": "object"}, namespace=ToolNamespace("sea", "At sea."), local_name="listen"
    ),
    FreeformSpec("write", "Writes.", FreeformFormat("lark", 'start: "x"')),
    NativeSpec("local_shell", "local_shell"),
)


def check_provider(
    provider: ModelProvider,
    info: ProviderInfo | None = None,
    *,
    env: Mapping[str, str] | None = None,
    wire: Wire | None = None,
) -> None:
    """Check that a provider fulfils its role. It gets about ten requests and must answer each of them.

    Args:
        provider: The provider.
        info: A table with which it works, with its options. By default, the table has only a name.
        env: The environment with its key.
        wire: The API of its servers: ``RESPONSES``, ``CHAT``, ``MESSAGES``, or yours. The check then runs the server itself,
            reads what arrives there, and makes it fail in about fifty ways.

    Raises:
        ContractViolation: It does not; every violation is listed.
    """
    findings = Findings("provider", provider)
    if findings.check_members(provider, ModelProvider):
        provider = add_defaults(provider, ModelProvider)
        word = provider.name
        table = info or ProviderInfo(id=word, name=word, wire_api=word)
        _check_table(findings, provider)
        if wire is None:
            run_check(
                findings, lambda: _responses(findings, provider, table, dict(env or {}), has_table=info is not None)
            )
        else:
            _with_server(findings, provider, table, dict(env or {}), wire)
        run_check(findings, lambda: _check_unreachable(findings, provider, table, dict(env or {})))
    findings.raise_any()


def _with_server(
    findings: Findings, provider: ModelProvider, info: ProviderInfo, env: dict[str, str], wire: Wire
) -> None:
    from codex_framework.testing.conformance.provider_faults import check_faults
    from codex_framework.testing.conformance.provider_requests import check_requests
    from codex_framework.testing.server import ModelServer

    with ModelServer([say("Hello there.", deltas=3)], repeat_last=True, wires=[wire]) as server:
        table = info.evolve(base_url=server.url)
        run_check(findings, lambda: _responses(findings, provider, table, env, has_table=True))
    if not findings.violations:  # otherwise each of the following checks would find the same
        check_requests(findings, provider, info, env, wire)
        check_faults(findings, provider, info, env, wire)


def _check_table(findings: Findings, provider: ModelProvider) -> None:
    findings.require_name(provider)
    builtin: Mapping[str, Any] = provider.builtin
    for key, info in builtin.items():
        if not isinstance(info, ProviderInfo):
            findings.note(f"its builtin provider {key!r} is {type(info).__name__}, not a ProviderInfo")
            continue
        findings.require(info.id == key, f"its builtin provider {key!r} has the id {info.id!r}")
        served = info.wire_api == provider.name
        findings.require(served, f"its builtin provider {key!r} has wire_api {info.wire_api!r}, which is not its name")
    for slug in ("no-such-model-4711", ""):
        try:
            known: object = findings.call(f"model({slug!r})", lambda slug=slug: provider.model(slug), within_s=1.0)  # type: ignore[misc]
        except Unmet:
            continue
        if isinstance(known, ModelInfo):
            findings.require(known.slug == slug, f"model({slug!r}) returns the slug {known.slug!r}")
        elif known is not None:
            findings.note(f"model({slug!r}) returns {type(known).__name__}, not a ModelInfo or None")


def _open(findings: Findings, provider: ModelProvider, info: ProviderInfo, env: dict[str, str]) -> ModelClient:
    try:
        client = findings.call("open()", lambda: provider.open(info, env), within_s=_OPEN_S, allowed=(ModelError,))
    except ModelError as error:
        text = f"open() refuses the table of the check ({error}. {error.hint}); give check_provider one that works"
        findings.note(text)
        raise Unmet from error
    if not findings.check_members(client, ModelClient):
        raise Unmet
    compacts = getattr(client, "compacts", False)
    findings.require(isinstance(compacts, bool), f"its client's compacts is {compacts!r}, not True or False")
    return client


def _check_options(findings: Findings, provider: ModelProvider, info: ProviderInfo, env: dict[str, str]) -> None:
    """Check that a misspelt key of the table is refused, and that the key for recording any provider is accepted."""
    try:
        provider.open(info.evolve(options={**info.options, _UNKNOWN: 1}), env)
    except ModelError as error:
        text = f"open() refuses the unknown key {_UNKNOWN!r} of its table with an error that does not name it: {error}"
        findings.require(_UNKNOWN in f"{error} {error.hint}", text)
    except Exception as error:  # whatever it raises is found by this
        findings.note(f"open() raises {described(error)} for an unknown key of its table, not ModelError")
    else:
        cure = "raise ModelError, with the keys that it has as the hint"
        findings.note(
            f"open() accepts the unknown key {_UNKNOWN!r} of its table, so a typing error has no effect: {cure}"
        )
    try:
        provider.open(info.evolve(options={**info.options, "record": "cassette.jsonl"}), env)
    except Exception as error:  # as above
        text = f"open() refuses the key `record`, with which the responses of any provider are recorded: {described(error)}"
        findings.note(text)


async def _responses(
    findings: Findings, provider: ModelProvider, info: ProviderInfo, env: dict[str, str], *, has_table: bool
) -> None:
    client = _open(findings, provider, info, env)
    if has_table:
        _check_options(findings, provider, info, env)
    try:
        await _check_preparing(findings, client)
        before = len(findings.violations)
        await _check_whole(findings, client, "a request", model_request())
        judge = (
            len(findings.violations) == before
        )  # otherwise each of the next responses would have the same violations
        await _check_whole(findings, client, "a request with calls and tools", _long_request(), judge=judge)
        await _check_overlapping(findings, client, judge=judge)
        await _check_early_close(findings, client)
        await _check_cancellation(findings, client)
        await _check_whole(findings, client, "a request after others were given up", model_request(), judge=judge)
    finally:
        await _check_second_close(findings, client)


async def _check_preparing(findings: Findings, client: ModelClient) -> None:
    """Check that preparing for requests has no visible effect."""
    prepare: Any = getattr(client, "prepare", None)
    if prepare is None:
        return

    async def whole() -> ModelRequest:
        return model_request()

    work = prepare(model_request(), whole)
    if not inspect.isawaitable(work):
        findings.note(f"its client's prepare() returns {type(work).__name__}, but it is awaited")
        return
    with contextlib.suppress(Unmet):
        await findings.wait_for("prepare() of its client", work, within_s=_RESPONSE_S)


def _long_request() -> ModelRequest:
    return model_request(
        "Look at \N{GREEK SMALL LETTER ALPHA}.",
        FunctionCall("look", '{"at": "a"}', "call-1"),
        FunctionCallOutput("call-1", "nothing\x00\ud7ff"),
        Message("assistant", (OutputText("There is nothing."),)),
        "Look again.",
        tools=_TOOLS,
        output_schema={"type": "object", "properties": {}, "additionalProperties": False},
        reasoning_effort="high",
    )


async def _check_whole(
    findings: Findings, client: ModelClient, what: str, request: ModelRequest, *, judge: bool = True
) -> list[ModelEvent]:
    """Return the events of a whole response, after checking them if ``judge`` is true.

    Raises:
        Unmet: The response is incomplete or breaks the contract.
    """
    try:
        events = await findings.wait_for(what, _read_all(client, request), within_s=_RESPONSE_S, allowed=(ModelError,))
    except ModelError as error:
        text = f"{what} fails with a ModelError ({error}); give check_provider a table and a server that answer"
        findings.note(text)
        raise Unmet from error
    if judge:
        check_events(findings, what, events, client)
    return events


async def _read_all(client: ModelClient, request: ModelRequest) -> list[ModelEvent]:
    return [event async for event in client.stream(request)]


async def _check_overlapping(findings: Findings, client: ModelClient, *, judge: bool) -> None:
    """Check overlapping requests, because threads share a client."""
    requests = [model_request(f"hello {number}", thread_id=f"thread-{number}") for number in range(3)]
    await asyncio.gather(
        *(_check_whole(findings, client, "one of three requests at once", one, judge=judge) for one in requests)
    )


async def _check_early_close(findings: Findings, client: ModelClient) -> None:
    stream = client.stream(model_request())
    close = getattr(stream, "aclose", None)
    if close is None:
        findings.note("the iterator of stream() has no aclose(): write stream() as an async generator")
        return
    await findings.wait_for("the first event", anext(stream), within_s=_RESPONSE_S)
    await findings.wait_for("aclose() of the iterator after the first event", close(), within_s=2.0)
    unused = client.stream(model_request())
    await findings.wait_for("aclose() of an iterator that was never asked", unused.aclose(), within_s=2.0)  # type: ignore[attr-defined]


async def _check_cancellation(findings: Findings, client: ModelClient) -> None:
    """Check the cancellation of a task that waits for an event: immediately, after a step of the loop, and within the stream."""
    for ticks in (0, 1, 3, 30):
        task = asyncio.ensure_future(_drain(client.stream(model_request())))
        for _ in range(ticks):
            await asyncio.sleep(0)
        await findings.cancel("a stream", task)


async def _drain(stream: AsyncIterator[ModelEvent]) -> None:
    try:
        async for _ in stream:
            await asyncio.sleep(0)
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


async def _check_unreachable(
    findings: Findings, provider: ModelProvider, info: ProviderInfo, env: dict[str, str]
) -> None:
    """Check an unreachable server. A provider that needs no address may answer."""
    table = info.evolve(base_url=_NOWHERE, request_max_retries=0, stream_max_retries=0, stream_idle_timeout_ms=2000)
    try:
        client = findings.call(
            "open() with a server that is not there",
            lambda: provider.open(table, env),
            within_s=_OPEN_S,
            allowed=(ModelError,),
        )
    except ModelError:
        return
    what = "a request to a server that is not there"
    await _check_preparing(findings, client)
    try:
        await findings.wait_for(what, _read_all(client, model_request()), within_s=_RESPONSE_S, allowed=(ModelError,))
    except ModelError as error:
        findings.require(str(error).strip(), f"{what} raises a ModelError without text")
        retry: Any = error.retryable
        findings.require(isinstance(retry, bool), f"{what} raises a ModelError whose retryable is {retry!r}")
    finally:
        await _check_second_close(findings, client)


async def _check_second_close(findings: Findings, client: ModelClient) -> None:
    with contextlib.suppress(Unmet):
        await findings.close_twice(client.aclose, within_s=5.0)
