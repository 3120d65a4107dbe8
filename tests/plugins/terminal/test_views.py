"""The views in place of the composer: lists, the list of sessions, and conversations to read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from codex_client_terminal import session_picker
from codex_client_terminal.keys import Key, Paste
from codex_client_terminal.pickers import Entry, Picker
from codex_client_terminal.session_picker import SessionPicker
from codex_client_terminal.text import Line, plain_text, width_of
from codex_client_terminal.viewer import Viewer
from codex_framework import StoredThread, ThreadError, ThreadMeta, ThreadStore
from codex_framework.contract.protocol.events import AgentMessageEvent, UserMessageEvent
from codex_framework.contract.roles.stores import ThreadPage, ThreadQuery, ThreadSummary

HOSTILE = "\x1b]0;owned\x07\u202e\x9b31m" + "x" * 100_000


def texts(view: Any, width: int = 80) -> list[str]:
    lines, _ = view.lines(width)
    return [plain_text(line) for line in lines]


class Sessions(ThreadStore):
    """A store with many sessions in two folders, one of which says something in its conversation."""

    name = "many"

    def __init__(self, count: int = 120) -> None:
        self.queries: list[ThreadQuery] = []
        self._all = [
            ThreadSummary(
                id=f"t{n}",
                cwd="/w/here" if n % 2 else "/w/there",
                created_at=0,
                updated_at=0,
                source="cli",
                preview=f"task {n}",
            )
            for n in range(count)
        ]

    def find(self, query: ThreadQuery, codex_home: str) -> ThreadPage:
        self.queries.append(query)
        if query.text == "broken":
            raise ThreadError("the disk is on fire", slug="thread-unreadable", hint="Run.")
        found = [each for each in self._all if query.cwd in (None, each.cwd)]
        if query.text:
            found = [each.evolve(match=f"said {HOSTILE}") for each in found if each.id == "t99"]
        start = int(query.cursor or 0)
        end = start + query.limit
        return ThreadPage(threads=tuple(found[start:end]), cursor=str(end) if end < len(found) else None)

    def load(self, thread_id: str, codex_home: str) -> StoredThread:
        if thread_id == "t3":
            raise ThreadError("it is damaged", slug="thread-unreadable", hint="Repair it.")
        meta = ThreadMeta(
            id=thread_id, cwd="/w", created_at=0, originator="", source="cli", cli_version="", model_provider=""
        )
        said = (UserMessageEvent(message=f"asked {thread_id}"), AgentMessageEvent(message=f"answered {HOSTILE}"))
        return StoredThread(meta=meta, history=(), events=said)


class Opened:
    """A list of sessions in a loop, with what it has answered and opened."""

    def __init__(self, store: ThreadStore, folder: str | None) -> None:
        self.answers: list[Any] = []
        self.read: list[tuple[str, Sequence[Line]]] = []
        self._changed = asyncio.Event()
        self.picker = SessionPicker(
            "Resume",
            store,
            "/home",
            folder,
            self.answers.append,
            on_change=self._changed.set,
            open_conversation=self._open,
        )

    async def _open(self, title: str, lines: Sequence[Line]) -> None:
        self.read.append((title, lines))
        self._changed.set()

    def type(self, text: str) -> None:
        for letter in text:
            self.picker.press(Key(letter))

    async def until(self, find: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not find():
                await self._changed.wait()
                self._changed.clear()


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_picker, "_PAUSE_S", 0.0)


def test_sessions_are_listed_by_pages_and_found_by_words_of_their_conversations() -> None:
    async def choose() -> None:
        opened = Opened(Sessions(), "/w/here")
        await opened.until(lambda: len(opened.picker.found) == 60)
        opened.type("task 11")
        assert [entry.value for entry in opened.picker.found] == ["t11", "t111", "t113", "t115", "t117", "t119"]
        opened.picker.search = ""
        opened.type("secret")
        await opened.until(lambda: [entry.value for entry in opened.picker.found] == ["t99"])
        await opened.until(lambda: any("asked t99" in row for row in texts(opened.picker)))
        assert all(width_of(row) <= 80 and row.isprintable() for row in texts(opened.picker))
        opened.picker.press(Key("c-t"))
        await opened.until(lambda: bool(opened.read))
        assert any("asked t99" in plain_text(line) for line in opened.read[0][1])
        opened.picker.press(Key("enter"))
        assert opened.answers == ["t99"]
        opened.picker.close()

    asyncio.run(choose())


def test_sessions_of_all_folders_are_shown_if_there_are_none_here_or_by_a_key() -> None:
    async def choose() -> None:
        opened = Opened(Sessions(), "/w/empty")
        await opened.until(lambda: len(opened.picker.found) == 120)
        assert "all folders" in opened.picker.title
        opened = Opened(Sessions(), "/w/there")
        await opened.until(lambda: len(opened.picker.found) == 60)
        opened.picker.press(Key("c-a"))
        await opened.until(lambda: len(opened.picker.found) == 120)
        opened.picker.close()

    asyncio.run(choose())


def test_what_cannot_be_read_is_reported_in_the_list() -> None:
    async def choose() -> None:
        opened = Opened(Sessions(5), "/w/here")
        await opened.until(lambda: len(opened.picker.found) == 2)
        opened.picker.press(Key("down"))
        await opened.until(lambda: any("it is damaged" in row for row in texts(opened.picker)))
        opened.type("broken")
        await opened.until(lambda: "on fire" in opened.picker.title)
        opened.picker.press(Key("esc"))
        assert opened.answers == [None]
        opened.picker.close()

    asyncio.run(choose())


def test_a_list_shows_hostile_texts_harmlessly() -> None:
    chosen: list[Any] = []
    picker = Picker(HOSTILE, [Entry(HOSTILE, 1, HOSTILE, HOSTILE), Entry("plain", 2)], chosen.append)
    picker.press(Paste(f"{HOSTILE[:3]}\nplain"))
    for width in (10, 40, 400):
        assert all(width_of(row) <= width and row.isprintable() for row in texts(picker, width))
    picker.search = ""
    assert all(width_of(row) <= 40 and row.isprintable() for row in texts(picker, 40))
    picker.press(Key("down"))
    picker.press(Key("down"))
    picker.press(Key("enter"))
    assert chosen == [2]


def test_a_conversation_is_scrolled_and_stays_where_it_is_read() -> None:
    closed: list[Any] = []
    running: list[Line] = [[("working", "")]]
    viewer = Viewer(
        "title",
        [[(f"line {n}", "")] for n in range(100)],
        height=lambda: 15,
        on_close=closed.append,
        running=lambda _: running,
    )
    assert texts(viewer)[-4:] == ["line 98", "line 99", "working", "  arrows and page keys scroll · esc goes back"]
    viewer.press(Key("pageup"))
    shown = texts(viewer)[1:-1]
    viewer.add([[("new " * 100, "")]])
    assert texts(viewer)[1:-1] == shown
    viewer.press(Key("home"))
    assert texts(viewer)[1] == "line 0"
    assert texts(viewer, 20)[1] == "line 0"
    viewer.press(Key("end"))
    assert texts(viewer)[-2] == "working"
    viewer.press(Key("esc"))
    assert closed == [None]
