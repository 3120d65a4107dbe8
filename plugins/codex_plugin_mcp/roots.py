"""Roots: the folder of the thread, for servers that ask where to work."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codex_framework import ThreadContext

__all__ = ["CAPABILITY", "Roots"]

CAPABILITY: Mapping[str, Any] = {"listChanged": True}
"""The client's capabilities under ``roots``."""


class Roots:
    """The roots of one thread: its working folder."""

    def __init__(self, thread: ThreadContext) -> None:
        self._thread = thread
        self._told = self._folder

    async def list(self, params: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002  # a handler's
        """Answer ``roots/list``."""
        folder = self._folder
        return {"roots": [{"uri": folder.as_uri(), "name": folder.name or str(folder)}]}

    def changed(self) -> bool:
        """Return whether the folder is another one than at the last call. Servers then get ``notifications/roots/list_changed``."""
        before, self._told = self._told, self._folder
        return before != self._told

    @property
    def _folder(self) -> Path:
        turn = self._thread.turn
        return Path(self._thread.settings.cwd if turn is None else turn.cwd)
