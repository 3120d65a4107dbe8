"""The deferred tools that a thread has offered to its model.

Apart from ``conversation``: it keeps a kind of entries in the record, and reads them back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from codex_framework.contract.roles.stores import PluginEntry

if TYPE_CHECKING:
    from codex_framework.threads.journal import Journal

__all__ = ["OfferedTools"]

_KIND = "offered_tools"
_NAMES = "names"


class OfferedTools(Collection[str]):
    """The names of deferred tools that the model is offered, in the order in which they were found.

    The names are kept in the record, so that a resumed thread offers the same tools. They are read when they are first needed.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._names: dict[str, None] | None = None

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __contains__(self, name: object) -> bool:
        return name in self._read()

    def __len__(self) -> int:
        return len(self._read())

    def add(self, names: Iterable[str], plugin: str) -> bool:
        """Add names on behalf of a plugin. Returns whether any of them is new."""
        known = self._read()
        new = [name for name in dict.fromkeys(names) if name not in known]
        if new:
            known.update(dict.fromkeys(new))
            self._journal.append_entry(PluginEntry(plugin=plugin, kind=_KIND, data={_NAMES: new}))
        return bool(new)

    def _read(self) -> dict[str, None]:
        if self._names is None:
            self._names = {}
            for data in self._journal.entries_of(_KIND):
                names = data.get(_NAMES)
                if isinstance(names, list):
                    self._names.update((name, None) for name in names if isinstance(name, str))
        return self._names
