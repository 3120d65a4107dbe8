"""A thread's history, which encodes each item once and is not traversed again in each turn.

``append`` encodes each item when it is added. A prompt is a snapshot of the lists, and its JSON is joined from the encoded
items. So a request costs only the copying of its bytes, however long the thread is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Protocol, overload

from codex_framework.contract.protocol.items import (
    PACKED,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    LocalShellCall,
    Message,
    Reasoning,
    ResponseItem,
    UnknownItem,
    is_paired_unknown,
    with_paired_outputs,
)
from codex_framework.contract.protocol.wire import encode_item, encode_json
from codex_framework.contract.value import Value, field
from codex_framework.threads.images import LeftOutImages
from codex_framework.toolkit.images import images_of

__all__ = ["History", "HistoryPrompt"]

_BYTES_PER_TOKEN = 4
"""Codex's estimate of a token."""

_IMAGE_BYTES = 7373
"""The estimated size of an image within a request, in bytes (Codex's estimate)."""


_MOST_STARTS = 64
"""How many starts of texts a history remembers. There are a few sources of context, and a source that changes its start must not
fill the memory."""


class Writers(Protocol):
    """Tells which provider wrote reasoning (see ``origins``)."""

    def is_pure(self, provider: str) -> bool:
        """Return whether this provider has written all reasoning."""
        ...

    def foreign(self, items: Sequence[ResponseItem], provider: str) -> set[int]:
        """Return the places of the items that only another provider can use."""
        ...


class HistoryPrompt(Value):
    """The history for one request (see ``roles.models.Prompt``).

    Attributes:
        parts: The items' JSON.
        origins: Tells who wrote reasoning, if needed.
        whole: The prompt from which items of other providers were taken out. None if this one is whole.
    """

    items: Sequence[ResponseItem]
    parts: Sequence[bytes] = field(repr=False)
    origins: Writers | None = field(default=None, repr=False, eq=False)
    whole: HistoryPrompt | None = field(default=None, repr=False, eq=False)

    def encoded(self) -> bytes:
        """Return the items as a JSON array in UTF-8."""
        return b"[%b]" % b",".join(self.parts)

    def without(self, images: LeftOutImages, *, sees: bool) -> HistoryPrompt:
        """Return the prompt without the images that are left out.

        Args:
            sees: Whether the model takes images.
        """
        items, parts = list(self.items), list(self.parts)
        for place, item in enumerate(items):
            shown = images.rewritten(item, sees=sees)
            if shown is not None:
                items[place], parts[place] = shown
        return HistoryPrompt(items, parts, self.origins)

    def for_provider(self, provider: str) -> HistoryPrompt:
        """Return the prompt for a provider, without what only another one can use."""
        source = self.whole or self
        if source.origins is None or source.origins.is_pure(provider):
            return source
        foreign = source.origins.foreign(source.items, provider)
        if not foreign:
            return source
        places = [place for place in range(len(source.items)) if place not in foreign]
        items, parts = [source.items[place] for place in places], [source.parts[place] for place in places]
        return HistoryPrompt(items, parts, source.origins, source)


