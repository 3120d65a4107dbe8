"""Which items of a history a Responses server can take, encoded once."""

from __future__ import annotations

from collections.abc import Sequence

from codex_framework.contract.protocol.items import Reasoning, ResponseItem
from codex_framework.contract.protocol.wire import encode_item
from codex_framework.contract.roles.models import Prompt
from codex_lib_model_client.private_data import is_foreign

__all__ = ["SendableItems"]


class SendableItems:
    """Encodes prompts without the reasoning that a server would refuse.

    That is reasoning with private data of another API, and reasoning that could only be referred to by its id: if the server stores
    nothing, an id without encrypted or raw content leads to nothing. Items that were encoded for the last prompt are not encoded
    again.

    Args:
        store: Whether the server stores responses.
    """

    def __init__(self, *, store: bool) -> None:
        self._store = store
        self._encoded: list[tuple[ResponseItem, bytes]] = []
        self._accepted: tuple[ResponseItem, ...] = ()

    def encoded(self, prompt: Prompt) -> bytes:
        """Return a prompt's items as a JSON array in UTF-8."""
        items = prompt.items
        if self._accepts(items):
            return prompt.encoded()
        known = self._encoded
        same = 0
        for (item, _), other in zip(known, items, strict=False):
            if item is not other:
                break
            same += 1
        del known[same:]
        known += [(item, self._sent(item)) for item in items[same:]]
        return b"[" + b",".join(encoded for _, encoded in known if encoded) + b"]"

    def _accepts(self, items: Sequence[ResponseItem]) -> bool:
        """Return whether nothing is refused. Only items that the last prompt did not have are looked at, as histories grow."""
        count = len(self._accepted)
        start = count if tuple(items[:count]) == self._accepted else 0
        if any(type(item) is Reasoning and self._is_refused(item) for item in items[start:]):
            self._accepted = ()
            return False
        self._accepted = tuple(items)
        return True

    def alone(self, items: Sequence[ResponseItem]) -> bytes:
        """Return some items as a JSON array in UTF-8."""
        return b"[" + b",".join(encoded for item in items if (encoded := self._sent(item))) + b"]"

    def _sent(self, item: ResponseItem) -> bytes:
        return b"" if type(item) is Reasoning and self._is_refused(item) else encode_item(item)

    def _is_refused(self, item: Reasoning) -> bool:
        if item.extra and is_foreign(item, "responses"):
            return True
        return not self._store and not item.encrypted_content and not item.content
