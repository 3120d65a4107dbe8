"""Failures that servers with this API describe in words and codes of their own."""

from __future__ import annotations

from typing import Any

from codex_framework import ModelError
from codex_lib_model_client import error_objects
from codex_lib_model_client.faults import known_fault, plain_refusal

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


def recognised(status: int | None, code: str, message: str) -> ModelError | None:
    """Return the error for what servers say, or None if it means nothing special.

    Args:
        status: The status of the response. None if it came within a stream.
    """
    if status in (None, 400, 403, 413, 422, 500):
        said = f"{code} {message}".lower()
        if any(words in said for words in _TOO_LONG):
            return known_fault(None, "context_length_exceeded", "")
    known = known_fault(status, code, message)
    return plain_refusal(status, message, "/chat/completions", key_statuses=(401,)) if known is None else known


def error_of(error: Any) -> ModelError:
    """Return the error for an error object that came in place of a response, although the status was 200."""
    return error_objects.error_of(error, recognised)
