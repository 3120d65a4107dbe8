"""One response, put together from its events."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from codex_contrib_anthropic.counts import Counts
from codex_contrib_anthropic.faults import error_of
from codex_contrib_anthropic.partial import PartialCall, PartialServerBlock, PartialText, PartialThinking, TextRun
from codex_contrib_anthropic.server_blocks import RESULT, USE, kept_end, search_item
from codex_framework import Completed, ItemAdded, ItemDone, ModelError, ModelEvent
from codex_framework.contract.protocol.items import Reasoning
from codex_framework.contract.roles.models import ModelWarning
from codex_lib_model_client.faults import broken_stream, garbled_event, incomplete_response, known_fault
from codex_lib_model_client.functions import Projection, call_events

__all__ = ["Reply"]

_REASONS = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}
_HINTS = {"max_tokens": "Set a larger max_tokens for the model provider, or a lower model_reasoning_effort."}
_SHOWN = 500
"""Maximum number of characters shown of a server's explanation."""

_SEARCH = "web_search"
_GOING_ON = ("pause_turn", "tool_use")
"""Ends of a response after which the server runs the calls of its tools that have no result yet."""

_FAILURES = {
    "too_many_requests": "there were too many",
    "invalid_tool_input": "the query is invalid",
    "max_uses_exceeded": "the limit of searches for one request is reached",
    "query_too_long": "the query is too long",
    "request_too_large": "the list of domains is too long",
    "unavailable": "it is unavailable",
}

Partial = PartialText | PartialThinking | PartialCall | PartialServerBlock


