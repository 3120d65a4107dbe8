"""Jobs and results as plain JSON data. Nothing is pickled: data of another process or a shared database must not run code here."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any, TypeVar

from codex_framework.contract.errors import CodexError
from codex_framework.contract.permissions.profile import additional_to_wire
from codex_framework.contract.protocol.events import Event, Request, RequestPermissionsEvent
from codex_framework.contract.protocol.policies import Decision, ReviewDecision
from codex_framework.contract.protocol.wire import WireError, encode_json, read, read_event, to_wire
from codex_framework.contract.roles.launchers import Job, JobFailure, JobResult, LaunchError, Workplace
from codex_framework.contract.roles.outcomes import Status
from codex_framework.contract.value import Value
from codex_framework.contract.version import __version__
from codex_framework.toolkit.answers import read_answer
from codex_framework.toolkit.strict_json import strict_json

__all__ = [
    "answer_to_json",
    "check_versions",
    "decode",
    "decode_value",
    "digest_of",
    "encode",
    "event_from_json",
    "event_to_json",
    "failure_of",
    "read_answer_json",
    "thread_id_of",
    "versions",
]

V = TypeVar("V", Job, JobResult, Workplace)

_NAMESPACE = uuid.UUID("6f1c5a0e-6f0c-5d43-9c0b-7a2f7f1d7a55")
_LONGEST_KEY = 200

_PASSING = {"thread-unsaved", "session-in-use"}
"""The slugs of errors of a thread store that can pass: it cannot be reached, or another worker still has the session."""


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
    except (ValueError, RecursionError) as error:
        raise _unreadable(kind, error) from error
    return decode_value(kind, raw)


def decode_value(kind: type[V], raw: Any) -> V:
    """Return the job, result or workplace of plain JSON data. Raises the same errors as :func:`decode`."""
    try:
        if not isinstance(raw, Mapping):
            raise ValueError("it is not an object")
        value = read(kind, raw)
        return value.evolve(status=Status(value.status)) if isinstance(value, JobResult) else value
    except (WireError, ValueError, RecursionError) as error:
        raise _unreadable(kind, error) from error


def _unreadable(kind: type[Any], error: Exception) -> LaunchError:
    fact = f"a {kind.__name__} cannot be read: {error}"
    return LaunchError(fact, hint="Driver and workers must have the same version of codex-framework.")


def event_to_json(event: Event) -> Mapping[str, Any]:
    """Return an event as plain JSON data."""
    found: Mapping[str, Any] = to_wire(event)
    return found


def event_from_json(raw: Mapping[str, Any]) -> Event:
    """Return the event of :func:`event_to_json`. An event that is unknown in this process is an ``UnknownEvent``.

    Raises:
        ValueError: It is no event.
    """
    match {"thread_id": "", "number": 0, **raw}:
        case {"id": str(origin), "msg": dict(msg), "thread_id": str(thread_id), "number": int(number)}:
            return Event(origin, read_event(msg), thread_id, number)
        case _:
            raise ValueError("this is no event")


def answer_to_json(answer: object) -> Any:
    """Return the answer to a request as plain JSON data, for :meth:`worker.Session.answer_json`."""
    if not isinstance(answer, ReviewDecision):
        return to_wire(answer)
    if answer.granted is not None:
        scope = "session" if answer.decision is Decision.APPROVED_FOR_SESSION else "turn"
        return {"permissions": additional_to_wire(answer.granted), "scope": scope}
    return {"decision": to_wire(answer), "message": answer.message}


def read_answer_json(request: Request[Any], raw: object) -> object:
    """Return the answer of :func:`answer_to_json` to a request. Raises ThreadError."""
    if isinstance(request, RequestPermissionsEvent) and isinstance(raw, Mapping) and "decision" in raw:
        raw = {"permissions": {}}  # no permissions: a denial
    return read_answer(request, raw)


def versions() -> Mapping[str, str]:
    """Return the versions that a worker has and that must be those of the program."""
    return {"codex-framework": __version__}


def check_versions(worker: Mapping[str, str], name: str) -> None:
    """Check that a worker has the version of codex-framework that this process has.

    Args:
        worker: The versions of the worker.
        name: The worker's name.

    Raises:
        LaunchError: It has another one.
    """
    other = worker.get("codex-framework")
    if other != __version__:
        fact = f"the worker {name} has codex-framework {other}, and this process has {__version__}"
        raise LaunchError(fact, slug="versions", hint="Install the same version everywhere.")


def failure_of(error: CodexError) -> JobFailure:
    """Return an error as the failure of a job. What the model server or the thread store cannot do now, it may do later."""
    return JobFailure(
        fact=error.fact,
        slug=error.slug,
        hint=error.hint,
        retryable=error.slug in _PASSING or bool(getattr(error, "retryable", False)),
        retry_after_s=getattr(error, "retry_after_s", None),
    )
