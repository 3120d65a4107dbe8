"""Watches files and folders for clients, with watchdog.

A path is watched through its folder, so that it may be created, replaced, removed and created again. If that folder does not
exist, the nearest existing parent is watched. The system's events arrive on a thread of watchdog, and are gathered for the
event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["FileWatcher", "Watch"]

_EVENTS = (
    "FileAttribEvent",
    "FileCreatedEvent",
    "FileDeletedEvent",
    "FileModifiedEvent",
    "FileMovedEvent",
    "DirAttribEvent",
    "DirCreatedEvent",
    "DirDeletedEvent",
    "DirMovedEvent",
)
"""Events that count as changes. Opening a file and changes of a folder's contents do not count."""

_MOST_CHANGES = 10_000
"""The maximum number of reported changed paths. If there are more, only the watched path is reported."""

_TRIES = 100
"""How often the folders of a path are looked up while they change."""


class Watch:
    """A watched path.

    Args:
        on_change: Called when something has changed. :meth:`take` returns what.
    """

    def __init__(self, path: str, on_change: Callable[[], None]) -> None:
        self.path = path
        self.folders: dict[str, str] = {}  # the real path of each folder that is watched for it: its name
        self._on_change = on_change
        self._changed: set[str] = set()
        self._kind: str | None = None

    def add(self, path: str) -> None:
        """Take note of a change."""
        if not _is_text(path):
            return
        if len(self._changed) >= _MOST_CHANGES:
            self._changed = {self.path}
        self._changed.add(path)
        self._on_change()

    def take(self) -> list[str]:
        """Return the paths that have changed since the last time, in order."""
        changed, self._changed = self._changed, set()
        return sorted(changed)

    def note_kind(self, kind: str) -> bool:
        """Take note of what there is at the path. Return whether that has changed."""
        before, self._kind = self._kind, kind
        if before in (None, kind):
            return False
        self.add(self.path)
        return True


def _look(path: str) -> tuple[dict[str, str], str]:
    """Return the folders to watch for a path, and what there is at it."""
    folders = {}
    kind = "folder" if Path(path).is_dir() else "file" if os.path.lexists(path) else "nothing"
    if kind == "folder":
        folders[os.path.realpath(path)] = path
    above = Path(path).parent
    while not above.is_dir():
        above = above.parent
    folders.setdefault(os.path.realpath(above), str(above))
    return folders, kind


def _children(path: str) -> list[str]:
    try:
        return [str(child) for child in Path(path).iterdir()]
    except OSError:
        return []


class FileWatcher:
    """Watches for any number of clients, with one descriptor of inotify on Linux."""

    def __init__(self) -> None:
        self._observer: Any = None
        self._watches: set[Watch] = set()
        self._observed: dict[str, Any] = {}  # by the real path of a folder
        self._gone: set[str] = set()  # folders that no longer exist, of which the system tells nothing more
        self._events: deque[tuple[str, str]] = deque()  # folder and name
        self._is_delivering = False
        self._lock = asyncio.Lock()
        self._unsettled: set[Watch] = set()
        self._settling: asyncio.Task[None] | None = None

    async def add(self, watch: Watch) -> None:
        """Watch a path. Raises OSError or RuntimeError if the system has no room for that."""
        self._watches.add(watch)
        try:
            await self._settle(watch)
        except BaseException:
            self.remove(watch)
            raise

    def remove(self, watch: Watch) -> None:
        """Watch a path no longer."""
        self._watches.discard(watch)
        watch.folders = {}
        self._start_settling()

    async def aclose(self) -> None:
        """End the threads."""
        if self._settling is not None:
            await asyncio.wait((self._settling,))
        if self._observer is not None:
            self._observer.stop()
            await asyncio.to_thread(self._observer.join)

    def _start_settling(self) -> None:
        if self._settling is None or self._settling.done():
            self._settling = asyncio.ensure_future(self._settle_all())

    async def _settle_all(self) -> None:
        """Watch the folders that all paths need now, and no others."""
        while self._unsettled:
            watch = self._unsettled.pop()
            with contextlib.suppress(OSError, RuntimeError):
                await self._settle(watch)
        async with self._lock:
            await asyncio.to_thread(self._drop_unused)

    async def _settle(self, watch: Watch) -> None:
        """Watch the folders that a path needs now. They may change meanwhile."""
        loop = asyncio.get_running_loop()
        async with self._lock:
            for _ in range(_TRIES):
                folders, kind = await asyncio.to_thread(_look, watch.path)
                has_come = watch.note_kind(kind) and kind == "folder"
                watch.folders = folders if watch in self._watches else {}
                try:
                    await asyncio.to_thread(self._observe, folders, loop)
                except FileNotFoundError:
                    continue
                if has_come:  # before it was watched, which was too late for what it contains
                    for child in await asyncio.to_thread(_children, watch.path):
                        watch.add(child)
                if (folders, kind) == await asyncio.to_thread(_look, watch.path):
                    break

    def _observe(self, folders: dict[str, str], loop: asyncio.AbstractEventLoop) -> None:
        from watchdog import events
        from watchdog.observers import Observer

        take = self._take_event

        class Handler(events.FileSystemEventHandler):
            def __init__(self, folder: str) -> None:
                self._folder = folder

            def dispatch(self, event: events.FileSystemEvent) -> None:
                take(self._folder, event, loop)

        if self._observer is None:
            observer = Observer()
            observer.daemon = True
            observer.start()
            self._observer = observer
        gone, self._gone = self._gone, set()
        for folder in gone.intersection(self._observed):
            self._stop(folder)
        kinds = [getattr(events, name) for name in _EVENTS]
        for folder in folders:
            if folder not in self._observed:
                self._observed[folder] = self._observer.schedule(Handler(folder), folder, event_filter=kinds)

    def _drop_unused(self) -> None:
        used = {folder for watch in tuple(self._watches) for folder in tuple(watch.folders)}
        for folder in [each for each in self._observed if each not in used]:
            self._stop(folder)

    def _stop(self, folder: str) -> None:
        with contextlib.suppress(KeyError, OSError):
            self._observer.unschedule(self._observed.pop(folder))

    def _take_event(self, folder: str, event: Any, loop: asyncio.AbstractEventLoop) -> None:
        """Take an event of a folder, on watchdog's thread."""
        prefix = folder.rstrip("/") + "/"
        for path in map(str, (event.src_path, event.dest_path)):
            name = path.removeprefix(prefix)
            if path == folder and event.event_type in ("deleted", "moved"):
                name = ""
            elif path in ("", folder) or "/" in name:
                continue
            self._events.append((folder, name))
            if not self._is_delivering:
                self._is_delivering = True
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._is_delivering = False
        events: dict[tuple[str, str], None] = {}
        while self._events:
            events[self._events.popleft()] = None
        for folder, name in events:
            if not name:
                self._gone.add(folder)
            for watch in tuple(self._watches):
                if (named := watch.folders.get(folder)) is None:
                    continue
                path = str(Path(named, name))
                if path == watch.path or watch.path.startswith(f"{path}/") or not name:
                    self._unsettled.add(watch)
                if name and watch.path in (path, named):
                    watch.add(path)
        if self._unsettled:
            self._start_settling()


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
