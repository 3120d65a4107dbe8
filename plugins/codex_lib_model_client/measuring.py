"""Telemetry about requests: attempts, and the events of a response."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from codex_framework.contract.errors import ModelError

if TYPE_CHECKING:
    from codex_framework.contract.roles.models import Measure
    from codex_lib_model_client.transport import Answer

__all__ = ["ResponseMeter", "measure_attempt"]

_KINDS, _MARKS = 50, 500
"""Maximum number of kinds and times that are recorded."""


async def measure_attempt(
    measure: Measure, attempt: int, sending: Awaitable[Answer], *, endpoint: str, authorized: bool
) -> Answer:
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
        "endpoint": endpoint,
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


class ResponseMeter:
    """Notes the events of one response, and reports them together at its end (``codex.sse_event``).

    The attributes are numbers of events by kind. The marks are the moments at which another kind began, because a message may
    have thousands of deltas.

    Args:
        kind_of: Returns the kind of an event, given its data.
        skipped: The kind of the events that the splitter skips.
        name: The name of the measurement.
    """

    def __init__(
        self,
        measure: Measure,
        kind_of: Callable[[str], str],
        skipped: str = "skipped",
        name: str = "codex.sse_event",
    ) -> None:
        self._name = name
        self._measure = measure
        self._kind_of = kind_of
        self._skipped = skipped
        self._began, self._started = time.time(), time.monotonic()
        self._counts: dict[str, int] = {}
        self._marks: list[tuple[str, float]] = []
        self._last = ""

    def note_events(self, events: Iterable[str]) -> None:
        """Note events that have arrived together, by their data."""
        now = time.time()
        kind_of, counts, marks, last = self._kind_of, self._counts, self._marks, self._last
        for data in events:
            kind = kind_of(data)
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

    def report(self, unwanted: int, error: BaseException | None) -> None:
        """Report the events.

        Args:
            unwanted: Number of skipped events.
            error: The exception that ended the stream. Only a ModelError is a failure; otherwise the rest was not needed.
        """
        if unwanted:
            self._counts[self._skipped] = self._counts.get(self._skipped, 0) + unwanted
        told: dict[str, str | int] = {**self._counts}
        failed = isinstance(error, ModelError)
        if failed:
            told["error.message"] = str(error)
        took = time.monotonic() - self._started
        self._measure(
            self._name,
            told,
            time_s=self._began,
            duration_s=took,
            failed=failed,
            marks=self._marks,
        )
