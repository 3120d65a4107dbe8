"""Content blocks that may still grow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from codex_framework import ItemAdded, Message, ModelEvent, OutputText, ReasoningDelta, TextDelta
from codex_framework.contract.protocol.items import Reasoning
from codex_framework.contract.roles.models import ReasoningPartAdded
from codex_framework.toolkit.model_server.private_data import marked

__all__ = ["PartialCall", "PartialText", "PartialThinking"]

API = "messages"


class PartialText:
    """A text of the model."""

    def __init__(self, item_id: str) -> None:
        self._id = item_id
        self._pieces: list[str] = []

    def begun(self) -> list[ModelEvent]:
        """Return the events of its beginning."""
        return [ItemAdded(Message("assistant", (), id=self._id))]

    def add(self, delta: Mapping[str, Any]) -> list[ModelEvent]:
        """Add a piece and return its events."""
        text = delta.get("text")
        if not text:
            return []
        if not isinstance(text, str):
            raise TypeError("a text must be a string")
        self._pieces.append(text)
        return [TextDelta(self._id, text)]

    @property
    def is_blank(self) -> bool:
        """Whether there are no words in it."""
        return not "".join(self._pieces).strip()

    def item(self) -> Message:
        """Return the message."""
        return Message("assistant", (OutputText("".join(self._pieces)),), id=self._id)


class PartialThinking:
    """Thoughts of the model, readable or encrypted.

    Args:
        response: The id of the response, which the item keeps.
    """

    def __init__(self, item_id: str, response: str, redacted: str | None) -> None:
        self._id = item_id
        self._mark: dict[str, Any] = {"response": response}
        if redacted is not None:
            self._mark["redacted"] = redacted
        self._pieces: list[str] = []
        self._signature: list[str] = []

    def begun(self) -> list[ModelEvent]:
        """Return the events of its beginning."""
        return [ItemAdded(Reasoning(self._id))]

    def add(self, delta: Mapping[str, Any]) -> list[ModelEvent]:
        """Add a piece and return its events."""
        text, signature = delta.get("thinking"), delta.get("signature")
        if signature:
            self._signature.append(_string(signature))
        if not text:
            return []
        first = [] if self._pieces else [ReasoningPartAdded(self._id, 0)]
        self._pieces.append(_string(text))
        return [*first, ReasoningDelta(self._id, text)]

    def item(self) -> Reasoning:
        """Return the item, with a mark that says how to send it back."""
        text, mark = "".join(self._pieces), dict(self._mark)
        if self._signature:
            mark["signature"] = "".join(self._signature)
        summary = ({"type": "summary_text", "text": text},) if text else ()
        return Reasoning(self._id, summary, extra=marked(API, mark))


class PartialCall:
    """A call of a function."""

    def __init__(self, call_id: Any, name: Any, whole: Any) -> None:
        self.id = _string(call_id or "")
        self.name = _string(name or "")
        self._whole = whole if isinstance(whole, Mapping) and whole else None
        self._pieces: list[str] = []

    def begun(self) -> list[ModelEvent]:
        """Return no events: a call begins when it is complete."""
        return []

    def add(self, delta: Mapping[str, Any]) -> list[ModelEvent]:
        """Add a piece."""
        if piece := delta.get("partial_json"):
            self._pieces.append(_string(piece))
        return []

    @property
    def arguments(self) -> str:
        """The arguments so far."""
        if not self._pieces and self._whole is not None:
            return json.dumps(self._whole, ensure_ascii=False)
        return "".join(self._pieces)

    @property
    def is_whole(self) -> bool:
        """Whether the arguments are a complete JSON object. The end of a response can cut a call off, so this must be checked."""
        try:
            return isinstance(json.loads(self.arguments), dict)
        except (ValueError, RecursionError):
            return False


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("it must be a string")
    return value
