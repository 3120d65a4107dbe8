"""The list of stored sessions: read page by page, searched in the conversations too, with previews."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from codex_client_terminal.items import agent_text, user_text
from codex_client_terminal.pickers import MOST_PREVIEWED, Entry, Picker
from codex_client_terminal.text import Line, one_line
from codex_client_terminal.transcript import Past, Transcript, past_items
from codex_framework import StoredThread, ThreadError, ThreadStore
from codex_framework.contract.roles.stores import ThreadQuery, ThreadSummary

__all__ = ["SessionPicker", "entry_of", "past_lines"]

_FIRST_PAGE, _PAGE = 50, 2_000
_MOST_MATCHES = 50
_PAUSE_S = 0.25
"""How long no key must have come before conversations are searched and read."""


class SessionPicker(Picker):
    """A list of stored sessions. The value that is chosen is the id of one.

    Args:
        folder: The sessions of which folder are shown at first.
        on_change: Called when there is more to show.
        open_conversation: Shows a title and lines until the person goes back.
    """

    def __init__(
        self,
        title: str,
        store: ThreadStore,
        home: str,
        folder: str | None,
        on_choice: Callable[[Any], None],
        *,
        on_change: Callable[[], None],
        open_conversation: Callable[[str, Sequence[Line]], Awaitable[None]],
    ) -> None:
        keys = {
            "c-a": ("all folders", self._toggle_folder),
            "c-t": ("read it", self._open_chosen),
        }
        super().__init__(title, (), on_choice, keys=keys)
        self._plain_title = title
        self._store, self._home = store, home
        self._folder, self._own_folder = folder, folder
        self._on_change = on_change
        self._open_conversation = open_conversation
        self._previews: dict[str, str] = {}
        self._matches: tuple[str, list[Entry]] = ("", [])
        self._tasks: set[asyncio.Task[None]] = set()
        self._pausing: asyncio.TimerHandle | None = None
        self._looking = False
        self._listing = self._start(self._list())
        self._show_title()

    def close(self) -> None:
        """Stop reading."""
        for task in self._tasks:
            task.cancel()
        if self._pausing is not None:
            self._pausing.cancel()

    def press(self, key: Any) -> bool:
        """Take a key."""
        used = super().press(key)
        self._look_soon()
        return used

    @property
    def found(self) -> Sequence[Entry]:
        """The sessions whose names, first messages and folders match, then those whose conversations do."""
        named = super().found
        text, matches = self._matches
        if not self.search or text != self.search:
            return named
        known = {entry.value for entry in named}
        return [*named, *(entry for entry in matches if entry.value not in known)]

    def preview(self, entry: Entry) -> str:
        """Return the end of the conversation, once it has been read."""
        return self._previews.get(entry.value, entry.preview)

    # The list

    def _toggle_folder(self) -> None:
        self._folder = None if self._folder else self._own_folder
        self._entries.clear()
        self._found, self._matches = None, ("", [])
        self._listing.cancel()
        self._listing = self._start(self._list())
        self._show_title()

    def _show_title(self) -> None:
        self.title = self._plain_title if self._folder else f"{self._plain_title} (all folders)"

    async def _list(self) -> None:
        cursor: str | None = None
        size = _FIRST_PAGE
        while True:
            query = ThreadQuery(limit=size, cursor=cursor, cwd=self._folder)
            page = await asyncio.to_thread(self._store.find, query, self._home)
            if not page.threads and cursor is None and self._folder:  # none of this folder
                self._folder = None
                self._show_title()
                continue
            self.add([entry_of(each) for each in page.threads])
            self._on_change()
            self._look_soon()
            cursor, size = page.cursor, _PAGE
            if cursor is None:
                return

    # Conversations

    def _look_soon(self) -> None:
        if self._pausing is not None:
            self._pausing.cancel()
        self._pausing = asyncio.get_running_loop().call_later(_PAUSE_S, self._look)

    def _look(self) -> None:
        if not self._looking:
            self._start(self._look_into_conversations())

    async def _look_into_conversations(self) -> None:
        """Search the conversations, and read the chosen one. Later requests are handled afterwards."""
        self._looking = True
        try:
            while True:
                if self.search.strip() and self._matches[0] != self.search:
                    await self._search_conversations(self.search)
                elif self.chosen is not None and self.chosen.value not in self._previews:
                    await self._read_preview(self.chosen.value)
                else:
                    return
                self._on_change()
        finally:
            self._looking = False

    async def _search_conversations(self, text: str) -> None:
        query = ThreadQuery(limit=_MOST_MATCHES, cwd=self._folder, text=text.strip())
        page = await asyncio.to_thread(self._store.find, query, self._home)
        self._matches = (text, [entry_of(each) for each in page.threads])

    async def _read_preview(self, thread_id: str) -> None:
        try:
            self._previews[thread_id] = await asyncio.to_thread(
                lambda: _preview_of(self._store.load(thread_id, self._home))
            )
        except ThreadError as error:
            self._previews[thread_id] = str(error)

    def _open_chosen(self) -> None:
        if self.chosen is not None:
            self._start(self._read(self.chosen))

    async def _read(self, chosen: Entry) -> None:
        lines = await asyncio.to_thread(lambda: past_lines(self._store.load(chosen.value, self._home)))
        await self._open_conversation(one_line(chosen.label, 60), lines)

    def _start(self, work: Awaitable[None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(self._guard(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _guard(self, work: Awaitable[None]) -> None:
        try:
            await work
        except ThreadError as error:
            self.title = f"{self._plain_title}: {error}"
            self._on_change()


def past_lines(stored: StoredThread) -> list[Line]:
    """Return the lines of a stored conversation."""
    return list(Transcript({}, cwd=stored.meta.cwd).print_past(Past.of(stored.events)))


def entry_of(summary: ThreadSummary) -> Entry:
    """Return the entry of a session in a list."""
    label = summary.name or summary.preview or summary.id
    about = f"{_age(summary.updated_at)} · {Path(summary.cwd).name}"
    return Entry(label, summary.id, f"“{summary.match}” · {about}" if summary.match else about, summary.preview or "")


def _age(moment: float) -> str:
    minutes = int(max(time.time() - moment, 0) // 60)
    if minutes < 60:
        return f"{minutes} min ago"
    return f"{minutes // 60} h ago" if minutes < 48 * 60 else f"{minutes // (60 * 24)} days ago"


def _preview_of(stored: StoredThread) -> str:
    """Return the newest messages of a conversation."""
    said = []
    for item in past_items(stored.events):
        if item.get("type") == "UserMessage":
            said.append(f"› {one_line(user_text(item))}")
        elif item.get("type") == "AgentMessage":
            said.append(f"• {one_line(agent_text(item))}")
    count = len(stored.turns)
    return "\n".join([f"{count} turn{'' if count == 1 else 's'}", *said[1 - MOST_PREVIEWED :]])
