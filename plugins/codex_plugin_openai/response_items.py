"""The items of one response, as far as they have come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from codex_framework import ItemAdded, ItemDone, Message, ModelEvent, TextDelta
from codex_framework.contract.protocol.items import ResponseItem
from codex_plugin_openai.events import End, Sign, decode

__all__ = ["ResponseItems"]

_KIND_END = 80
"""Characters from the beginning of an event that have its kind. Servers write it first."""


class ResponseItems:
    """Reads the events of one response, and tracks its items.

    Attributes:
        alive: Whether an event since the last reset shows that the server works on the response.
        have_begun: Whether a part of an item was passed on.
        end: The end of the response, once it has arrived.
    """

    def __init__(self) -> None:
        self.alive = False
        self.have_begun = False
        self.end: End | None = None
        self._finished: list[ResponseItem] = []
        self._begun: list[ResponseItem] = []
        self._texts: list[TextDelta | str] = []
        """The pieces of texts, and the events with their ends, as far as no complete message has them."""
        self._inputs: list[str] = []
        """The events with the ends of calls' inputs."""

    def read(self, batch: Iterable[str]) -> Iterator[ModelEvent]:
        """Yield the model events for events of the server, up to the end of the response.

        Raises:
            ModelError: An event reports a failed response, or it cannot be read and an item or the end is lost with it.
        """
        for data in batch:
            event = decode(data)
            if isinstance(event, TextDelta):
                self.alive = self.have_begun = True
                self._texts.append(event)
                yield event
            elif isinstance(event, Sign):
                if event is Sign.LIFE:
                    self.alive = True
                    self._note(data)
            elif isinstance(event, End):
                yield from self.read_end(event)
                return
            elif isinstance(event, list):
                yield from event
            else:
                self.alive = True
                if self._take(event):
                    self.have_begun = True
                    yield event

    def read_end(self, end: End) -> Iterator[ModelEvent]:
        """Note the end of the response. Yield the events of items that come with it only, or never are complete."""
        self.end = end
        ids = (getattr(item, "call_id", None) or getattr(item, "id", None) for item in self._finished)
        known = {str(one) for one in ids if one}
        listed = {str(raw.get("call_id") or raw.get("id")) for raw in end.output if isinstance(raw, Mapping)}
        if self._texts or self._begun or not listed <= known:
            from codex_plugin_openai.late_items import late_events

            for event in late_events(end.output, self._finished, self._begun, [*self._texts, *self._inputs]):
                self.have_begun = True
                yield event

    def _note(self, data: str) -> None:
        """Note an event that is used only if the item that it belongs to never is complete."""
        kind = data[:_KIND_END]
        if "_call_arguments.done" in kind or "_call_input.done" in kind:
            self._inputs.append(data)
        elif ".done" in kind or "refusal.delta" in kind:
            self._texts.append(data)

    def _take(self, event: ModelEvent) -> bool:
        """Record an event. Return whether to pass it on."""
        if isinstance(event, ItemAdded):
            self._begun.append(event.item)
        return not isinstance(event, ItemDone) or self._add(event.item)

    def _add(self, item: ResponseItem) -> bool:
        """Note a complete item. Return False if it was complete before: an event that is repeated must not make a call run twice."""
        item_id = getattr(item, "id", None)
        if (item_id or getattr(item, "call_id", None)) and item in self._finished:
            return False
        self._finished.append(item)
        if isinstance(item, Message):
            others = [piece for piece in self._texts if not _belongs_to(piece, item_id)]
            self._texts = others if len(others) < len(self._texts) else []  # some servers write another id before
        if self._begun:
            self._begun = [other for other in self._begun if getattr(other, "id", None) != item_id]
        return True


def _belongs_to(piece: TextDelta | str, item_id: str | None) -> bool:
    return piece.item_id == item_id if isinstance(piece, TextDelta) else f'"{item_id}"' in piece
