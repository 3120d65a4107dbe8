"""Numbers and values of a server that mean nothing: they are ignored, and what else the server says is used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from codex_framework import ModelError
from codex_framework.contract.roles.models import RateLimits
from codex_lib_model_client.faults import failed_response, retry_after, status_error
from codex_plugin_openai.rate_limits import event_limits, rate_limits

LONG = "9" * 400


def short(value: object) -> str:
    return str(value)[:12]


def refused(status: int, body: bytes | Mapping[str, Any]) -> ModelError:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    return status_error(status, "No", {}, sent, "http://host/v1/responses")


@pytest.mark.parametrize("delay", ["999999999s", f"{LONG}s", f"{LONG}ms", "86400s", "86400 seconds"], ids=short)
@pytest.mark.parametrize("code", ["rate_limit_exceeded", "server_error"])
def test_a_delay_of_a_day_or_more_within_a_stream_is_ignored(code: str, delay: str) -> None:
    error = failed_response({"error": {"code": code, "message": f"Please try again in {delay}."}})
    assert (error.retryable, error.retry_after_s) == (True, None)


@pytest.mark.parametrize(
    "date",
    [
        f"Fri, 31 Dec {'9' * 20} 23:59:59 GMT",
        f"Fri, 31 Dec 2026 {'9' * 20}:59:59 GMT",
        f"Fri, {'9' * 20} Dec 2026 23:59:59 GMT",
        f"Fri, 31 Dec 2026 23:59:59 +{'9' * 20}",
    ],
)
def test_a_date_outside_of_the_calendar_is_no_delay(date: str) -> None:
    assert retry_after({"retry-after": date}) is None


def test_a_body_that_is_nested_too_deeply_is_text() -> None:
    error = refused(400, b"[" * 60_000)
    assert (error.slug, error.fact) == ("bad-request", "[" * 4000 + "...")


@pytest.mark.parametrize("kind", [["x"], {"x": 1}, None, 7])
def test_a_kind_that_is_no_text_is_unknown(kind: Any) -> None:
    for error in ({"type": kind}, {"code": kind}):
        assert refused(429, {"error": error}).fact == "exceeded retry limit, last status: 429 Too Many Requests"


@pytest.mark.parametrize("moment", ["1e20", "-1e20", "NaN", "Infinity", LONG, '"soon"'], ids=short)
def test_a_moment_outside_of_the_calendar_is_not_named(moment: str) -> None:
    body = f'{{"error":{{"type":"usage_limit_reached","resets_at":{moment}}}}}'.encode()
    error = refused(429, body)
    assert error.fact == "You\u2019ve hit your usage limit. Try again later."


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e300", "1e15", LONG, "?", ""], ids=short)
def test_headers_with_numbers_that_cannot_be_shown_are_left_out(number: str) -> None:
    assert rate_limits({"x-codex-primary-used-percent": number}) is None
    headers = {
        "x-codex-primary-used-percent": "5",
        "x-codex-primary-window-minutes": number,
        "x-codex-primary-reset-at": number,
    }
    assert rate_limits(headers) == RateLimits({"limit_id": "codex", "primary": {"used_percent": 5.0}})


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e300", "1e15", LONG, f"-{LONG}", '"5"', "null"], ids=short)
def test_an_event_with_numbers_that_cannot_be_shown_is_left_out(number: str) -> None:
    assert event_limits(json.loads(f'{{"rate_limits":{{"primary":{{"used_percent":{number}}}}}}}')) is None
    window = f'{{"used_percent":5,"window_minutes":{number},"reset_at":{number}}}'
    limits = event_limits(json.loads(f'{{"rate_limits":{{"secondary":{window}}}}}'))
    assert limits == RateLimits({"limit_id": "codex", "secondary": {"used_percent": 5.0}})
