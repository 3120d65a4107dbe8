"""One response, put together from its chunks."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from codex_framework import Completed, ItemAdded, ItemDone, Message, ModelError, ModelEvent, OutputText, TextDelta
from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.contract.protocol.items import Reasoning
from codex_framework.contract.roles.models import ReasoningDelta
from codex_lib_model_client.faults import broken_stream, garbled_event, incomplete_response
from codex_lib_model_client.functions import Projection, call_events
from codex_lib_model_client.message_texts import whole_text
from codex_plugin_chat.calls import CallBuilder
from codex_plugin_chat.faults import error_of
from codex_plugin_chat.reasoning import PartialReasoning, reasoning_text
from codex_plugin_chat.text_chunks import TextChunks

__all__ = ["Reply"]

_LENGTH = ("length", "max_tokens", "model_length", "MAX_TOKENS")
_FILTERED = ("content_filter", "sensitive", "safety", "SAFETY", "refusal")
_BROKEN = ("error", "abort", "network_error", "insufficient_system_resource")
_REASONS = dict.fromkeys(_LENGTH, "max_output_tokens") | dict.fromkeys(_FILTERED, "content_filter")


class Reply:
    """Turns chunks into events.

    Items are complete when the server has said why the response ends. So a response that breaks off leaves no half-finished
    calls, and asking again repeats nothing. Reasoning is complete when something else begins.

    Attributes:
        alive: Whether a chunk since the last reset carried a part of the response.
        finished: Whether all items are complete. Only the usage may follow.
        complete: Whether nothing more is needed.
        nothing: The error if there is no choice at all.
    """

    def __init__(self, projection: Projection) -> None:
        self.alive = False
        self.finished = False
        self.complete = False
        self.nothing = broken_stream("the model server sent no choice")
        self._projection = projection
        self._id = ""
        self._token = os.urandom(8).hex()
        self._message_id = f"msg_{self._token}"
        self._speaking = False
        self._chunks = TextChunks()
        self._text: list[str] = []
        self._calls = CallBuilder()
        self._reasoning: PartialReasoning | None = None
        self._thoughts = 0
        self._usage: TokenUsage | None = None
        self._failure: ModelError | None = None
        self._has_choice = False

    def feed(self, data: str) -> list[ModelEvent]:
        """Return the events of a chunk.

        Raises:
            ModelError: The chunk reports an error, or cannot be read and a part of the response is lost with it.
        """
        if self._speaking:
            text = self._chunks.text(data)
            if text:
                self.alive = True
                self._text.append(text)
                return [TextDelta(self._message_id, text)]
        if self.complete:
            return []
        if data.strip() == "[DONE]":
            return self._done()
        try:
            payload = json.loads(data)
            if not isinstance(payload, dict):
                return []
            events = self._payload(payload)
            if self._speaking:
                self._learn(data, payload)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            # A single word (a keep-alive) cannot have been a chunk, and nothing that follows the end is needed.
            if self.finished or not any(mark in data for mark in '{}"'):
                return []
            raise garbled_event(data) from error
        self.complete = self.finished and self._usage is not None
        return events

    def _learn(self, data: str, payload: Mapping[str, Any]) -> None:
        """Use a chunk as the pattern for later chunks, if it contains only text."""
        choices = payload.get("choices")
        if payload.get("usage") or not isinstance(choices, list) or len(choices) != 1:
            return
        choice = choices[0]
        if not choice.get("finish_reason") and choice.get("index") in (0, None) and choice.get("delta"):
            self._chunks.learn(data, choice["delta"])

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
        if self._failure is not None:
            self._failure.usage = self._usage
            raise self._failure
        return Completed(self._id, self._usage)

    def _payload(self, payload: Mapping[str, Any]) -> list[ModelEvent]:
        error = payload.get("error")
        if (error or payload.get("object") == "error") and not self.finished:
            raise error_of(error or payload)
        if not self._id and isinstance(payload.get("id"), str):
            self._id = payload["id"]
        usage = payload.get("usage")
        if isinstance(usage, Mapping) and usage:
            self._usage = _usage(usage)
        choices = payload.get("choices") or ()
        if not isinstance(choices, (list, tuple)):
            raise TypeError("choices must be a list")
        for choice in choices:
            if choice.get("index") in (0, None):
                return self._choice(choice)
        return []

    def _choice(self, choice: Mapping[str, Any]) -> list[ModelEvent]:
        if self.finished:
            return []
        self._has_choice = True
        events: list[ModelEvent] = []
        delta = choice.get("delta")
        if delta:
            events = self._delta(delta)
        elif message := choice.get("message"):
            events = self._delta(self._unsaid(message))
        reason = choice.get("finish_reason")
        if reason:
            self.alive = True
            events.extend(self._finish(str(reason), choice.get("error")))
        return events

    def _unsaid(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parts of a whole message that the deltas before it did not contain."""
        rest = dict(message)
        said = "".join(self._text)
        content = rest.get("content")
        if said and isinstance(content, str):
            rest["content"] = content.removeprefix(said) if content.startswith(said) else ""
        if self._calls.calls:
            rest.pop("tool_calls", None)
            rest.pop("function_call", None)
        if self._thoughts:
            rest = {key: value for key, value in rest.items() if not key.startswith(("reasoning", "thinking"))}
        return rest

    def _delta(self, delta: Mapping[str, Any]) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        if len(delta) > 1 or "content" not in delta:  # most have text alone
            events.extend(self._think(delta))
        for name in ("content", "refusal"):
            value = delta.get(name)
            if value:
                events.extend(self._say(value))
        calls, function = delta.get("tool_calls"), delta.get("function_call")
        if calls or function:
            events.extend(self._end_reasoning())
            self.alive = True
            if calls:
                self._calls.add(calls)
            elif isinstance(function, Mapping):
                self._calls.add_function(function)
        return events

    def _think(self, delta: Mapping[str, Any]) -> list[ModelEvent]:
        reasoning = self._reasoning or PartialReasoning(f"rs_{self._token}_{self._thoughts + 1}")
        text = reasoning.add(delta)
        if reasoning.is_empty:
            return []
        self.alive = True
        return self._thought(reasoning, text)

    def _thought(self, reasoning: PartialReasoning, text: str) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        self._speaking = False
        if self._reasoning is None:
            self._reasoning = reasoning
            self._thoughts += 1
            events.append(ItemAdded(Reasoning(reasoning.id)))
        if text:
            events.append(ReasoningDelta(reasoning.id, text, 0, raw=True))
        return events

    def _end_reasoning(self) -> list[ModelEvent]:
        reasoning, self._reasoning = self._reasoning, None
        return [] if reasoning is None else [ItemDone(reasoning.item())]

    def _say(self, value: Any) -> list[ModelEvent]:
        """Return the events of content: a text, or a list of parts, of which some are reasoning."""
        if isinstance(value, str):
            events = self._end_reasoning() if self._reasoning is not None else []
            if not self._text:
                events.append(ItemAdded(Message("assistant", (), id=self._message_id)))
            self._text.append(value)
            events.append(TextDelta(self._message_id, value))
            self.alive = self._speaking = True
            return events
        if not isinstance(value, list):
            raise TypeError("content must be a text or a list")
        events = []
        for part in value:
            if isinstance(part, str):
                events.extend(self._say(part))
            elif part.get("type") == "thinking":
                text = reasoning_text(part)
                reasoning = self._reasoning or PartialReasoning(f"rs_{self._token}_{self._thoughts + 1}")
                reasoning.add_text(text)
                events.extend(self._thought(reasoning, text))
                self.alive = True
            elif text := part.get("text") or part.get("refusal"):
                events.extend(self._say(str(text)))
        return events

    def _done(self) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        if not self.finished:
            if not self._has_choice:
                raise self.nothing
            events = self._finish("stop", None)
        self.complete = True
        return events

    def _finish(self, reason: str, error: Any) -> list[ModelEvent]:
        """Return the events that complete all items."""
        self._speaking = False
        if reason in _BROKEN:
            raise error_of(error) if error else broken_stream(f"the model server stopped with the reason {reason!r}")
        events = self._end_reasoning()
        text = whole_text(self._text)
        calls = [] if reason in _REASONS else self._calls.calls
        if text or not (calls or self._thoughts or reason in _REASONS):
            if not text:
                events.append(ItemAdded(Message("assistant", (), id=self._message_id)))
            events.append(ItemDone(Message("assistant", (OutputText(text),), id=self._message_id)))
        events.extend(self._call_events() if calls else ())
        if reason in _REASONS:
            details = {"incomplete_details": {"reason": _REASONS[reason]}}
            self._failure = incomplete_response(details, None)
        self.finished = True
        return events

    def _call_events(self) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        seen: set[str] = set()
        for number, call in enumerate(self._calls.ordered(), 1):
            if not call.name:
                raise broken_stream("the model server sent a tool call without a name")
            place = f"{self._token}_{number}"
            call_id = call.id if call.id and call.id not in seen else f"call_{place}"
            seen.add(call_id)
            events.extend(call_events(self._projection.call(call.name, call.arguments, call_id, place)))
        return events


def _usage(usage: Mapping[str, Any]) -> TokenUsage:
    prompt, completion = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    details = usage.get("prompt_tokens_details")
    return TokenUsage(
        input_tokens=prompt,
        cached_input_tokens=_count(details, "cached_tokens") or _count(usage, "prompt_cache_hit_tokens"),
        output_tokens=completion,
        reasoning_output_tokens=_count(usage.get("completion_tokens_details"), "reasoning_tokens"),
        total_tokens=_count(usage, "total_tokens") or prompt + completion,
        cache_write_input_tokens=_count(details, "cache_write_tokens"),
    )


def _count(numbers: Any, key: str) -> int:
    value = numbers.get(key) if isinstance(numbers, Mapping) else None
    return value if type(value) is int and value > 0 else 0
