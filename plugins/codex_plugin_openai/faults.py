"""Failures of requests and responses as ``ModelError``, with their texts and whether a retry can help.

The texts are those of Codex 0.169, because clients and users' scripts know them. So there is no hint beside a message
of the server.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import Any

from codex_framework import ModelError

__all__ = ["broken_stream", "failed_response", "incomplete_response", "retry_after", "status_error", "unreachable"]

_BODY_LIMIT = 1000
"""Maximum number of characters shown of a body that is not an error object."""

_DELAY = r"(?i)try again in (\d+(?:\.\d+)?)\s*(ms|s|seconds?)"

CONTEXT_EXCEEDED = (
    "Codex ran out of room in the model's context window. Start a new thread or clear earlier history before retrying."
)
QUOTA = "Quota exceeded. Check your plan and billing details."
OVERLOADED = "Selected model is at capacity. Please try a different model."
HIGH_DEMAND = "We\u2019re currently experiencing high demand, which may cause temporary errors."
NOT_INCLUDED = "To use Codex with your ChatGPT plan, upgrade to Plus: https://chatgpt.com/explore/plus."
"""For the error code ``usage_not_included``."""


def broken_stream(reason: str, status: int | None = None) -> ModelError:
    """Return the error for a response that broke off."""
    return ModelError(
        f"stream disconnected before completion: {reason}",
        retryable=True,
        info={"response_stream_disconnected": {"http_status_code": status}},
        slug="stream-disconnected",
    )


def unreachable(url: str, reason: str) -> ModelError:
    """Return the error for a connection that failed before a response arrived."""
    return ModelError(
        f"Connection failed: error sending request for url ({url}): {reason}",
        retryable=True,
        info={"http_connection_failed": {"http_status_code": None}},
        slug="unreachable",
        hint="Check base_url of the model provider, the network, and whether the server runs.",
    )


def incomplete_response(response: Mapping[str, Any]) -> ModelError:
    """Return the error for a ``response.incomplete`` event."""
    details = response.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, Mapping) else None
    return ModelError(f"Incomplete response returned, reason: {reason or 'unknown'}", slug="incomplete")


def failed_response(response: Mapping[str, Any]) -> ModelError:
    """Return the error for a ``response.failed`` or ``error`` event."""
    error = response.get("error")
    error = error if isinstance(error, Mapping) else {}
    code, message = str(error.get("code") or ""), str(error.get("message") or "")
    known = _by_code(code, message)
    if known is not None:
        return known
    delay = _asked_delay(message)
    if code == "rate_limit_exceeded":
        return ModelError(
            f"rate limit exceeded: {message}",
            retryable=True,
            retry_after_s=delay,
            info={"response_stream_disconnected": {"http_status_code": None}},
            slug="rate-limit",
        )
    failed = broken_stream(message or code or "response.failed event received")
    failed.retry_after_s = delay
    return failed


def status_error(status: int, phrase: str, headers: Mapping[str, str], body: bytes, url: str) -> ModelError:
    """Return the error for an HTTP response with an error status."""
    text = body.decode("utf-8", "replace").strip()
    error = _error_object(text)
    code, message = str(error.get("code") or error.get("type") or ""), str(error.get("message") or "")
    if status == 429:
        return _too_many(phrase, headers, error)
    known = _by_code(code, message)
    if known is not None and status in (400, 403, 503):
        return known
    if status == 400:
        return ModelError(
            text or "the server refused the request (400 Bad Request)", info="bad_request", slug="bad-request"
        )
    if status == 404 and message:
        return ModelError(message, info="bad_request", slug="not-found")
    if status == 500:
        return ModelError(
            HIGH_DEMAND,
            retryable=True,
            retry_after_s=retry_after(headers),
            info="internal_server_error",
            slug="server-error",
        )
    return _unexpected(status, phrase, headers, message or text, url)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the delay that the server requests, in seconds, or None if it requests none.

    It is in the header ``retry-after-ms``, or in ``retry-after`` as seconds or a date.
    """
    milliseconds = headers.get("retry-after-ms")
    if milliseconds is not None:
        return _seconds(milliseconds, 0.001)
    value = headers.get("retry-after")
    if value is None:
        return None
    seconds = _seconds(value, 1.0)
    if seconds is not None:
        return seconds
    from email.utils import parsedate_to_datetime

    try:
        return max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except ValueError:  # neither a number nor a date: ignored
        return None


def _seconds(value: str, unit: float) -> float | None:
    try:
        seconds = float(value) * unit
    except ValueError:
        return None
    return seconds if 0 <= seconds < 86_400 else None


