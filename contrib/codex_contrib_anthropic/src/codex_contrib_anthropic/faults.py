"""Failures that servers with this API describe in their own words and codes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from codex_framework import ModelError
from codex_lib_model_client.faults import behaviour_fault, broken_stream, failed_response, known_fault, plain_refusal

__all__ = ["FindingsRefusedError", "ThoughtsRefusedError", "error_of", "recognised"]


class ThoughtsRefusedError(ModelError):
    """The server refuses thoughts that it or another server sent before. A request without them succeeds."""


class FindingsRefusedError(ModelError):
    """The server refuses what its tools found before, or another server's tools. A request without it succeeds."""


_THOUGHTS = re.compile(
    r"`?signature`? in `?(?:redacted_)?thinking`? block|thinking`? blocks? .*cannot be modified|bound to a different"
)
"""Words of servers about thoughts with an invalid signature: from another account, or after a change of earlier items."""

_FINDINGS = re.compile(r"encrypted_(?:content|index)|web_search_(?:tool_)?result|server_tool_use|srvtoolu_|citations")
"""Words of servers that refuse blocks of their tools: from another account, or without a counterpart."""

_SEARCH = re.compile(r"web[_ ]search")
_IMAGES = (
    "could not process image",
    "image exceeds",
    "image dimensions exceed",
    "does not match the provided media type",
    "image cannot be empty",
    "image_dimensions_too_large",
    "unable to download the file",
)
"""Words of servers about an unsupported image, in lower case."""

_NO_CREDIT = ("credit balance is too low", "billing_error")
_SHOWN = 200

_STATUS_OF = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The statuses with which servers send the types of errors."""


def recognised(status: int | None, code: str, message: str) -> ModelError | None:
    """Return the error for a server's message, or None if it has no special meaning.

    Args:
        status: The status of the response. None within a stream.
        code: The type of the error.
    """
    said = f"{code} {message}".lower()
    if status == 400 and _THOUGHTS.search(said):
        return ThoughtsRefusedError(message, info="bad_request", slug="bad-request")
    if status == 400 and _FINDINGS.search(said):
        return FindingsRefusedError(message, info="bad_request", slug="bad-request")
    if status in (None, 400) and any(words in said for words in _IMAGES):
        return known_fault(None, "invalid_image", message)
    if status in (400, 403) and _SEARCH.search(said):
        hint = 'If the server has no search for this model, set web_search_tool = "none" for the model provider.'
        return ModelError(message, info="bad_request", slug="bad-request", hint=hint)
    if status in (None, 400, 402, 403) and any(words in said for words in _NO_CREDIT):
        return known_fault(None, "insufficient_quota", "")
    if status == 529 or code == "overloaded_error":
        fact = f"the model server is overloaded: {message or 'Overloaded'}"
        hint = "Try again later, or choose another model."
        return ModelError(fact, retryable=True, info="server_overloaded", slug="overloaded", hint=hint)
    return known_fault(status, code, message) or plain_refusal(status, message, "/messages")


def error_of(error: Any) -> ModelError:
    """Return the error for an error object that came in place of a response, although the status was 200."""
    fields: Mapping[str, Any] = error if isinstance(error, Mapping) else {}
    message = str(fields.get("message") or "")
    if not message:
        message = error if isinstance(error, str) else json.dumps(error, ensure_ascii=False)[:_SHOWN]
    code = str(fields.get("type") or fields.get("code") or "")
    if (known := behaviour_fault(None, code, message) or recognised(None, code, message)) is not None:
        return known
    status = _STATUS_OF.get(code)
    if status == 429:
        return failed_response({"error": {"code": "rate_limit_exceeded", "message": message}})
    if status is None or status >= 500:
        return broken_stream(message, status)
    if status in (401, 403):
        refused = plain_refusal(status, message, "/messages")
        assert refused is not None
        return refused
    return ModelError(message, info="bad_request", slug="not-found" if status == 404 else "bad-request")
