"""The parts of a history that a Responses server accepts, encoded once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from codex_framework.contract.protocol.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    LocalShellCall,
    Message,
    Reasoning,
    ResponseItem,
    UnknownItem,
)
from codex_framework.contract.protocol.wire import encode_item
from codex_framework.contract.roles.models import Prompt
from codex_lib_model_client.call_pairing import ID_CHARACTERS, SentCallIds
from codex_lib_model_client.private_data import is_foreign
from codex_lib_model_client.refused_parts import without_images

__all__ = ["SendableItems"]

_LONGEST_ID = 64
_BEGINNINGS = {Message: "msg", FunctionCall: "fc", CustomToolCall: "ctc", LocalShellCall: "lsh"}
"""How the ids of items begin. Servers refuse others, but take items without an id."""


class SendableItems:
    """Encodes prompts without parts that a server would refuse.

    Items that were encoded for the last prompt are not encoded again.

    These parts are reasoning with private data of another API, and reasoning that has only an id, which is useless if the
    server stores nothing. Ids of items that another server wrote in another form, or that occur twice, are left out; ids of
    calls are converted.

    Args:
        store: Whether the server stores responses.
    """

    def __init__(self, *, store: bool) -> None:
        self._store = store
        self._forget(images=True, short_ids=False)

    def _forget(self, *, images: bool, short_ids: bool) -> None:
        self._images = images
        self._short_ids = short_ids
        self._seen: list[ResponseItem] = []
        self._parts: list[bytes] | None = None
        self._ids: set[str] = set()
        self._calls = SentCallIds(ID_CHARACTERS, short=short_ids)

    def encoded(self, prompt: Prompt, *, images: bool = True, short_ids: bool = False) -> bytes:
        """Return a prompt's items as a JSON array in UTF-8.

        Args:
            images: Whether the server takes images.
            short_ids: Whether ids of calls have nine letters and digits.
        """
        items, count = prompt.items, len(self._seen)
        is_same = (images, short_ids) == (self._images, self._short_ids) and list(items[:count]) == self._seen
        if not is_same:
            self._forget(images=images, short_ids=short_ids)
            count = 0
        for item in items[count:]:
            sent = self._sendable_item(item)
            if self._parts is None and sent is not item:
                self._parts = [encode_item(same) for same in self._seen]
            if self._parts is not None:
                self._parts.append(b"" if sent is None else encode_item(sent))
            self._seen.append(item)
        return prompt.encoded() if self._parts is None else _array(self._parts)

    def alone(self, items: Sequence[ResponseItem], *, images: bool = True) -> bytes:
        """Return some items as a JSON array in UTF-8.

        They follow items that the server has, so the ids of their calls are the server's.
        """
        taken = [item for item in items if type(item) is not Reasoning or not self._is_refused(item)]
        ids = set(self._ids)
        return _array(encode_item(_with_fitting_id(item if images else without_images(item), ids)) for item in taken)

    def _sendable_item(self, item: ResponseItem) -> ResponseItem | None:
        """Return an item in the form that is sent, or None if the server refuses it."""
        if type(item) is Reasoning and self._is_refused(item):
            return None
        if not self._images:
            item = without_images(item)
        item = _with_fitting_id(item, self._ids)
        if isinstance(item, (FunctionCall, CustomToolCall, LocalShellCall)):
            call_id = self._calls.of_call(item.call_id)
        elif isinstance(item, (FunctionCallOutput, CustomToolCallOutput)):
            call_id = self._calls.of_output(item.call_id)
        else:
            return item
        return item if call_id == item.call_id else item.evolve(call_id=call_id)

    def _is_refused(self, item: Reasoning) -> bool:
        if item.extra and is_foreign(item, "responses"):
            return True
        return not self._store and not item.encrypted_content and not item.content


def _with_fitting_id(item: ResponseItem, ids: set[str]) -> ResponseItem:
    """Return an item, without its id if that has another form, or is among the ids so far."""
    if isinstance(item, UnknownItem) or item.id is None:
        return item
    item_id, beginning = item.id, _BEGINNINGS.get(type(item), "")
    if isinstance(item_id, str) and item_id not in ids and item_id.startswith(beginning):
        ids.add(item_id)
        if 1 <= len(item_id) <= _LONGEST_ID and not item_id.strip(ID_CHARACTERS):
            return item
    return item.evolve(id=None)


def _array(parts: Iterable[bytes]) -> bytes:
    return b"[" + b",".join(part for part in parts if part) + b"]"