def _by_code(code: str, message: str) -> ModelError | None:
    """Return the error for a code that has the same meaning everywhere and that a retry does not fix; None for other codes."""
    match code:
        case "context_length_exceeded":
            return ModelError(CONTEXT_EXCEEDED, info="context_window_exceeded", slug="context-window")
        case "insufficient_quota":
            return ModelError(QUOTA, info="usage_limit_exceeded", slug="quota")
        case "usage_not_included":
            return ModelError(NOT_INCLUDED, info="usage_limit_exceeded", slug="usage-limit")
        case "cyber_policy":
            return ModelError(
                message or "the request was refused (cyber_policy)", info="cyber_policy", slug="cyber-policy"
            )
        case "invalid_prompt":
            return ModelError(
                message or "the request was refused (invalid_prompt)", info="bad_request", slug="bad-request"
            )
        case "server_is_overloaded" | "slow_down":
            return ModelError(OVERLOADED, info="server_overloaded", slug="overloaded")
        case _:
            return None


def _too_many(phrase: str, headers: Mapping[str, str], error: Mapping[str, Any]) -> ModelError:
    kinds = {error.get("type"), error.get("code")}
    if "usage_limit_reached" in kinds:
        return ModelError(_usage_limit(error), info="usage_limit_exceeded", slug="usage-limit")
    for kind in ("insufficient_quota", "usage_not_included"):
        if kind in kinds:
            known = _by_code(kind, "")
            assert known is not None
            return known
    delay = retry_after(headers)
    request_id = headers.get("x-request-id")
    request_note = f", request id: {request_id}" if request_id else ""
    return ModelError(
        f"exceeded retry limit, last status: 429 {phrase}".rstrip() + request_note,
        retryable=delay is not None,
        retry_after_s=delay,
        info={"response_too_many_failed_attempts": {"http_status_code": 429}},
        slug="rate-limit",
    )


def _usage_limit(error: Mapping[str, Any]) -> str:
    resets_at = error.get("resets_at")
    moment = float(resets_at) if isinstance(resets_at, (int, float)) else None
    return _usage_limit_text(str(error.get("plan_type") or ""), moment)


def _usage_limit_text(plan: str, moment: float | None) -> str:
    when = "try again later." if moment is None else f"try again at {_clock(moment)}."
    start = "You\u2019ve hit your usage limit."
    match plan:
        case "plus":
            return (
                f"{start} Upgrade to Pro (https://chatgpt.com/explore/pro), visit"
                f" https://chatgpt.com/settings/usage to purchase more credits or {when}"
            )
        case "free":
            return f"{start} Upgrade to Plus to continue using Codex (https://chatgpt.com/explore/plus), or {when}"
        case "pro":
            return f"{start} Visit https://chatgpt.com/settings/usage to purchase more credits or {when}"
        case _:
            return f"{start} {when[0].upper()}{when[1:]}"


def _clock(moment: float) -> str:
    """Format a local time: ``3:04 PM`` for today, ``Nov 21st, 2026 3:04 PM`` for another day."""
    local, today = time.localtime(moment), time.localtime()
    clock = time.strftime("%I:%M %p", local).lstrip("0")
    if local[:3] == today[:3]:
        return clock
    day = local.tm_mday
    ending = "th" if 10 <= day % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return time.strftime(f"%b {day}{ending}, %Y ", local) + clock


def _unexpected(status: int, phrase: str, headers: Mapping[str, str], text: str, url: str) -> ModelError:
    parts = [
        f"unexpected status {status} {phrase}".rstrip() + f": {text[:_BODY_LIMIT] or 'Unknown error'}",
        f"url: {url}",
    ]
    for header, label in (("cf-ray", "cf-ray"), ("x-request-id", "request id")):
        if header in headers:
            parts.append(f"{label}: {headers[header]}")
    info: str | dict[str, Any] = (
        "unauthorized" if status == 401 else {"http_connection_failed": {"http_status_code": status}}
    )
    return ModelError(
        ", ".join(parts),
        # A retry can only help for these. Other requests would be refused again. (Codex also retries 401 and 403.)
        retryable=status >= 500 or status in (408, 409, 425),
        retry_after_s=retry_after(headers),
        info=info,
        slug="unexpected-status",
    )


def _error_object(text: str) -> Mapping[str, Any]:
    try:
        body = json.loads(text)
    except ValueError:
        return {}
    error = body.get("error") if isinstance(body, dict) else None
    if isinstance(error, str):
        return {"message": error}
    return error if isinstance(error, dict) else {}


def _asked_delay(message: str) -> float | None:
    match = re.search(_DELAY, message)
    if match is None:
        return None
    return float(match[1]) * (0.001 if match[2].lower() == "ms" else 1.0)
