"""Marks of items: short digests by which a record names items of the conversation that have no id."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["item_mark"]


def item_mark(payload: Any) -> str:
    """Return the mark of an item, given its JSON data: the same for equal items, whatever the order of their fields."""
    import hashlib  # loading OpenSSL takes 2 ms, which most commands do not need

    text = json.dumps(payload, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
