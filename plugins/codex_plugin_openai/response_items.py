"""The items of one response, as far as they have come."""

from __future__ import annotations

from collections.abc import Sequence

from codex_framework import ItemAdded, ItemDone, Message, ModelEvent, TextDelta
from codex_framework.contract.protocol.items import ResponseItem
from codex_plugin_openai.events import End, Sign

__all__ = ["ResponseItems"]

_KIND_END = 80
"""Characters from the beginning of an event that have its kind. Servers write it first."""


class ResponseItems:
    """What has come of the items of one response.

    Attributes:
        finished: The complete items.
        begun: The items that have begun and are not complete.
        pieces: The pieces of texts, and the events with the ends of texts and calls, as far as no complete item has them.
    """

    def __init__(self) -> None:
        self.finished: list[ResponseItem] = []
        self.begun: list[ResponseItem] = []
        self.pieces: list[TextDelta | str] = []

    def note(self, data: str, sign: Sign) -> None:
        """Note an event that is used only if the item that it belongs to never is complete."""
        if sign is Sign.LIFE and (".done" in data[:_KIND_END] or "refusal.delta" in data[:_KIND_END]):
            self.pieces.append(data)

    def take(self, event: ModelEvent | Sequence[ModelEvent]) -> Sequence[ModelEvent]:
        """Note an event, or notices. Return what is to be passed on."""
        if isinstance(event, Sequence):
            return event
        if isinstance(event, ItemAdded):
            self.begun.append(event.item)
        elif isinstance(event, ItemDone) and not self._add(event.item):
            return ()
        return (event,)

    def _add(self, item: ResponseItem) -> bool:
        """Note a complete item. Return False if it was complete before: an event that is repeated must not make a call run twice."""
        item_id = getattr(item, "id", None)
        if (item_id or getattr(item, "call_id", None)) and item in self.finished:
            return False
        self.finished.append(item)
        if isinstance(item, Message):
            self.pieces.clear()
        if self.begun:
            self.begun = [other for other in self.begun if getattr(other, "id", None) != item_id]
        return True

    def late(self, end: End) -> Sequence[ModelEvent]:
        """Return the events of items that come with the end of the response only, or never are complete."""
        if not self.pieces and not self.begun and len(end.output) <= len(self.finished):
            return ()
        from codex_plugin_openai.late_items import late_events

        return list(late_events(end.output, self.finished, self.begun, self.pieces))
