"""The forms in which servers write reasoning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codex_framework.contract.protocol.items import Reasoning
from codex_lib_model_client.private_data import marked
from codex_plugin_chat.messages import API

__all__ = ["PartialReasoning", "reasoning_text"]

_FIELDS = ("reasoning_content", "reasoning", "reasoning_text", "thinking")
_TEXT_KEYS = ("text", "content", "summary", "thinking")


class PartialReasoning:
    """Reasoning that may still grow."""

    def __init__(self, item_id: str) -> None:
        self.id = item_id
        self._field = ""
        self._texts: list[str] = []
        self._object: dict[str, Any] = {}
        self._text_key = ""
        self._details: list[dict[str, Any]] = []

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it, not even something encrypted."""
        return not (self._texts or self._object or self._details)

    def add(self, delta: Mapping[str, Any]) -> str:
        """Add the reasoning of a delta, and return its text."""
        text = self._add_field(delta)
        details = delta.get("reasoning_details")
        if isinstance(details, list):
            shown = [self._add_detail(detail) for detail in details if isinstance(detail, dict)]
            if not self._field and not text:
                text = "".join(shown)
        if text:
            self._texts.append(text)
        return text

    def add_text(self, text: str) -> None:
        """Add reasoning that came as a part of the content."""
        self._texts.append(text)

    def item(self) -> Reasoning:
        """Return the item, with a mark that says how to send it back."""
        text = "".join(self._texts)
        mark: dict[str, Any] = {}
        if self._field:
            mark["field"] = self._field
        if self._object:
            mark["object"], mark["text_key"] = self._object, self._text_key or "text"
        if self._details:
            mark["details"] = self._details
        content = ({"type": "reasoning_text", "text": text},) if text else None
        return Reasoning(self.id, (), content, None, marked(API, mark))

    def _add_field(self, delta: Mapping[str, Any]) -> str:
        for name in _FIELDS:
            value = delta.get(name)
            if not value:
                continue
            self._field = self._field or name
            if isinstance(value, Mapping):
                self._add_object(value)
            return reasoning_text(value)
        return ""

    def _add_object(self, value: Mapping[str, Any]) -> None:
        for key, part in value.items():
            if key in _TEXT_KEYS:
                self._text_key = self._text_key or key
            elif part is not None:
                self._object[key] = part

    def _add_detail(self, detail: dict[str, Any]) -> str:
        """Add a detail, or continue the last one, and return its text."""
        last = self._details[-1] if self._details else {}
        kind = detail.get("type")
        text = reasoning_text(detail)
        if (
            not last
            or kind == "reasoning.encrypted"
            or (last.get("type"), last.get("index"))
            != (
                kind,
                detail.get("index"),
            )
        ):
            self._details.append(dict(detail))
            return text
        for key, value in detail.items():
            if key in _TEXT_KEYS and isinstance(value, str) and isinstance(last.get(key), str):
                last[key] += value
            elif value is not None:
                last[key] = value
        return text


def reasoning_text(value: Any) -> str:
    """Return the text of reasoning: a string, an object with a text, or a list of them."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return "".join(reasoning_text(value[key]) for key in _TEXT_KEYS if value.get(key))
    if isinstance(value, (list, tuple)):
        return "".join(map(reasoning_text, value))
    return ""
