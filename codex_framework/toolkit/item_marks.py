"""Marks of items: short digests by which a record names items of the conversation that have no id."""

from __future__ import annotations

import functools
import importlib
import json
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["item_mark"]


def item_mark(payload: Any) -> str:
    """Return the mark of an item, given its JSON data: the same for equal items, whatever the order of their fields."""
    text = json.dumps(payload, sort_keys=True, separators=(",", ":"))
    digest: str = _sha256()(text.encode()).hexdigest()
    return digest[:16]


@functools.cache
def _sha256() -> Callable[[bytes], Any]:
    """Return SHA-256 of the interpreter itself. ``hashlib`` takes milliseconds to load, because it starts OpenSSL."""
    try:
        module = importlib.import_module("_sha2" if sys.version_info >= (3, 12) else "_sha256")
    except ImportError:  # a build without it
        module = importlib.import_module("hashlib")
    found: Callable[[bytes], Any] = module.sha256
    return found
