"""The check of thread stores: flushed threads can be read back, and missing ones raise ThreadError."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from codex_framework.contract.errors import ThreadError
from codex_framework.contract.protocol.events import ItemCompletedEvent, TurnCompleteEvent
from codex_framework.contract.protocol.events.message import UserMessageEvent
from codex_framework.contract.protocol.items import (
    FunctionCall,
    FunctionCallOutput,
    Message,
    OutputText,
    ResponseItem,
    user_message,
)
from codex_framework.contract.roles.provenance import KIND
from codex_framework.contract.roles.stores import (
    EventEntry,
    ItemEntry,
    MetaEntry,
    PluginEntry,
    StoredThread,
    ThreadEntry,
    ThreadMeta,
    ThreadQuery,
    ThreadRecorder,
    ThreadStore,
    ThreadSummary,
    TurnContextEntry,
)
from codex_framework.testing.conformance.findings import Findings, Unmet
from codex_framework.toolkit.roles import overrides

__all__ = ["check_thread_store"]

T = TypeVar("T")

_FIRST: tuple[ResponseItem, ...] = (
    user_message("What is in \N{GREEK SMALL LETTER ALPHA}.txt?\n\x00"),
    FunctionCall("look", '{"at": "a"}', "call-1"),
    FunctionCallOutput("call-1", "nothing"),
    Message("assistant", (OutputText("Nothing."),)),
)
_SECOND: tuple[ResponseItem, ...] = (user_message("And now?"), Message("assistant", (OutputText("Still nothing."),)))


def check_thread_store(store: ThreadStore) -> None:
    """Check that a thread store fulfils its role. It writes two short threads to a temporary home.

    Raises:
        ContractViolation: It does not; every violation is listed.
    """
    findings = Findings("thread store", store)
    if findings.check_members(store, ThreadStore):
        findings.require_name(store)
        with tempfile.TemporaryDirectory() as home:
            try:
                _check_missing(findings, store, home)
                _check_thread(findings, store, home)
                _check_managing(findings, store, home)
            except Unmet:
                pass  # the failure is noted
    findings.raise_any()


def _check_missing(findings: Findings, store: ThreadStore, home: str) -> None:
    unknown = str(uuid.uuid4())
    for name in (unknown, "no such name", "/no/such/file.jsonl"):
        try:
            _call(findings, f"load({name!r})", lambda name=name: store.load(name, home))  # type: ignore[misc]
        except ThreadError as error:
            findings.require(str(error).strip(), f"load({name!r}) raises a ThreadError without text")
        else:
            findings.note(f"load({name!r}) finds a thread in an empty home; it must raise ThreadError")
    newest = _call(findings, "latest()", lambda: store.latest(home))
    findings.require(newest is None, f"latest() returns {newest!r} for an empty home")


def _check_thread(findings: Findings, store: ThreadStore, home: str) -> None:
    meta = _meta("/first")
    recorder = _call(findings, "create()", lambda: store.create(meta, home))
    if not findings.check_members(recorder, ThreadRecorder):
        raise Unmet
    _call(findings, "flush() of a thread without entries", recorder.flush)
    left = [path.name for path in Path(home).rglob("*") if path.is_file()]
    findings.require(not left, f"it writes {', '.join(left)} before the user has said anything")
    _record(findings, recorder, _FIRST)
    _compare(findings, store, home, meta, _FIRST, "what was flushed")
    _check_entries(findings, store, home, recorder, meta)
    _call(findings, "close()", recorder.close)
    _call(findings, "a second close()", recorder.close)
    stored = _load(findings, store, home, meta.id)
    again = _call(findings, "reopen()", lambda: store.reopen(stored, home))
    _record(findings, again, _SECOND)
    _call(findings, "close() of a reopened thread", again.close)
    _compare(findings, store, home, meta, _FIRST + _SECOND, "a thread that was gone on with")
    _check_latest(findings, store, home, meta)


_ENTRIES = (
    PluginEntry(
        plugin="check", kind="kind", data={"text": "\N{GREEK SMALL LETTER ALPHA}\n", "deep": [{"a": [1, None, True]}]}
    ),
    PluginEntry(plugin="", kind=KIND, data={"did": "changed", "patch": []}, turn_id="turn-1"),
    PluginEntry(plugin="check", kind=KIND, data={}, turn_id="turn-1"),
)


def _check_entries(
    findings: Findings, store: ThreadStore, home: str, recorder: ThreadRecorder, meta: ThreadMeta
) -> None:
    """Check that the entries of plugins, including the change record, are read back in order."""
    _call(findings, "append() of entries of plugins", lambda: recorder.append(list(_ENTRIES)))
    _call(findings, "flush()", recorder.flush)
    found = tuple(_load(findings, store, home, meta.id).entries)
    findings.require(found == _ENTRIES, f"load() returns other entries of plugins: {found!r}, not {_ENTRIES!r}")
    _check_turn_items(findings, store, home, recorder, meta)


def _check_turn_items(
    findings: Findings, store: ThreadStore, home: str, recorder: ThreadRecorder, meta: ThreadMeta
) -> None:
    """Check that a turn item is read back with its event."""
    item = ItemCompletedEvent(meta.id, "turn-1", {"type": "Plan", "id": "plan-1", "text": "1. Look"}, 0)
    _call(findings, "append() of a turn item", lambda: recorder.append([EventEntry(item)]))
    _call(findings, "flush()", recorder.flush)
    stored = _load(findings, store, home, meta.id)
    if not stored.turn_items:
        findings.require(item in stored.events, "load() returns neither the event nor the turn item of a plan")
        return
    places = [place for place, found in enumerate(stored.turn_items) if found == item]
    count, last = len(stored.events), len(stored.events) - 1
    findings.require(
        len(stored.turn_items) == count, f"load() returns {len(stored.turn_items)} turn items for {count} events"
    )
    findings.require(places == [last], f"the turn item of event {last}, the last one, is at {places}")


def _check_latest(findings: Findings, store: ThreadStore, home: str, first: ThreadMeta) -> None:
    second = _meta("/second")
    recorder = _call(findings, "create()", lambda: store.create(second, home))
    _record(findings, recorder, _FIRST)
    _call(findings, "close()", recorder.close)
    for cwd, want in ((first.cwd, first.id), (second.cwd, second.id), ("/nowhere", None)):
        found = _call(findings, f"latest(cwd={cwd!r})", lambda cwd=cwd: store.latest(home, cwd=cwd))  # type: ignore[misc]
        findings.require(found == want, f"latest(cwd={cwd!r}) returns {found!r}, not {want!r}")


def _check_managing(findings: Findings, store: ThreadStore, home: str) -> None:
    """Check the methods that a store can do without, if it has them."""
    own = {name for name in ("find", "fork", "rename", "archive", "delete") if overrides(store, ThreadStore, name)}
    newest = _call(findings, "latest()", lambda: store.latest(home)) or ""
    if "find" in own:
        found = _call(findings, "find()", lambda: store.find(ThreadQuery(limit=1), home))
        ids = [summary.id for summary in found.threads]
        findings.require(ids == [newest], f"find(limit=1) returns {ids}, not the newest thread")
        findings.require(found.cursor is not None, "find(limit=1) has no cursor, although there is another thread")
        rest = _call(findings, "find()", lambda: store.find(ThreadQuery(cursor=found.cursor), home))
        others = [summary.id for summary in rest.threads]
        findings.require(others and newest not in others, f"the page after {newest!r} is {others}")
        for summary in found.threads:
            _check_summary(findings, summary, _load(findings, store, home, summary.id).meta)
    if "fork" in own:
        _check_fork(findings, store, home, newest)
    if "rename" in own:
        _call(findings, "rename()", lambda: store.rename(newest, "a name", home))
        named = _load(findings, store, home, "a name").meta.id
        findings.require(named == newest, f"load() by name returns {named!r}, not {newest!r}")
    if "archive" in own:
        _call(findings, "archive()", lambda: store.archive(newest, home))
        findings.require(store.latest(home) != newest, "latest() returns an archived thread")
        _call(findings, "unarchive()", lambda: store.unarchive(newest, home))
        findings.require(store.latest(home) == newest, "latest() does not return the newest thread, which was archived")
    if "delete" in own:
        _call(findings, "delete()", lambda: store.delete(newest, home))
        try:
            store.load(newest, home)
        except ThreadError:
            pass
        else:
            findings.note("load() returns a thread that was deleted")


def _check_summary(findings: Findings, summary: ThreadSummary, meta: ThreadMeta) -> None:
    """Check the head of a thread in the list, if the store can read it cheaply."""
    want = (meta.id, meta.cwd, meta.source, meta.forked_from_id)
    found = (summary.id, summary.cwd, summary.source, summary.forked_from_id)
    findings.require(found == want, f"find() returns a thread with {found!r}, and load() with {want!r}")
    want_head = meta.evolve(base_instructions=None)
    findings.require(summary.meta in (None, want_head), f"find() returns the head {summary.meta!r}, not {want_head!r}")


def _check_fork(findings: Findings, store: ThreadStore, home: str, parent: str) -> None:
    from codex_framework.threads.ids import new_id

    new = new_id()
    _call(findings, "fork()", lambda: store.fork(parent, home, new_id=new))
    fork, whole = _load(findings, store, home, new), _load(findings, store, home, parent)
    findings.require(fork.history == whole.history, "a fork does not begin as the other thread")
    findings.require(fork.meta.forked_from_id == parent, "a fork does not say which thread it begins as")
    try:
        store.fork(parent, home, new_id=new_id(), at=1000)
    except ThreadError:
        pass
    else:
        findings.note("fork(at=1000) of a shorter thread succeeds; it must raise ThreadError")
    if overrides(store, ThreadStore, "delete"):
        _call(findings, "delete() of a fork", lambda: store.delete(new, home))


def _meta(cwd: str) -> ThreadMeta:
    import time

    from codex_framework.threads.ids import new_id

    return ThreadMeta(
        id=new_id(),
        cwd=cwd,
        created_at=time.time(),
        originator="check",
        source="check",
        cli_version="0",
        model_provider="check",
        base_instructions="Be brief.",
    )


def _record(findings: Findings, recorder: ThreadRecorder, items: tuple[ResponseItem, ...]) -> None:
    entries: list[ThreadEntry] = [TurnContextEntry({"turn_id": "turn-1", "model": "test-model", "cwd": "/first"})]
    for item in items:
        entries.append(ItemEntry(item))
        if isinstance(item, Message) and item.role == "user":
            entries.append(EventEntry(UserMessageEvent("asked")))
    entries.append(EventEntry(TurnCompleteEvent("turn-1", "answered", 0, 0)))
    _call(findings, "append()", lambda: recorder.append(entries))
    _call(findings, "append() of nothing", lambda: recorder.append([]))
    _call(findings, "append() of changed metadata", lambda: recorder.append([MetaEntry({"memory_mode": "disabled"})]))
    _call(findings, "flush()", recorder.flush)


def _load(findings: Findings, store: ThreadStore, home: str, thread_id: str) -> StoredThread:
    try:
        stored: object = _call(findings, "load()", lambda: store.load(thread_id, home))
    except ThreadError as error:
        findings.note(f"a thread that was flushed cannot be loaded: {error}")
        raise Unmet from error
    if not isinstance(stored, StoredThread):
        findings.note(f"load() returns {type(stored).__name__}, not a StoredThread")
        raise Unmet
    return stored


def _compare(
    findings: Findings, store: ThreadStore, home: str, meta: ThreadMeta, items: tuple[ResponseItem, ...], what: str
) -> None:
    stored = _load(findings, store, home, meta.id)
    findings.require(stored.meta.id == meta.id, f"{what} is read back with the id {stored.meta.id!r}, not {meta.id!r}")
    findings.require(stored.meta.cwd == meta.cwd, f"{what} is read back with the folder {stored.meta.cwd!r}")
    read = len(stored.history), len(items)
    mode = stored.meta.extra.get("memory_mode")
    findings.require(
        mode == "disabled", f"{what} is read back with the memory mode {mode!r}, not the mode of a MetaEntry"
    )
    findings.require(stored.history == items, f"{what} is not read back as it was ({read[0]} items of {read[1]})")
    findings.require(not stored.warnings, f"{what} is read back with warnings: {'; '.join(stored.warnings)}")


def _call(findings: Findings, what: str, function: Callable[[], T]) -> T:
    return findings.call(what, function, within_s=5.0, allowed=(ThreadError,))
