"""Jobs and results as plain JSON data. Nothing is pickled: data of another process or a shared database must not run code here."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any, TypeVar

from codex_framework.contract.errors import CodexError
from codex_framework.contract.protocol.wire import WireError, encode_json, read, to_wire
from codex_framework.contract.roles.launchers import Job, JobResult, LaunchError, Workplace
from codex_framework.contract.value import Value
from codex_framework.toolkit.strict_json import strict_json

__all__ = ["decode", "digest_of", "encode", "failure_of", "thread_id_of"]

V = TypeVar("V", Job, JobResult, Workplace)

_NAMESPACE = uuid.UUID("6f1c5a0e-6f0c-5d43-9c0b-7a2f7f1d7a55")
_LONGEST_KEY = 200


def thread_id_of(key: str) -> str:
    """Return the id of the thread of a job: a UUID of version 5 (RFC 9562).

    Raises:
        LaunchError: The key is not 1 to 200 printable characters.
    """
    if not 0 < len(key) <= _LONGEST_KEY or not key.isprintable():
        fact = f"the key {key[:40]!r} does not have 1 to {_LONGEST_KEY} printable characters"
        raise LaunchError(fact, slug="bad-request", hint="Give the job another key.")
    return str(uuid.uuid5(_NAMESPACE, key))


def digest_of(job: Job) -> str:
    """Return a hash of what a job asks for. Two jobs with one key must have the same."""
    import hashlib

    asked = json.dumps([job.agent, job.prompt, to_wire(job.config)], ensure_ascii=True, sort_keys=True)
    return hashlib.sha256(asked.encode()).hexdigest()


def encode(value: Value) -> str:
    """Return a job, a result or a workplace as compact JSON. Raises ValueError and TypeError for what is no JSON data."""
    text = encode_json(value)
    strict_json(text)  # NaN and the like would be refused by the reader
    return text


def decode(kind: type[V], text: str | bytes) -> V:
    """Return the job, result or workplace of a JSON text. Fields that a newer version has added are ignored.

    Raises:
        LaunchError: It is not JSON, or a field is missing or has the wrong type.
    """
    try:
        raw = strict_json(text if isinstance(text, str) else text.decode("utf-8"))
        if not isinstance(raw, Mapping):
            raise ValueError("it is not an object")
        return read(kind, raw)
    except (WireError, ValueError, RecursionError) as error:
        fact = f"a {kind.__name__} cannot be read: {error}"
        hint = "Driver and workers must have the same version of codex-framework."
        raise LaunchError(fact, hint=hint) from error


def failure_of(error: CodexError, **more: Any) -> dict[str, Any]:
    """Return the fields of a ``JobFailure`` for an error."""
    return {
        "fact": error.fact,
        "slug": error.slug,
        "hint": error.hint,
        "retryable": bool(getattr(error, "retryable", False)),
        "retry_after_s": getattr(error, "retry_after_s", None),
        **more,
    }
