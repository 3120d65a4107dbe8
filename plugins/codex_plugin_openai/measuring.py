"""What telemetry gets about requests: attempts, and the events of a response."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Iterable

from codex_framework import ModelError
from codex_framework.contract.roles.models import Measure
from codex_plugin_openai.transport import Answer

__all__ = ["ResponseMeter", "attempted"]

_KIND = re.compile(r'"type"\s*:\s*"(response\.[a-z_.]+|error)"')
_KINDS, _MARKS = 50, 500
"""Most kinds and moments that are noted, whatever a server sends."""

_BEGINNING = '{"type":"response.'
_BEFORE = len('{"type":"')
_LONGEST_KIND = 72

_UNWANTED = "response.function_call_arguments.delta"


async def attempted(measure: Measure, attempt: int, sending: Awaitable[Answer], *, authorized: bool) -> Answer:
    """Wait for the answer to a request, and report the attempt (``codex.api_request``).

    Args:
        attempt: Its number, from 0.
        authorized: Whether it has an ``authorization`` header.

    Raises:
        ModelError: No answer came.
    """
    began, started = time.time(), time.monotonic()
    told: dict[str, str | int | bool] = {
        "attempt": attempt,
        "endpoint": "/responses",
        "auth.header_attached": authorized,
        "auth.retry_after_unauthorized": False,
    }
    if authorized:
        told["auth.header_name"] = "authorization"
    failed = True
    try:
        answer = await sending
        told["http.response.status_code"] = answer.status
        failed = answer.status >= 300
        if failed:
            told["error.message"] = f"http {answer.status}"
        if request_id := answer.headers.get("x-request-id"):
            told["auth.request_id"] = request_id
        if ray := answer.headers.get("cf-ray"):
            told["auth.cf_ray"] = ray
        return answer
    except ModelError as error:
        told["error.message"] = str(error)
        raise
    finally:
        took = time.monotonic() - started
        measure("codex.api_request", told, time_s=began, duration_s=took, failed=failed)


def _kind(data: str) -> str:
    """Return the type of an event. Servers write it first, so that most events need not be searched."""
    if data.startswith(_BEGINNING):
        end = data.find('"', _BEFORE, _LONGEST_KIND)
        if end > 0:
            return data[_BEFORE:end]
    match = _KIND.search(data)
    return "unknown" if match is None else match[1]


class ResponseMeter:
    """Notes the events of one response, and reports them together at its end (``codex.sse_event``).

    The attributes are numbers of events by kind. The marks are the moments at which another kind began, because a message may have
    thousands of deltas.
    """

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self._began, self._started = time.time(), time.monotonic()
        self._counts: dict[str, int] = {}
        self._marks: list[tuple[str, float]] = []
        self._last = ""

    def heard(self, events: Iterable[str]) -> None:
        """Note events that have arrived together, by their data."""
        now = time.time()
        counts, marks, last = self._counts, self._marks, self._last
        for data in events:
            kind = _kind(data)
            if kind in counts:
                counts[kind] += 1
                if kind == last and kind.endswith(".delta"):
                    continue
            else:
                if len(counts) >= _KINDS:
                    kind = "other"
                counts[kind] = counts.get(kind, 0) + 1
            if len(marks) < _MARKS:
                last = kind
                marks.append((kind, now))
        self._last = last

    def ended(self, unwanted: int, error: BaseException | None) -> None:
        """Report the events.

        Args:
            unwanted: Number of further deltas of function calls.
            error: What ended the stream. Only a ModelError is a failure; otherwise nobody wanted the rest.
        """
        if unwanted:
            self._counts[_UNWANTED] = self._counts.get(_UNWANTED, 0) + unwanted
        told: dict[str, str | int] = {**self._counts}
        failed = isinstance(error, ModelError)
        if failed:
            told["error.message"] = str(error)
        took = time.monotonic() - self._started
        self._measure(
            "codex.sse_event",
            told,
            time_s=self._began,
            duration_s=took,
            failed=failed,
            marks=self._marks,
        )
