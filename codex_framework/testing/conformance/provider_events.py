"""The check of the events of one response: order, fields and grouping."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.contract.protocol.items import CustomToolCall, FunctionCall, Message, message_text
from codex_framework.contract.roles.models import (
    Completed,
    ItemAdded,
    ItemDone,
    ModelClient,
    ModelEvent,
    RateLimits,
    ReasoningDelta,
    ReasoningPartAdded,
    TextDelta,
    ToolInputDelta,
)
from codex_framework.testing.conformance.findings import Findings
from codex_framework.threads.faults import WrongValue
from codex_framework.threads.turn.model_stream import check_fields, check_limits, check_usage

__all__ = ["check_events", "items_done", "repeated_ids"]

_PIECES = (TextDelta, ReasoningDelta, ToolInputDelta)


def check_events(findings: Findings, what: str, events: list[ModelEvent], client: ModelClient) -> None:
    """Check the events of a whole response.

    Args:
        what: A description of the request, for the violations.
    """
    foreign = {type(event).__name__ for event in events if not isinstance(event, get_args(ModelEvent))}
    findings.require(not foreign, f"{what} yields {', '.join(sorted(foreign))}, which are no model events")
    ends = [place for place, event in enumerate(events) if isinstance(event, Completed)]
    findings.require(ends, f"{what} ends without Completed, and without a ModelError")
    findings.require(len(ends) < 2, f"{what} yields Completed {len(ends)} times")
    findings.require(not ends or ends[0] == len(events) - 1, f"{what} yields more after Completed")
    done = any(isinstance(event, ItemDone) for event in events)
    findings.require(done, f"{what} yields no ItemDone: an answer has an item, or is a ModelError")
    problems = [problem for event in events if (problem := _problem(event, client))]
    for problem in problems:
        findings.note(f"{what}: {problem}")
    if not problems:
        _check_pieces(findings, what, events)
        twice = repeated_ids(items_done(events))
        findings.require(not twice, f"{what} yields two items with the same {' and the same '.join(twice)}")


def items_done(events: Iterable[ModelEvent]) -> list[Any]:
    """Return the items that are complete."""
    return [event.item for event in events if isinstance(event, ItemDone)]


def repeated_ids(items: Iterable[Any]) -> list[str]:
    """Return which ids two of the items have in common, such as ``call_id 'call_1'``."""
    seen: set[tuple[str, str]] = set()
    twice: dict[str, None] = {}
    for item in items:
        own = getattr(item, "id", None)
        ids = [("id", own)] if isinstance(own, str) and own else []
        ids += [("call_id", item.call_id)] if isinstance(item, (FunctionCall, CustomToolCall)) else []
        twice.update({f"{kind} {name!r}": None for kind, name in ids if (kind, name) in seen})
        seen.update(ids)
    return list(twice)


def _problem(event: Any, client: ModelClient) -> str:
    """Return why the kernel would refuse an event. Empty means that it would not."""
    try:
        if isinstance(event, (ItemAdded, ItemDone)):
            check_fields(event.item, client)
        elif isinstance(event, RateLimits):
            check_limits(event.snapshot, client)
        elif isinstance(event, Completed):
            check_usage(event, client)
            return _usage_problem(event)
    except WrongValue as error:
        return f"{error}. {error.hint}"
    text: object = event.delta if isinstance(event, _PIECES) else ""
    if not isinstance(text, str):
        return f"it yielded a {type(event).__name__} whose text is {type(text).__name__}. Pass a string."
    return ""


def _usage_problem(event: Completed) -> str:
    usage: Any = event.usage
    if usage is None:
        return ""
    fields = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens", "total_tokens")
    counts = {name: getattr(usage, name) for name in fields}
    wrong = {name: count for name, count in counts.items() if type(count) is not int or count < 0}
    if wrong:
        name, count = next(iter(wrong.items()))
        return f"its Completed has {name} {count!r}. Count tokens with whole numbers from 0, or pass no usage."
    if usage == TokenUsage(*(0 for _ in fields)):
        return "its Completed counts 0 tokens. Pass usage=None if the server has not counted them, so that they are estimated."
    return ""


def _check_pieces(findings: Findings, what: str, events: list[ModelEvent]) -> None:
    """Check that each piece belongs to an item that has begun, and that the pieces of a message add up to its text."""
    begun: set[str] = set()
    texts: dict[str, list[str]] = {}
    for event in events:
        match event:
            case ItemAdded(item):
                begun.add(getattr(item, "id", None) or "")
            case (
                TextDelta(item_id, _)
                | ReasoningDelta(item_id, _)
                | ToolInputDelta(item_id, _)
                | ReasoningPartAdded(item_id, _)
            ):
                name = type(event).__name__
                cure = "yield ItemAdded first, with the same id"
                findings.require(
                    item_id in begun, f"{what} yields a {name} of {item_id!r}, an item that has not begun: {cure}"
                )
                if isinstance(event, TextDelta):
                    texts.setdefault(item_id, []).append(event.delta)
            case ItemDone(Message(id=str() as item_id) as message) if item_id in texts:
                pieces, whole = "".join(texts[item_id]), message_text(message)
                text = f"{what} yields a message {whole!r} whose pieces are {pieces!r}: clients show the pieces"
                findings.require(pieces == whole, text)
            case _:
                pass
