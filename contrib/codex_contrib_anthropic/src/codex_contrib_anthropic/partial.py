"""Content blocks that may still grow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from codex_contrib_anthropic.citations import API, kept_texts, links
from codex_contrib_anthropic.server_blocks import RESULT, USE, kept_block
from codex_framework import ItemAdded, ItemDone, Message, ModelEvent, OutputText, ReasoningDelta, TextDelta
from codex_framework.contract.protocol.items import Reasoning
from codex_framework.contract.roles.models import ReasoningPartAdded
from codex_framework.toolkit.strict_json import strict_json
from codex_lib_model_client.private_data import marked

__all__ = ["PartialCall", "PartialServerBlock", "PartialText", "PartialThinking", "TextRun"]


class TextRun:
    """Texts of the model that form one message.

    Args:
        linked: Whether readers see links to the sources.

    Attributes:
        open: The number of incomplete texts.
        ended: Whether no more texts will follow.
    """

    def __init__(self, place: str, response: str, *, linked: bool) -> None:
        self.open = 0
        self.ended = False
        self._place = place
        self._response = response
        self._linked = linked
        self._texts: list[PartialText] = []

    def text(self) -> PartialText:
        """Return the next text, which is empty."""
        text = PartialText(f"msg_{self._place}", is_first=not self._texts, linked=self._linked)
        self._texts.append(text)
        self.open += 1
        return text

    def done(self) -> list[ModelEvent]:
        """Return the events of the message's end."""
        message = Message(
            "assistant", (OutputText("".join(text.shown for text in self._texts)),), id=f"msg_{self._place}"
        )
        blocks = [text.block for text in self._texts]
        if len(blocks) == 1 and "citations" not in blocks[0]:
            return [ItemDone(message)]
        kept = kept_texts(f"rs_{self._place}_t", self._response, blocks, linked=self._linked)
        return [ItemAdded(Reasoning(kept.id)), ItemDone(kept), ItemDone(message)]


class PartialText:
    """A text of the model, which is a part of a message."""

    def __init__(self, item_id: str, *, is_first: bool, linked: bool) -> None:
        self._id = item_id
        self._is_first = is_first
        self._linked = linked
        self._pieces: list[str] = []
        self._citations: list[Any] = []

    def begun(self) -> list[ModelEvent]:
        """Return the events of its beginning."""
        return [ItemAdded(Message("assistant", (), id=self._id))] if self._is_first else []

    def add(self, delta: Mapping[str, Any]) -> list[ModelEvent]:
        """Add a piece and return its events."""
        if (citation := delta.get("citation")) is not None:
            self._citations.append(_plain(citation))
        if citations := delta.get("citations"):
            self._citations.extend(map(_plain, citations))
        text = delta.get("text")
        if not text:
            return []
        if not isinstance(text, str):
            raise TypeError("a text must be a string")
        self._pieces.append(text)
        return [TextDelta(self._id, text)]

    def end(self) -> list[ModelEvent]:
        """Return the events of its end."""
        added = self._links
        return [TextDelta(self._id, added)] if added else []

    @property
    def shown(self) -> str:
        """The visible part of it."""
        return "".join(self._pieces) + self._links

    @property
    def block(self) -> dict[str, Any]:
        """The block as the server sent it."""
        block: dict[str, Any] = {"text": "".join(self._pieces)}
        return {**block, "citations": self._citations} if self._citations else block

    @property
    def _links(self) -> str:
        return links(self._citations) if self._linked else ""


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


class _Pieces:
    """A block whose arguments come in pieces. It tells nothing before it is complete."""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def begun(self) -> list[ModelEvent]:
        """Return no events."""
        return []

    def add(self, delta: Mapping[str, Any]) -> list[ModelEvent]:
        """Add a piece of the arguments."""
        if piece := delta.get("partial_json"):
            self._pieces.append(_string(piece))
        return []


class PartialCall(_Pieces):
    """A call of a function."""

    def __init__(self, call_id: Any, name: Any, whole: Any) -> None:
        self.id = _string(call_id or "")
        self.name = _string(name or "")
        super().__init__()
        self._whole = whole if isinstance(whole, Mapping) and whole else None

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


class PartialServerBlock(_Pieces):
    """A call of a tool that the server runs itself, or the result.

    Args:
        place: A unique key of the block.
        response: The id of the response.

    Attributes:
        place: See above.
        is_call: Whether it is a call.
        tool: The name of the tool, or of the kind of tool for a result.
        call_id: The id of the call.
        error: The server's message about a failed call. Empty on success.
    """

    def __init__(self, block: Mapping[str, Any], place: str, response: str) -> None:
        self._block = {key: value for key, value in _plain(block).items() if value is not None}
        super().__init__()
        self._response = response
        self.place = place
        self.is_call = self._block.get("type") == USE
        self.tool = _string(self._block["name"] if self.is_call else self._block["type"].removesuffix(RESULT))
        self.call_id = _string(self._block["id" if self.is_call else "tool_use_id"])
        content = self._block.get("content")
        self.error = str(content.get("error_code") or "") if isinstance(content, Mapping) else ""

    @property
    def input(self) -> Mapping[str, Any] | None:
        """The arguments of a call. None if they were cut off."""
        try:
            found = strict_json("".join(self._pieces)) if self._pieces else self._block.get("input", {})
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, Mapping) else None

    @property
    def query(self) -> Any:
        """The query of a search."""
        return (self.input or {}).get("query")

    def item(self) -> Reasoning:
        """Return the item that keeps the block."""
        block = {**self._block, "input": self.input} if self.is_call else self._block
        return kept_block(f"rs_{self.place}", self._response, block)


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("it must be a string")
    return value


def _plain(value: Any) -> Any:
    """Return an object, if it can be sent back as JSON.

    Raises:
        ValueError, TypeError, RecursionError: It is not an object, contains numbers that JSON lacks, or is nested too deeply.
    """
    if not isinstance(value, Mapping):
        raise TypeError("it must be an object")
    return strict_json(json.dumps(value))
