"""Tells clients that skills may have changed since they were listed."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from codex_plugin_app_server.file_watching import FileWatcher, Watch

__all__ = ["SkillWatch"]

_MOST_FOLDERS = 1_000
"""Folders that are watched; changes in further ones are not told."""

_GATHERING_S = 1.0
"""How long changes are gathered before clients are told."""


class SkillWatch:
    """Watches folders with skills: each of them, and the folders in it.

    Args:
        watcher: Watches files.
        tell: Tells clients that something has changed.
    """

    def __init__(self, watcher: FileWatcher, tell: Callable[[], None]) -> None:
        self._watcher = watcher
        self._tell = tell
        self._watches: dict[str, Watch] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def follow(self, roots: Iterable[str]) -> None:
        """Watch folders with skills, which need not exist. Folders beyond the system's limit are not watched."""
        for folder in await asyncio.to_thread(lambda: list(_with_children(roots))):
            if folder in self._watches or len(self._watches) >= _MOST_FOLDERS:
                continue
            watch = self._watches[folder] = Watch(folder, self._note)
            with contextlib.suppress(OSError, RuntimeError):
                await self._watcher.add(watch)

    def _note(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_GATHERING_S, self._announce)

    def _announce(self) -> None:
        self._timer = None
        for watch in self._watches.values():
            watch.take()
        self._tell()


def _with_children(roots: Iterable[str]) -> Iterator[str]:
    for root in roots:
        yield root
        with contextlib.suppress(OSError), os.scandir(root) as entries:
            yield from (str(Path(entry.path)) for entry in entries if entry.is_dir())
