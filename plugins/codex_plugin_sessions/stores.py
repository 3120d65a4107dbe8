"""The thread store of the configuration, for the commands."""

from __future__ import annotations

from typing import TypeVar

import attrs

from codex_framework import PluginContext, StoredThread, ThreadError, ThreadStore
from codex_framework.contract.roles.stores import ThreadPage, ThreadQuery

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
    framework = context.config.get("framework")
    wanted = framework.get("thread_store") if isinstance(framework, dict) else None
    name = wanted if isinstance(wanted, str) else "rollout"
    offered = context.offered(ThreadStore)  # type: ignore[type-abstract]
    if name not in offered:
        raise ThreadError(
            f"no plugin offers the thread store {name!r}",
            slug="no-store",
            hint="Enable the plugin `rollout`, or name another store in `[framework] thread_store`.",
        )
    return Sessions(offered[name].item, str(context.codex_home))
