"""Error objects that came in place of a response, although its status was 200."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from codex_framework.contract.errors import ModelError
from codex_lib_model_client.faults import KnownFault, behaviour_fault, broken_stream, failed_response, known_fault

__all__ = ["error_of"]

_SHOWN = 200

_STATUS_OF = {
    "invalid_request_error": 400,
    "BadRequestError": 400,
    "invalid_api_key": 401,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
}


def error_of(error: Any, known: KnownFault = known_fault) -> ModelError:
    """Return the error for an error object: as for the status of the same meaning.

    Args:
        error: The object, or any other value in its place.
        known: Recognises what servers with this API say.
    """
    fields: Mapping[str, Any] = error if isinstance(error, Mapping) else {}
    message = str(fields.get("message") or fields.get("detail") or "")
    if not message:
        message = error if isinstance(error, str) else json.dumps(error, ensure_ascii=False)[:_SHOWN]
    code, kind = str(fields.get("code") or ""), str(fields.get("type") or "")
    if (found := behaviour_fault(None, f"{code} {kind}", message) or known(None, code or kind, message)) is not None:
        return found
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


def _by_status(status: int, message: str) -> ModelError:
    if status == 429:
        return failed_response({"error": {"code": "rate_limit_exceeded", "message": message}})
    if status in (408, 409, 425) or status >= 500:
        return broken_stream(message, status)
    if status == 401:
        return ModelError(message, info="unauthorized", slug="unexpected-status", hint="Check the key of the provider.")
    return ModelError(message, info="bad_request", slug="not-found" if status == 404 else "bad-request")
