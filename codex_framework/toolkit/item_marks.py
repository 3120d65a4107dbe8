"""Marks of items: short digests by which a record names items of the conversation that have no id."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.contract.protocol.wire import encode_item

__all__ = ["item_mark", "mark_of"]


def item_mark(payload: Any) -> str:
    """Return the mark of an item, given its JSON data: equal for equal items, independent of the order of their fields."""
    import hashlib  # loading OpenSSL takes 2 ms, which most commands do not need

    text = json.dumps(payload, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def mark_of(item: ResponseItem) -> str:
    """Return the mark of an item."""
    return _mark_of_encoded(encode_item(item))


@lru_cache(maxsize=8)
def _mark_of_encoded(encoded: bytes) -> str:  # the threads of a kernel begin with the same context
    return item_mark(json.loads(encoded))
