"""The thread store of the configuration, for the commands."""

from __future__ import annotations

from typing import TypeVar

import attrs

from codex_framework import PluginContext, StoredThread, ThreadError, ThreadStore
from codex_framework.contract.roles.stores import ThreadPage, ThreadQuery
from codex_framework.toolkit.thread_stores import configured_store

__all__ = ["Sessions", "sessions_of"]

T = TypeVar("T")


@attrs.frozen
class Sessions:
    """The sessions of a home.

    Attributes:
        store: Their store.
        home: ``$CODEX_HOME``.
    """

    store: ThreadStore
    home: str

    def find(self, query: ThreadQuery) -> ThreadPage:
        """List sessions. Raises ThreadError."""
        return self.store.find(query, self.home)

    def load(self, name: str) -> StoredThread:
        """Read a session by id, name or file. Raises ThreadError."""
        return self.store.load(name, self.home)

    def id_of(self, name: str) -> str:
        """Return the id of a session by id, name or file. Raises ThreadError."""
        return self.store.load(name, self.home).meta.id


def sessions_of(context: PluginContext) -> Sessions:
    """Return the sessions of the configured store.

    Raises:
        ThreadError: No plugin offers it.
    """
    name, store = configured_store(context)
    if store is None:
        raise ThreadError(
            f"no plugin offers the thread store {name!r}",
            slug="no-store",
            hint="Enable the plugin `rollout`, or name another store in `[framework] thread_store`.",
        )
    return Sessions(store, str(context.codex_home))