class Reply:
    """Turns events of the server into model events.

    A text or a thought is complete when its block ends. So is a call whose arguments are a whole JSON object. Other calls wait
    for the stop reason of the response, because the response may have been cut off; later calls wait as well, so that the order
    is kept. A call of a tool that the server runs is complete with its result; events in between wait, too.

    Args:
        projection: The tools of the request.
        joins: Whether consecutive texts are one message, because a server splits texts at citations after a search.
        links: Whether links to the sources are added to texts.

    Attributes:
        alive: Whether an event since the last reset carried a part of the response.
        finished: Whether all items are complete.
        complete: Whether nothing more is needed.
        nothing: The error if there is no message at all.
    """

    def __init__(self, projection: Projection, *, joins: bool = False, links: bool = True) -> None:
        self.alive = False
        self.finished = False
        self.complete = False
        self.nothing = broken_stream("the model server sent no message")
        self._projection = projection
        self._id = ""
        self._token = os.urandom(8).hex()
        self._joins = joins
        self._links = links
        self._open: dict[int, Partial] = {}
        self._runs: dict[int, TextRun] = {}
        self._run: TextRun | None = None
        self._held: list[ModelEvent] = []
        self._unanswered: dict[str, PartialServerBlock] = {}
        self._container: str | None = None
        self._known: set[int] = set()
        self._waiting: list[PartialCall] = []
        self._calls: set[str] = set()
        self._has_items = self._has_blocks = False
        self._began = False
        self._pause = False
        self._counts = Counts()
        self._has_found = False
        self._failure: ModelError | None = None

    def feed(self, data: str) -> list[ModelEvent]:
        """Return the events of an event of the server.

        Raises:
            ModelError: It reports an error, or cannot be read and a part of the response is lost with it.
        """
        if self.complete:
            return []
        try:
            payload = json.loads(data)
            return self._payload(payload) if isinstance(payload, dict) else []
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            # A single word (a keep-alive) cannot have been an event, and nothing that follows the end is needed.
            if self.finished or not any(mark in data for mark in '{}"'):
                return []
            raise garbled_event(data) from error

    def end(self) -> None:
        """Handle the end of the body.

        Raises:
            ModelError: The response is not complete.
        """
        if not self.finished:
            raise broken_stream("stream closed before the response was complete")
        self.complete = True

    def completion(self) -> Completed:
        """Return the last event.

        Raises:
            ModelError: The response is incomplete for a reason that the server stated.
        """
        usage = self._counts.usage()
        if self._failure is not None:
            self._failure.usage = usage
            raise self._failure
        return Completed(self._id, usage, False if self._pause else None)

    def _payload(self, payload: Mapping[str, Any]) -> list[ModelEvent]:
        match payload.get("type"):
            case "content_block_delta":
                self.alive = True
                block = self._open.get(payload["index"])
                return [] if block is None else block.add(payload["delta"])
            case "content_block_start":
                self.alive = True
                return self._start(payload["index"], payload["content_block"])
            case "content_block_stop":
                self.alive = True
                return self._stop(payload["index"])
            case "message_start":
                self._begin(payload["message"])
                return []
            case "message_delta":
                self.alive = True
                self._counts.note(payload.get("usage"))
                delta = payload["delta"]
                self._note_container(delta)
                reason = delta.get("stop_reason")
                return self._finish(str(reason), delta.get("stop_details")) if reason else []
            case "message_stop":
                return self._last()
            case "message":
                return self._whole(payload)
            case "error":
                return self._error(payload.get("error") or payload)
            case _:
                return self._error(payload["error"]) if payload.get("error") else []

    def _begin(self, message: Mapping[str, Any]) -> None:
        self.alive = self._began = True
        self._id = self._id or str(message.get("id") or "")
        self._counts.begin(message.get("usage"))
        self._note_container(message)

    def _note_container(self, fields: Mapping[str, Any]) -> None:
        container = fields.get("container")
        name = container.get("id") if isinstance(container, Mapping) else None
        self._container = name if isinstance(name, str) else self._container

    def _error(self, error: Any) -> list[ModelEvent]:
        """Raise the error, unless the response was complete before."""
        if not self.finished:
            raise error_of(error)
        return []

    def _start(self, index: int, block: Mapping[str, Any]) -> list[ModelEvent]:
        if index in self._known or self.finished:
            return []
        self._known.add(index)
        place = f"{self._token}_{index + 1}"
        response = self._id or self._token
        kind = block.get("type")
        begun: list[ModelEvent] = [] if kind == "text" else self._end_run()
        is_result = isinstance(kind, str) and kind.endswith(RESULT)
        if self._has_found and not is_result:
            self._counts.runs += 1
        self._has_found = is_result
        opened: Partial
        match kind:
            case "text":
                if self._run is None:
                    self._run = TextRun(place, response, linked=self._links)
                self._runs[index] = self._run
                opened = self._run.text()
                if not self._joins:
                    self._run = None
            case "thinking":
                opened = PartialThinking(f"rs_{place}", response, None)
            case "redacted_thinking":
                opened = PartialThinking(f"rs_{place}", response, str(block["data"]))
            case "tool_use":
                opened = PartialCall(block.get("id"), block.get("name"), block.get("input"))
            case _ if kind == USE or is_result:
                opened = PartialServerBlock(block, place, response)
                if opened.is_call and opened.tool == _SEARCH:
                    begun.append(ItemAdded(search_item(place, "in_progress")))
            case _:
                return begun  # nothing that this client requests
        self._open[index] = opened
        return [*begun, *opened.begun(), *opened.add(block)]

    def _end_run(self) -> list[ModelEvent]:
        """Return the events of the end of a message, after which no text of it follows."""
        run, self._run = self._run, None
        if run is None:
            return []
        run.ended = True
        return [] if run.open else self._pass(run.done())

    def _stop(self, index: int) -> list[ModelEvent]:
        block = self._open.pop(index, None)
        match block:
            case None:
                return []
            case PartialText():
                self._has_items = True
                run = self._runs.pop(index)
                run.open -= 1
                is_whole = not run.open and (run.ended or not self._joins)
                return [*block.end(), *(self._pass(run.done()) if is_whole else ())]
            case PartialCall():
                if self._waiting or not block.is_whole:
                    self._waiting.append(block)
                    return []
                return self._called(block)
            case PartialThinking():
                self._has_items = True
                return self._pass([ItemDone(block.item())])
            case PartialServerBlock():
                self._has_blocks = True
                return self._asked(block) if block.is_call else self._found(block)

    def _pass(self, events: list[ModelEvent]) -> list[ModelEvent]:
        """Return events, or keep them back while the result of a preceding call is missing."""
        if not self._unanswered:
            return events
        self._held += events
        return []

    def _release(self) -> list[ModelEvent]:
        events, self._held = self._held, []
        return events

    def _asked(self, call: PartialServerBlock) -> list[ModelEvent]:
        if call.input is not None and call.call_id not in self._unanswered:
            self._unanswered[call.call_id] = call
            self._held += _keep_block(call)
            return []
        return self._pass(_search_events(call, "failed"))

    def _found(self, result: PartialServerBlock) -> list[ModelEvent]:
        call = self._unanswered.pop(result.call_id, None)
        told: list[ModelEvent] = []
        if result.error:
            of = f" for `{call.query}`" if call is not None and isinstance(call.query, str) else ""
            why = _FAILURES.get(result.error, result.error[:_SHOWN])
            told.append(ModelWarning(f"`{result.tool}` of the model server failed{of}: {why}"))
        shown = [] if call is None else _search_events(call, "failed" if result.error else "completed")
        self._held += [*_keep_block(result), *shown]
        return [*told, *(() if self._unanswered else self._release())]

    def _unfinished(self, reason: str) -> list[ModelEvent]:
        """Return the events that were kept back.

        Calls of the server's tools without a result are kept if the server still runs them.
        """
        goes_on = reason in _GOING_ON and (reason != "tool_use" or bool(self._calls))
        events = self._release()
        for call in self._unanswered.values():
            if not goes_on:
                kept = f"rs_{call.place}"
                events = [one for one in events if getattr(getattr(one, "item", None), "id", None) != kept]
            events += _search_events(call, "in_progress" if goes_on else "failed")
        return events

    def _called(self, call: PartialCall) -> list[ModelEvent]:
        if not call.name:
            raise broken_stream("the model server sent a tool call without a name")
        place = f"{self._token}_c{len(self._calls) + 1}"
        call_id = call.id if call.id and call.id not in self._calls else f"toolu_{place}"
        self._calls.add(call_id)
        self._has_items = True
        return self._pass(call_events(self._projection.call(call.name, call.arguments, call_id, place)))

    def _finish(self, reason: str, details: Any = None) -> list[ModelEvent]:
        """Return the events that complete all items."""
        if self.finished:
            return []
        events = [event for index in sorted(self._open) for event in self._stop(index)]
        events += self._end_run()
        waiting, self._waiting = self._waiting, []
        if reason == "model_context_window_exceeded":
            self._failure = known_fault(None, "context_length_exceeded", "")
        elif reason in _REASONS:
            self._failure = incomplete_response({"incomplete_details": {"reason": _REASONS[reason]}}, None)
            self._failure.hint = _HINTS[reason] if reason != "refusal" else _refusal_hint(details)
        else:
            events.extend(event for call in waiting for event in self._called(call))
        events += self._unfinished(reason)
        self._pause = reason == "pause_turn" and (self._has_items or self._has_blocks)
        if self._pause or (self._container is not None and reason == "tool_use"):
            events += self._end_mark()
            return self._finished(events)
        if not self._has_items and self._failure is None:
            empty = TextRun(self._token, self._id, linked=False)
            events.extend((*empty.text().begun(), *empty.done()))
        return self._finished(events)

    def _finished(self, events: list[ModelEvent]) -> list[ModelEvent]:
        self.finished = True
        return events

    def _end_mark(self) -> list[ModelEvent]:
        item_id = f"rs_{self._token}_end"
        mark = kept_end(item_id, self._id or self._token, self._container, paused=self._pause)
        return [ItemAdded(Reasoning(item_id)), ItemDone(mark)]

    def _last(self) -> list[ModelEvent]:
        if not self.finished and not self._began:
            raise self.nothing
        events = self._finish("end_turn")
        self.complete = True
        return events

    def _whole(self, message: Mapping[str, Any]) -> list[ModelEvent]:
        """Return the events of a message that arrived as a whole."""
        self._begin(message)
        events: list[ModelEvent] = []
        for index, block in enumerate(message["content"]):
            events.extend((*self._start(index, block), *self._stop(index)))
        return [*events, *self._finish(str(message.get("stop_reason") or "end_turn"), message.get("stop_details"))]


def _keep_block(block: PartialServerBlock) -> list[ModelEvent]:
    item = block.item()
    return [ItemAdded(Reasoning(item.id)), ItemDone(item)]


def _search_events(call: PartialServerBlock, status: str) -> list[ModelEvent]:
    """Return the visible item at the end of a call, if it is a search."""
    return [ItemDone(search_item(call.place, status, call.query))] if call.tool == _SEARCH else []


def _refusal_hint(details: Any) -> str:
    """Return the server's message about a refusal, and how to fix it."""
    said: Mapping[str, Any] = details if isinstance(details, Mapping) else {}
    why = str(said.get("explanation") or said.get("category") or "").strip()
    told = f"The server's explanation: {why[:_SHOWN]} " if why else ""
    return f"{told}Rephrase the request, go back before it, or choose another model: the same conversation is refused again."
