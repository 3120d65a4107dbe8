"""Failures that servers with this API describe in words and codes of their own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from codex_framework import ModelError
from codex_framework.toolkit.model_server.faults import broken_stream, failed_response, known_fault, plain_refusal

__all__ = ["error_of", "recognised"]

_TOO_LONG = (
    "context_length_exceeded",
    "exceed_context_size_error",
    "maximum context length",
    "context length of only",
    "exceeds the context window",
    "exceeds the available context size",
    "exceeds the maximum number of tokens",
    "exceeded model token limit",
    "input is too long",
    "prompt is too long",
    "prompt is longer than the model",
    "larger than the maximum context",
)
"""What servers say when a conversation is too long for the model, in lower case."""

_SHOWN = 200


def recognised(status: int | None, code: str, message: str) -> ModelError | None:
    """Return the error for what servers say, or None if it means nothing special.

    Args:
        status: The status of the response. None means that it came within a stream.
    """
    if status in (None, 400, 403, 413, 422, 500):
        said = f"{code} {message}".lower()
        if any(words in said for words in _TOO_LONG):
            return known_fault(None, "context_length_exceeded", "")
    known = known_fault(status, code, message)
    return plain_refusal(status, message, "/chat/completions", key_statuses=(401,)) if known is None else known


def error_of(error: Any) -> ModelError:
    """Return the error for an error object that came in place of a response, although the status was 200."""
    fields: Mapping[str, Any] = error if isinstance(error, Mapping) else {}
    message = str(fields.get("message") or fields.get("detail") or "")
    if not message:
        message = error if isinstance(error, str) else json.dumps(error, ensure_ascii=False)[:_SHOWN]
    code, kind = str(fields.get("code") or ""), str(fields.get("type") or "")
    if (known := recognised(None, code or kind, message)) is not None:
        return known
    if code.isdecimal() and len(code) < 4:
        return _by_status(int(code), message)
    if kind == "overloaded_error":
        return _by_status(503, message)
    if "rate_limit" in code or "rate_limit" in kind:
        return _by_status(429, message)
    for word, status in _STATUS_OF.items():
        if word in (code, kind):
            return _by_status(status, message)
    return failed_response({"error": {"code": code or kind, "message": message}})


_STATUS_OF = {
    "invalid_request_error": 400,
    "BadRequestError": 400,
    "invalid_api_key": 401,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
}


def _by_status(status: int, message: str) -> ModelError:
    if status == 429:
        return failed_response({"error": {"code": "rate_limit_exceeded", "message": message}})
    if status in (408, 409, 425) or status >= 500:
        return broken_stream(message, status)
    if status == 401:
        return ModelError(message, info="unauthorized", slug="unexpected-status", hint="Check the key of the provider.")
    return ModelError(message, info="bad_request", slug="not-found" if status == 404 else "bad-request")
