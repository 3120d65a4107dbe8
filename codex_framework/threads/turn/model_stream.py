"""The stream of a model: its opening, checks of a provider's events and errors, and the wait before a retry."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from codex_framework.contract.errors import ModelError
from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.contract.protocol.items import (
    CustomToolCall,
    FunctionCall,
    InputText,
    Message,
    OutputText,
    Reasoning,
    UnknownItem,
)
from codex_framework.contract.roles.models import Completed, ModelClient, ModelEvent, ModelRequest
from codex_framework.threads.faults import ITEMS, WrongValue, kind_of

if TYPE_CHECKING:
    from codex_framework.threads.turn.scope import TurnScope

__all__ = [
    "check_fields",
    "check_item",
    "check_limits",
    "check_text",
    "check_usage",
    "delay_of",
    "info_of",
    "jitter",
    "open_stream",
    "refuse_event",
]

_LONGEST_DELAY_S = 86_400.0
"""No delay is this long, in seconds."""


def open_stream(client: ModelClient, request: ModelRequest) -> AsyncIterator[ModelEvent]:
    """Begin a response.

    Raises:
        WrongValue: The client returned something that cannot be iterated over.
    """
    stream: Any = client.stream(request)
    if not hasattr(stream, "__aiter__"):
        if inspect.iscoroutine(stream):
            stream.close()
        hint = "Write `async def stream(self, request)` with `yield` for each event."
        raise WrongValue(f"it returned {kind_of(stream)}, not an async iterator", client.stream, hint=hint)
    events: AsyncIterator[ModelEvent] = stream
    return events


def check_item(item: UnknownItem) -> None:
    """Refuse an item that is of no use; the response is asked for again.

    Raises:
        ModelError: It is one.
    """
    from codex_framework.contract.protocol.wire import item_fault

    fault = item_fault(item)
    if fault is not None:
        raise ModelError(
            f"stream disconnected before completion: the model server sent {fault}",
            retryable=True,
            info={"response_stream_disconnected": {"http_status_code": None}},
            slug="stream-disconnected",
        )


def refuse_event(event: object, client: ModelClient) -> NoReturn:
    """Refuse an object that is not a model event.

    Raises:
        WrongValue: Always.
    """
    hint = "Yield ItemDone, then Completed, and other events of a model as needed."
    raise WrongValue(f"it yielded {kind_of(event)}, which is not a model event", client.stream, hint=hint)


def check_text(event: ModelEvent, text: object, scope: TurnScope) -> None:
    """Check the text of an event. This runs for each piece of a response, so it must be fast.

    Raises:
        WrongValue: It is not a text.
    """
    if type(text) is not str:
        fact = f"it yielded a {type(event).__name__} whose text is {kind_of(text)}"
        raise WrongValue(fact, scope.client.stream, hint="Pass a string.")


def check_fields(item: object, client: ModelClient) -> None:
    """Check an item of the model.

    Raises:
        WrongValue: It is not an item, or a field has a wrong class.
    """
    if not isinstance(item, ITEMS):
        hint = "Put an item of the conversation into the event, such as Message."
        raise WrongValue(f"it yielded an item that is {kind_of(item)}", client.stream, hint=hint)
    if problem := _item_problem(item):
        fact = f"it yielded a {type(item).__name__} that is wrong: {problem}"
        raise WrongValue(fact, client.stream, hint="Set the field to a value of this class.")


def check_usage(event: Completed, client: ModelClient) -> None:
    """Check the usage of a response.

    Raises:
        WrongValue: It is not a usage value.
    """
    usage: object = event.usage
    if usage is not None and not isinstance(usage, TokenUsage):
        fact = f"it yielded Completed with usage {kind_of(usage)}"
        raise WrongValue(fact, client.stream, hint="Pass a TokenUsage, or nothing.")


def check_limits(snapshot: object, client: ModelClient) -> None:
    """Check rate limits.

    Raises:
        WrongValue: They are no JSON object.
    """
    if problem := _json_problem(snapshot, "snapshot"):
        fact = f"it yielded RateLimits that are wrong: {problem}"
        raise WrongValue(fact, client.stream, hint="Pass the RateLimitSnapshot of the wire.")


def _item_problem(item: Any) -> str:
    """Return the problem with the fields of an item that prevents recording it. Empty means no problem."""
    if _is_plain(item):
        return ""
    if isinstance(item, UnknownItem):
        return _json_problem(item.raw, "raw")
    from codex_framework.toolkit.validation import type_error  # only for what is rare or wrong

    return type_error(item)


def _is_plain(item: Any) -> bool:
    """Return whether an item of a usual kind has the right fields. This is asked for each item, so it is quick."""
    kind = type(item)
    if kind is Message:
        return (
            type(item.role) is str
            and type(item.content) is tuple
            and all(type(part) in (OutputText, InputText) and type(part.text) is str for part in item.content)
        )
    if kind is FunctionCall:
        return type(item.name) is type(item.arguments) is type(item.call_id) is str
    if kind is CustomToolCall:
        return type(item.name) is type(item.input) is type(item.call_id) is str
    return kind is Reasoning and type(item.summary) is tuple and not item.extra and item.content is None


def _json_problem(value: object, name: str) -> str:
    import json

    if not isinstance(value, Mapping):
        return f"its `{name}` is {kind_of(value)}, not Mapping[str, Any]"
    try:
        json.dumps(value, default=_table)
    except (TypeError, ValueError, RecursionError) as error:
        return f"its `{name}` is not plain JSON data: {error}"
    return ""


def _table(value: object) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"it has {kind_of(value)} in it")


def delay_of(error: ModelError) -> float | None:
    """Return the delay that an error requests, in seconds. Values other than a number below a day are ignored."""
    delay: Any = error.retry_after_s
    is_number = isinstance(delay, (int, float)) and not isinstance(delay, bool)
    return float(delay) if is_number and 0 <= delay < _LONGEST_DELAY_S else None


def info_of(error: ModelError) -> str | dict[str, Any]:
    """Return the wire value of an error: a name, or a table with one. Everything else is ``other``."""
    info: object = error.info
    return info if isinstance(info, (str, dict)) and not _json_problem({"info": info}, "info") else "other"


def jitter() -> float:
    """Return a factor near 1 for the wait before a retry, so that many threads do not retry at the same moment."""
    import random  # here, because most runs retry nothing

    return random.uniform(0.9, 1.1)  # noqa: S311  # spreads retries; nothing secret
