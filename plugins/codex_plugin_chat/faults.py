"""Failures that servers with this API describe in their own words and codes."""

from __future__ import annotations

from typing import Any

from codex_framework import ModelError
from codex_lib_model_client import error_objects
from codex_lib_model_client.faults import known_fault, plain_refusal

__all__ = ["error_of", "recognised"]


def recognised(status: int | None, code: str, message: str) -> ModelError | None:
    """Return the error for what servers say, or None if it means nothing special.

    Args:
        status: The status of the response. None if it came within a stream.
    """
    known = known_fault(status, code, message)
    return plain_refusal(status, message, "/chat/completions", key_statuses=(401,)) if known is None else known


def error_of(error: Any) -> ModelError:
    """Return the error for an error object that came in place of a response, although the status was 200."""
    return error_objects.error_of(error, recognised)
