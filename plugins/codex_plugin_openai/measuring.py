"""What telemetry gets about requests: attempts, and the events of a response."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable

from codex_framework import ModelError
from codex_framework.contract.roles.models import Measure
from codex_plugin_openai.transport import Answer

__all__ = ["ResponseMeter", "attempted"]

_KIND = re.compile(r'"type"\s*:\s*"(response\.[a-z_.]+|error)"')
_KINDS, _MARKS = 50, 500
"""Most kinds and moments that are noted, whatever a server sends."""

_UNWANTED = "response.function_call_arguments.delta"


async def attempted(
    measure: Measure, attempt: int, send: Callable[[], Awaitable[Answer]], *, authorized: bool
) -> Answer:
    """Send a request, and report the attempt (``codex.api_request``).

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
        answer = await send()
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
    if data.startswith('{"type":'):
        kind = data[8:72].split('"', 2)[1:2]
        if kind and kind[0].startswith("response."):
            return kind[0]
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

    def heard(self, data: str) -> None:
        """Note an event by its data."""
        kind = _kind(data)
        if kind not in self._counts and len(self._counts) >= _KINDS:
            kind = "other"
        self._counts[kind] = self._counts.get(kind, 0) + 1
        if (kind != self._last or not kind.endswith(".delta")) and len(self._marks) < _MARKS:
            self._last = kind
            self._marks.append((kind, time.time()))

    def ended(self, unwanted: int, error: BaseException | None) -> None:
        """Report the events.

        Args:
            unwanted: Number of further deltas of function calls.
            error: What ended the stream. Only a ModelError is a failure; otherwise nobody wanted the rest.
        """
        if unwanted:
            self._counts[_UNWANTED] = self._counts.get(_UNWANTED, 0) + unwanted
        told: dict[str, str | int] = dict(self._counts)
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
            marks=tuple(self._marks),
        )
