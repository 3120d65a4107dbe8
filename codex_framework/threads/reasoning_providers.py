"""The model providers that wrote the reasoning of a conversation.

Reasoning is encrypted, or signed, by the provider that wrote it, and only that provider can use it. So it is never sent to
another provider. Reasoning of unknown origin is assumed to come from the thread's own provider, which its metadata names. So a
thread that never changes its provider needs no record of origins.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from codex_framework.contract.protocol.items import Reasoning, ResponseItem, UnknownItem
from codex_framework.contract.protocol.wire import encode_item
from codex_framework.contract.roles.stores import PluginEntry
from codex_framework.threads.journal import Journal
from codex_framework.toolkit.item_marks import item_mark

__all__ = ["ReasoningProviders"]

_KIND = "reasoning_origin"
_PRIVATE = "internal_chat_message_metadata_passthrough"
"""A field that records leave out, so that it is no part of an item's name."""

_HOME, _PROVIDER, _ITEMS = "home", "provider", "items"


class ReasoningProviders:
    """The providers of one thread's reasoning.

    Args:
        own: The provider that the thread's metadata names.
        inherited: The providers of the thread whose history this one starts with.
    """

    def __init__(self, journal: Journal, own: str, inherited: ReasoningProviders | None = None) -> None:
        self._journal = journal
        self._home = own
        self._others: dict[str, str] = {}
        for data in journal.entries("", _KIND):
            self._read(data)
        if inherited is not None:
            self._inherit(inherited)

    def is_pure(self, provider: str) -> bool:
        """Return whether this provider has written all reasoning, as far as is known. Most threads never have another one."""
        return provider == self._home and not self._others

    def note(self, item: ResponseItem, provider: str, turn_id: str) -> None:
        """Record which provider wrote an item, unless that goes without saying."""
        if provider == self._home or not _is_private(item):
            return
        key = _key(item)
        self._others[key] = provider
        self._write({_PROVIDER: provider, _ITEMS: [key]}, turn_id)

    def foreign(self, items: Sequence[ResponseItem], provider: str) -> set[int]:
        """Return the places of the items that only another provider can use."""
        return {place for place, item in enumerate(items) if _is_private(item) and self._writer(item) != provider}

    def _writer(self, item: ResponseItem) -> str:
        # Older records name items by their id alone.
        return self._others.get(_key(item)) or self._others.get(_id(item)) or self._home

    def _inherit(self, other: ReasoningProviders) -> None:
        if other._home != self._home:
            self._home = other._home
            self._write({_HOME: self._home})
        by_provider: dict[str, list[str]] = {}
        for key, provider in other._others.items():
            by_provider.setdefault(provider, []).append(key)
        for provider, keys in by_provider.items():
            self._write({_PROVIDER: provider, _ITEMS: keys})
        self._others.update(other._others)

    def _read(self, data: Mapping[str, Any]) -> None:
        home, provider, items = data.get(_HOME), data.get(_PROVIDER), data.get(_ITEMS)
        if isinstance(home, str):
            self._home = home
        if isinstance(provider, str) and isinstance(items, Sequence):
            self._others.update({str(key): provider for key in items})

    def _write(self, data: Mapping[str, Any], turn_id: str | None = None) -> None:
        self._journal.append_entry(PluginEntry(plugin="", kind=_KIND, data=data, turn_id=turn_id))


def _is_private(item: ResponseItem) -> bool:
    """Return whether only the provider that wrote an item can use it: reasoning, and other items with encrypted content."""
    return isinstance(item, Reasoning) or (isinstance(item, UnknownItem) and "encrypted_content" in item.raw)


def _key(item: ResponseItem) -> str:
    """Return the name of an item in the record: its id, if any, and a digest of what only its provider can use.

    An id alone is not enough, because several providers may use the same one (``rs_1``).
    """
    wire = json.loads(encode_item(item))
    mark = item_mark(wire.get("encrypted_content") or {key: part for key, part in wire.items() if key != _PRIVATE})
    name = _id(item)
    return f"{name} {mark}" if name else mark


def _id(item: ResponseItem) -> str:
    name = item.raw.get("id") if isinstance(item, UnknownItem) else getattr(item, "id", None)
    return name if isinstance(name, str) else ""
