"""What goes through the database, as JSON text. Nothing is pickled: whoever can write into the database must not run code here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from codex_framework.contract.permissions.profile import additional_from_wire, additional_to_wire
from codex_framework.contract.protocol.events import Event, Request
from codex_framework.contract.protocol.policies import ReviewDecision
from codex_framework.contract.protocol.wire import encode_json, read, read_event, to_wire
from codex_framework.contract.roles.launchers import LaunchError
from codex_framework.toolkit.strict_json import strict_json

__all__ = ["FORMAT", "answer_to_json", "decode_events", "encode_events", "json_of", "read_answer", "refuse_pickle"]

FORMAT = "portable_json"
"""The serialization in DBOS's tables that is read and written here."""


def refuse_pickle() -> None:
    """Have DBOS refuse pickled data in this process.

    DBOS unpickles whatever a row of the database says is pickled, also if another serializer is configured.
    """
    from dbos._serialization import DefaultSerializer

    def refuse(_serializer: object, _data: object) -> Any:
        raise ValueError("pickled data in the database is refused: only JSON is read")

    DefaultSerializer.deserialize = refuse  # type: ignore[method-assign,assignment]


def json_of(text: str | None, serialization: str | None) -> Any:
    """Return the data of a value in one of DBOS's tables.

    Raises:
        LaunchError: It is not JSON.
    """
    try:
        if serialization != FORMAT or text is None:
            raise ValueError(f"its format is {serialization!r}")
        return strict_json(text)
    except (ValueError, RecursionError) as error:
        hint = f"Only {FORMAT} is read. Another program has written into the database, or deletes from it."
        raise LaunchError(f"a value in the database cannot be read: {error}", hint=hint) from error


def encode_events(events: Sequence[Event]) -> str:
    """Return events as a JSON list."""
    return f"[{','.join(encode_json(event) for event in events)}]"


def decode_events(raw: Any) -> list[Event]:
    """Return the events of a JSON list. An event of an unknown kind is an ``UnknownEvent``."""
    return [
        Event(str(each["id"]), read_event(each["msg"]), each.get("thread_id", ""), each.get("number", 0))
        for each in raw
    ]


def answer_to_json(answer: object) -> Any:
    """Return an answer as JSON data."""
    if not isinstance(answer, ReviewDecision):
        return to_wire(answer)
    granted = additional_to_wire(answer.granted)
    return {"decision": to_wire(answer), "message": answer.message, "granted": granted}


def read_answer(request: Request[Any], raw: Any) -> Any:
    """Return the answer to a request. Raises WireError if the data do not fit."""
    if request.answer_type is not ReviewDecision:
        return read(request.answer_type, raw)
    granted = raw.get("granted")
    return read(ReviewDecision, raw["decision"]).evolve(
        message=raw.get("message"), granted=None if granted is None else additional_from_wire(granted)
    )
