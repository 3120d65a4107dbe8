"""The check of model providers with a server that fails in many ways."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from codex_framework.contract.errors import ModelError
from codex_framework.contract.protocol.items import CustomToolCall, FunctionCall, Message, ResponseItem, message_text
from codex_framework.contract.roles.models import Completed, ItemDone, ModelProvider, ProviderInfo
from codex_framework.contract.value import Value
from codex_framework.testing.conformance.findings import Findings, Unmet, run_check
from codex_framework.testing.replies import call, fault, say
from codex_framework.testing.requests import model_request
from codex_framework.testing.scripted import Reply
from codex_framework.testing.server import ModelServer
from codex_framework.testing.wire import Wire

__all__ = ["check_faults"]

_SILENCE_MS = 400
_END_S = 10.0
"""Time limit in seconds for one response, which is far more than any takes that notices the server's silence."""

_SAID = say("I look at it.", deltas=4) + call("look", at="a", call_id="call-a") + call("look", at="b", call_id="call-b")
_PAGE = "<!doctype html><html><body><h1>Please sign in</h1></body></html>"
_ERROR = {"error": {"message": "It is broken.", "type": "server_error", "code": "broken"}}


class Case(Value):
    """One failure.

    Attributes:
        what: A description of the failure.
        reply: Its reply.
        whole: Whether the response must be complete. None allows both.
        retryable: The required value of the error. None allows both.
        retry_after_s: The delay that the error must have.
        first: Whether the other cases are skipped if this one fails.
        waits: Whether it is checked at the same time as others, because most of its time is waiting.
    """

    what: str
    reply: Reply
    whole: bool | None = False
    retryable: bool | None = None
    retry_after_s: float | None = None
    first: bool = False
    waits: bool = False


def check_faults(
    findings: Findings, provider: ModelProvider, info: ProviderInfo, env: Mapping[str, str], wire: Wire
) -> None:
    """Check that each failure of a server ends in a complete response or a ``ModelError``, in time, with no item twice."""
    before = len(findings.violations)
    info = info.evolve(request_max_retries=0, stream_idle_timeout_ms=_SILENCE_MS, response_timeout_ms=_SILENCE_MS)

    async def check(case: Case) -> None:
        with ModelServer([case.reply], repeat_last=True, wires=[wire]) as server:
            await _check(findings, provider, info.evolve(base_url=server.url), dict(env), case)

    async def check_all(cases: Sequence[Case]) -> None:
        await asyncio.gather(*map(check, cases))

    cases = [*_cases(len(wire.events(_SAID, 1)))]
    waiting = [case for case in cases if case.waits]
    for together in (*([case] for case in cases if not case.waits), waiting):
        run_check(findings, partial(check_all, together))
        if together[0].first and len(findings.violations) > before:
            return  # otherwise each of the other cases would find the same