class History(Sequence[ResponseItem]):
    """The items of a conversation, oldest first.

    Attributes:
        origins: Tells who wrote reasoning, if needed.
        images: The images that requests leave out.
    """

    def __init__(self, items: Iterable[ResponseItem] = ()) -> None:
        self.origins: Writers | None = None
        self.images = LeftOutImages()
        self._items: list[ResponseItem] = []
        self._parts: list[bytes] = []
        self._said: list[Message] = []  # those of the user and the developer, which are few
        self._newest: dict[
            str, tuple[int, str | None]
        ] = {}  # by start: how many of `_said` were read, and the newest text
        self._open_calls: dict[str, int] = {}
        self._orphans = False
        self._pictured: list[ResponseItem] = []
        self._counted_tokens = 0
        self._uncounted_bytes = 0
        for item in items:
            self.append(item)

    def __iter__(self) -> Iterator[ResponseItem]:
        """Yield the items."""
        return iter(self._items)

    @overload
    def __getitem__(self, index: int) -> ResponseItem: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[ResponseItem]: ...

    def __getitem__(self, index: int | slice) -> ResponseItem | Sequence[ResponseItem]:
        """Return an item, or some of them."""
        return self._items[index]

    @classmethod
    def resume(cls, items: Iterable[ResponseItem]) -> History:
        """Return the history of a stored conversation. An interrupted call gets an output."""
        return cls(with_paired_outputs(items))

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self._items)

    @property
    def items(self) -> Sequence[ResponseItem]:
        """The items. Do not change them."""
        return self._items

    @property
    def tokens(self) -> int:
        """The approximate length in tokens: the last count of the server, plus an estimate of later items."""
        return self._counted_tokens + self._uncounted_bytes // _BYTES_PER_TOKEN

    def set_count(self, tokens: int) -> None:
        """Set the server's count of all items so far."""
        self._counted_tokens = tokens
        self._uncounted_bytes = 0

    def append(self, item: ResponseItem) -> bytes:
        """Add an item and return its JSON encoding."""
        encoded = encode_item(item)
        self._add(item, encoded)
        return encoded

    def replace(self, items: Sequence[ResponseItem]) -> None:
        """Replace all items. Items that stay keep their encoding."""
        known = {id(item): part for item, part in zip(self._items, self._parts, strict=True)}
        self._items, self._parts, self._said, self._open_calls, self._orphans = [], [], [], {}, False
        self._pictured = []
        self.images.forget_items()
        self._newest.clear()
        self._counted_tokens = self._uncounted_bytes = 0
        for item in items:
            self._add(item, known.get(id(item)) or encode_item(item))

    def prompt(self) -> HistoryPrompt:
        """Return a normalised snapshot: every call is followed by exactly one output, and every output has a call."""
        if self._orphans or self._open_calls:
            return self.prompt_of(self._items)
        return HistoryPrompt(self._items.copy(), self._parts.copy(), self.origins)

    @property
    def items_with_images(self) -> Sequence[ResponseItem]:
        """The items that contain images."""
        return self._pictured

    def prompt_of(self, items: Sequence[ResponseItem]) -> HistoryPrompt:
        """Return a normalised prompt of other items. Items of the history are not encoded again."""
        known = {id(item): part for item, part in zip(self._items, self._parts, strict=True)}
        whole = with_paired_outputs(items)
        return HistoryPrompt(whole, [known.get(id(item)) or encode_item(item) for item in whole], self.origins)

    def last_with(self, start: str) -> str | None:
        """Return the newest text part of a user or developer message that starts with ``start``, or None.

        Messages that an earlier call with the same start has read are not read again.
        """
        said = self._said
        read, newest = self._newest.get(start, (0, None))
        if read < len(said):
            found = _last_with(start, islice(reversed(said), len(said) - read))
            newest = newest if found is None else found
            if len(self._newest) >= _MOST_STARTS:
                self._newest.clear()
            self._newest[start] = len(said), newest
        return newest

    def _add(self, item: ResponseItem, encoded: bytes) -> None:
        self._items.append(item)
        self._parts.append(encoded)
        images = list(images_of(item))
        if images:
            self._pictured.append(item)
        self._uncounted_bytes += _model_bytes(item, encoded, images)
        self._track(item)

    def _track(self, item: ResponseItem) -> None:
        """Note messages, and count calls without output, so that the usual prompt needs no traversal."""
        if isinstance(item, Message):
            if item.role != "assistant":
                self._said.append(item)
        elif isinstance(item, (FunctionCall, CustomToolCall, LocalShellCall)):
            call_id = item.call_id or ""
            self._open_calls[call_id] = self._open_calls.get(call_id, 0) + 1
        elif isinstance(item, (FunctionCallOutput, CustomToolCallOutput)):
            count = self._open_calls.pop(item.call_id, 0) - 1
            if count > 0:
                self._open_calls[item.call_id] = count
            elif count < 0:
                self._orphans = True
        elif is_paired_unknown(item):
            self._orphans = True


def _last_with(start: str, messages: Iterable[Message]) -> str | None:
    """Return the first text that starts with ``start``, of messages that come newest first, or None."""
    packed_start: bytes | None = None
    for item in messages:
        packed = item.__dict__.get(PACKED)
        if packed is not None:
            if packed_start is None:
                packed_start = encode_json(start)[1:-1].encode()
            if packed_start not in packed:
                continue  # found without reading its JSON
        for part in reversed(item.content):
            text = getattr(part, "text", "")
            if text.startswith(start):
                return str(text)
    return None


def _model_bytes(item: ResponseItem, encoded: bytes, images: Sequence[InputImage]) -> int:
    """Return the estimated size of an item in bytes of text. Codex's estimates are used for other content."""
    if isinstance(item, Reasoning) and item.encrypted_content:
        return max(len(item.encrypted_content) * 3 // 4 - 650, 0)
    if PACKED in item.__dict__:
        return len(encoded)
    if isinstance(item, UnknownItem) and item.kind == "compaction":
        return max(len(str(item.raw.get("encrypted_content") or "")) * 3 // 4 - 650, 0)
    if (
        isinstance(item, UnknownItem)
        and item.kind == "image_generation_call"
        and isinstance(item.raw.get("result"), str)
    ):
        return max(len(encoded) - len(item.raw["result"]), 0) + _IMAGE_BYTES
    sent = [image.image_url for image in images if image.image_url.startswith("data:")]
    return len(encoded) - sum(map(len, sent)) + _IMAGE_BYTES * len(sent)