def _cases(events: int) -> Iterator[Case]:
    """Yield the failures of a response with so many events."""
    yield Case("answers", _SAID, whole=True, first=True)
    yield Case("sends one byte at a time", _SAID + fault(piece_bytes=1), whole=True)
    yield Case("sends pieces of 7 bytes", _SAID + fault(piece_bytes=7), whole=True)
    slowly = _SAID.evolve(delta_delay_s=_SILENCE_MS / 3000)
    yield Case("pauses before each event, but is never silent for long", slowly, whole=True, waits=True)
    yield Case("repeats the last event", _SAID + fault(duplicates=[events - 1]), whole=True)
    yield Case("sends comments", _SAID + fault(raw_before=": ping\n\n:\n\n"), whole=True)
    yield Case("names the type text/plain", _SAID.evolve(headers={"content-type": "text/plain"}), whole=None)
    yield Case("sends items out of order", _SAID + fault(out_of_order=True), whole=None)
    yield Case(
        "never ends the response", _SAID + fault(no_completed=True).evolve(usage=None), whole=False, retryable=True
    )
    for number in range(0, events, 3):
        yield Case(f"cuts event {number} in half", _SAID + fault(garbled=[number]), whole=None)
        yield Case(f"breaks off after {number} events", _SAID + fault(after=number), whole=None, retryable=True)
        yield Case(f"resets after {number} events", _SAID + fault(after=number, reset=True), whole=None, retryable=True)
    for count in (0, 1, 90, 333, 700):
        yield Case(f"breaks off after {count} bytes", _SAID + fault(cut_at=count), whole=None, retryable=True)
    yield Case("falls silent", _SAID + fault(after=2, hang_s=30), retryable=True, waits=True)
    yield Case("never answers", _SAID + fault(hang_s=30), retryable=True, waits=True)
    for status in (500, 502, 503, 504):
        yield Case(f"answers {status}", fault(status, body=_PAGE), retryable=True)
    yield Case(
        "answers 429 with retry-after", fault(429, headers={"retry-after": "7"}), retryable=True, retry_after_s=7.0
    )
    yield Case("answers 429", fault(429, body={"error": {"message": "Too many requests."}}))
    yield Case("answers 400", fault(400, body={"error": {"message": "No such field."}}), retryable=False)
    yield Case("answers 401", fault(401, body={"error": {"message": "Wrong key."}}), retryable=False)
    yield Case("answers 404 with a web page", fault(404, body=_PAGE), retryable=False)
    yield Case("answers 200 with a web page", fault(200, headers={"content-type": "text/html"}, body=_PAGE))
    yield Case("answers 200 with an error", fault(200, body=_ERROR))
    yield Case("answers 200 with nothing", fault(200, body=""))
    yield Case("answers 200 with bytes that are no text", fault(200, body="\x00\x07{[}"))


async def _check(
    findings: Findings, provider: ModelProvider, info: ProviderInfo, env: dict[str, str], case: Case
) -> None:
    what = f"a request to a server that {case.what}"
    client = provider.open(info, env)
    done: list[ResponseItem] = []
    ended: list[Completed] = []

    async def read() -> None:
        async for event in client.stream(model_request("Look.")):
            if isinstance(event, ItemDone):
                done.append(event.item)
            elif isinstance(event, Completed):
                ended.append(event)

    error: ModelError | None = None
    try:
        await findings.wait_for(what, read(), within_s=_END_S, allowed=(ModelError,))
    except ModelError as failure:
        error = failure
    except Unmet:
        return
    finally:
        await client.aclose()
    expected = _essence(_SAID.items)
    found = _essence(done)
    twice = [one for one in found if found.count(one) > 1]
    findings.require(not twice, f"{what} yields an item twice: {', '.join(map(str, twice[:1]))}")
    foreign = [one for one in found if one not in expected]
    if error is None:
        findings.require(len(ended) == 1, f"{what} ends with neither Completed nor a ModelError")
        findings.require(case.whole is not False, f"{what} counts as a complete response")
        findings.require(
            sorted(found) == sorted(expected), f"{what} completes with other items: {found} instead of {expected}"
        )
        return
    cure = ". A wire whose API has no comments ignores `raw_before`" if "comments" in case.what else ""
    findings.require(case.whole is not True, f"{what} fails ({error}), although nothing is missing{cure}")
    findings.require(not foreign, f"{what} yields an item that the server did not send: {foreign[:1]}")
    findings.require(str(error).strip(), f"{what} raises a ModelError without text")
    right = case.retryable is None or error.retryable is case.retryable
    findings.require(right, f"{what} raises a ModelError whose retryable is {error.retryable}: {error}")
    right = case.retry_after_s is None or error.retry_after_s == case.retry_after_s
    findings.require(right, f"{what} raises a ModelError whose retry_after_s is {error.retry_after_s}")


def _essence(items: list[ResponseItem] | tuple[ResponseItem, ...]) -> list[tuple[str, str]]:
    """Return the parts that must be equal in every API."""
    essence: list[tuple[str, str]] = []
    for item in items:
        match item:
            case Message():
                essence.append(("message", message_text(item)))
            case FunctionCall(arguments=arguments):
                essence.append(("call", _sort_keys(arguments)))
            case CustomToolCall(input=text):
                essence.append(("call", text))
            case _:
                pass
    return essence


def _sort_keys(arguments: str) -> str:
    try:
        value: Any = json.loads(arguments)
    except ValueError:
        return arguments
    return json.dumps(value, sort_keys=True)
