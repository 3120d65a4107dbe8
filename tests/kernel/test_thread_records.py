"""What follows from the entries of a thread, for every thread store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from codex_framework import ThreadError, ThreadMeta
from codex_framework.contract.protocol.events import (
    AgentMessageEvent,
    EventMsg,
    ItemCompletedEvent,
    PluginEvent,
    ThreadRolledBackEvent,
    TokenCountEvent,
    TokenUsage,
    TokenUsageInfo,
    TurnCompleteEvent,
    TurnStartedEvent,
    UserMessageEvent,
)
from codex_framework.contract.protocol.items import (
    FunctionCall,
    FunctionCallOutput,
    Message,
    OutputText,
    ResponseItem,
    message_text,
    user_message,
)
from codex_framework.contract.roles.stores import (
    CompactedEntry,
    EventEntry,
    ItemEntry,
    MetaEntry,
    PluginEntry,
    ThreadEntry,
    ThreadQuery,
    ThreadSummary,
    TurnContextEntry,
)
from codex_framework.toolkit.thread_records import (
    BufferedRecorder,
    ThreadState,
    begins_thread,
    changed_meta,
    decode_entry,
    decode_meta,
    encode_entry,
    encode_meta,
    find_id,
    fold_entries,
    fork_record,
    page_of,
    preview_of,
    searchable_text,
    summary_of,
)

META = ThreadMeta(
    id="0192aaaa",
    cwd="/project",
    created_at=5.5,
    originator="tests",
    source="exec",
    cli_version="0",
    model_provider="p",
    base_instructions="Be brief.",
    git={"branch": "main"},
    extra={"memory_mode": "enabled"},
)


def summary(meta: ThreadMeta, entries: Sequence[ThreadEntry] = (), **fields: Any) -> ThreadSummary:
    fields = {"updated_at": 1.0, "preview": preview_of(entries), **fields}
    return summary_of(changed_meta(meta, entries), **fields)


def spent(tokens: int) -> TokenCountEvent:
    return TokenCountEvent(TokenUsageInfo(TokenUsage(total_tokens=tokens), TokenUsage(total_tokens=tokens)))


def turn(number: int, *more: ThreadEntry) -> list[ThreadEntry]:
    """Return the entries of a turn: a question, its answer, and what it cost."""
    answer = Message("assistant", (OutputText(f"answer {number}"),))
    return [
        EventEntry(TurnStartedEvent(f"turn-{number}")),
        TurnContextEntry({"turn_id": f"turn-{number}"}),
        ItemEntry(user_message(f"question {number}")),
        EventEntry(UserMessageEvent(f"question {number}")),
        *more,
        ItemEntry(answer),
        EventEntry(AgentMessageEvent(f"answer {number}")),
        EventEntry(spent(number)),
        EventEntry(TurnCompleteEvent(f"turn-{number}")),
    ]


def said(items: Sequence[ResponseItem]) -> list[str]:
    return [message_text(item) for item in items if isinstance(item, Message)]


def shown(events: Sequence[EventMsg]) -> list[str]:
    return [event.message for event in events if isinstance(event, (UserMessageEvent, AgentMessageEvent))]


def test_turns_are_folded_into_history_events_and_settings() -> None:
    stored = fold_entries(META, turn(1) + turn(2))
    assert said(stored.history) == ["question 1", "answer 1", "question 2", "answer 2"]
    assert shown(stored.events) == said(stored.history)
    assert [(each.id, stored.events[each.first_event]) for each in stored.turns] == [
        ("turn-1", TurnStartedEvent("turn-1")),
        ("turn-2", TurnStartedEvent("turn-2")),
    ]
    assert stored.last_turn_context == {"turn_id": "turn-2"}
    assert (stored.meta, stored.warnings) == (META, ())


def test_a_rollback_restores_what_was_before_a_turn_but_not_the_tokens() -> None:
    own = PluginEntry(plugin="p", kind="k", data={}, turn_id="turn-2")
    kept = PluginEntry(plugin="p", kind="k", data={"always": True})
    compacted = CompactedEntry("short", (user_message("short"),))
    rolled_back: list[ThreadEntry] = [EventEntry(ThreadRolledBackEvent(1))]
    stored = fold_entries(META, turn(1) + turn(2, own, kept, compacted) + rolled_back)
    assert said(stored.history) == shown(stored.events) == ["question 1", "answer 1"]
    assert stored.events[-1] == spent(2)
    assert stored.entries == (kept,)
    assert stored.last_turn_context == {"turn_id": "turn-1"}
    assert [each.id for each in stored.turns] == ["turn-1"]
    assert said(fold_entries(META, turn(1) + turn(2) + turn(3) + rolled_back * 2).history) == ["question 1", "answer 1"]
    assert said(fold_entries(META, [*turn(1), EventEntry(ThreadRolledBackEvent(9))]).history) == []


def test_a_compaction_replaces_the_history_and_leaves_the_events() -> None:
    stored = fold_entries(META, [*turn(1), CompactedEntry("short", (user_message("short"),)), *turn(2)])
    assert said(stored.history) == ["short", "question 2", "answer 2"]
    assert shown(stored.events)[:2] == ["question 1", "answer 1"]


def test_a_message_within_a_turn_begins_no_turn() -> None:
    stored = fold_entries(META, turn(1, ItemEntry(user_message("and this"))))
    assert [each.id for each in stored.turns] == ["turn-1"]


def test_a_call_without_an_output_gets_one() -> None:
    call = FunctionCall("look", "{}", "call-1")
    assert fold_entries(META, [*turn(1)[:4], ItemEntry(call)]).history[-1] == FunctionCallOutput("call-1", "aborted")


def test_a_turn_item_is_shown_as_older_events_and_stays_beside_them() -> None:
    item = {"type": "AgentMessage", "id": "m", "content": [{"type": "Text", "text": "hello"}]}
    event = ItemCompletedEvent(META.id, "turn-1", item, 0)
    stored = fold_entries(META, [*turn(1), EventEntry(event)])
    assert (stored.events[-1], stored.turn_items[-1]) == (AgentMessageEvent("hello"), event)
    assert len(stored.turn_items) == len(stored.events)
    assert fold_entries(META, turn(1)).turn_items == ()


def test_the_newest_field_of_the_head_counts_in_forks_too() -> None:
    entries = turn(1, MetaEntry({"memory_mode": "polluted"})) + turn(2, MetaEntry({"memory_mode": "disabled"}))
    assert fold_entries(META, entries).meta.extra == {"memory_mode": "disabled"}
    assert summary(META, entries).meta == META.evolve(base_instructions=None, extra={"memory_mode": "disabled"})
    fork = fold_entries(*fork_record(META, entries, new_id="new", at=1))
    assert fork.meta.extra == {"memory_mode": "disabled"}
    assert (fork.meta.id, fork.meta.forked_from_id) == ("new", META.id)


@pytest.mark.parametrize(("at", "last"), [(None, 3), (3, 3), (1, 1), ("turn-2", 2)])
def test_a_fork_ends_with_the_turn_that_was_named(at: int | str | None, last: int) -> None:
    entries = turn(1) + turn(2) + turn(3)
    fork = fold_entries(*fork_record(META, entries, new_id="new", at=at))
    assert said(fork.history)[-1] == f"answer {last}"


@pytest.mark.parametrize("at", [0, 3, -1, "turn-9"])
def test_a_fork_after_a_turn_that_is_not_there_is_refused(at: int | str) -> None:
    with pytest.raises(ThreadError, match=f"has no turn {at}: it has 2 turns") as caught:
        fork_record(META, turn(1) + turn(2), new_id="new", at=at)
    assert caught.value.slug == "no-such-turn"


def test_a_fork_of_a_sub_agents_thread_is_the_users() -> None:
    meta = META.evolve(source="subagent", extra={"parent_thread_id": "other", "agent": "a", "session_id": "s"})
    forked, _ = fork_record(meta, turn(1), new_id="new")
    assert (forked.source, forked.extra) == ("cli", {"agent": "a"})
    assert summary(forked, ()).parent_id is None
    assert summary(meta, ()).parent_id == "other"


ENTRIES: tuple[ThreadEntry, ...] = (
    *turn(1),
    ItemEntry(user_message("\N{CRAB}\n\x00")),
    ItemEntry(FunctionCall("look", '{"at": "a"}', "call-1")),
    CompactedEntry("short", (user_message("short"),)),
    PluginEntry(plugin="p", kind="k", data={"deep": [{"a": [1, None, True]}]}, turn_id="turn-1"),
    MetaEntry({"memory_mode": "disabled"}),
    EventEntry(PluginEvent("p.kind", {"a": 1})),
    EventEntry(ItemCompletedEvent(META.id, "turn-1", {"type": "Plan", "id": "1", "text": "x"}, 0)),
)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: type(entry).__name__)
def test_every_entry_is_read_back_as_it_was(entry: ThreadEntry) -> None:
    kind, payload = encode_entry(entry)
    assert decode_entry(kind, payload) == entry


def test_the_head_is_read_back_as_it_was() -> None:
    assert decode_meta(encode_meta(META)) == META


def test_a_name_that_is_not_utf8_does_not_prevent_a_record() -> None:
    assert decode_meta(encode_meta(META.evolve(cwd="/\udcff"))).cwd == "/?"
    for entry in (EventEntry(UserMessageEvent("\udcff")), ItemEntry(user_message("\udcff"))):
        encode_entry(entry)[1].encode()


@pytest.mark.parametrize(
    ("kind", "payload"),
    [("new_kind", "{}"), ("compacted", "{}"), ("item", "{"), ("item", "[]"), ("turn_context", "3"), ("meta", "null")],
)
def test_an_entry_that_cannot_be_read_is_skipped_and_told(kind: str, payload: str) -> None:
    stored = fold_entries(META, [*turn(1), decode_entry(kind, payload), *turn(2)])
    assert said(stored.history) == ["question 1", "answer 1", "question 2", "answer 2"]
    assert stored.warnings == ("1 unreadable entry of the thread was skipped",)


def summaries(count: int) -> list[ThreadSummary]:
    return [
        summary(META.evolve(id=f"thread-{n}"), turn(n), updated_at=float(n // 2), archived=n == 3) for n in range(count)
    ]


def listed(query: ThreadQuery, threads: Sequence[ThreadSummary]) -> list[str]:
    return [each.id.removeprefix("thread-") for each in page_of(threads, query, lambda _: ()).threads]


def test_pages_follow_one_another_newest_first() -> None:
    threads, found, cursor = summaries(6), [], None
    while True:
        page = page_of(threads, ThreadQuery(limit=2, cursor=cursor, archived=None), lambda _: ())
        found += [each.id.removeprefix("thread-") for each in page.threads]
        if (cursor := page.cursor) is None:
            break
    assert found == ["5", "4", "3", "2", "1", "0"]


def test_a_query_selects_by_archive_folder_and_agents(tmp_path: Any) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    threads = [
        *summaries(4),
        summary(META.evolve(id="thread-here", cwd=str(tmp_path)), (), updated_at=9),
        summary(META.evolve(id="thread-child", extra={"parent_thread_id": "x"}), (), updated_at=8),
    ]
    assert listed(ThreadQuery(), threads) == ["here", "2", "1", "0"]
    assert listed(ThreadQuery(archived=True), threads) == ["3"]
    assert listed(ThreadQuery(subagents=True), threads)[:2] == ["here", "child"]
    assert listed(ThreadQuery(cwd=str(tmp_path / "link")), threads) == ["here"]


def test_a_search_finds_names_and_messages_in_their_context() -> None:
    entries = turn(1, EventEntry(AgentMessageEvent("a" * 99 + " the Needle " + "b" * 99)))
    thread = summary(META, entries, name="Sewing")

    def matches(text: str) -> list[str | None]:
        page = page_of([thread], ThreadQuery(text=text), lambda _: filter(None, map(searchable_text, entries)))
        return [each.match for each in page.threads]

    assert matches("sewing") == ["Sewing"]
    assert matches("needle") == ["…" + "a" * 35 + " the Needle " + "b" * 39 + "…"]
    assert matches("hay") == []


def test_a_thread_is_listed_with_the_first_message_on_one_line() -> None:
    entries: list[ThreadEntry] = [EventEntry(UserMessageEvent("  one\n two " + "x" * 500)), *turn(2)]
    found = summary(META, entries).preview
    assert found is not None
    assert (found[:9], len(found)) == ("one two x", 200)
    assert summary(META, ()).preview is None


@pytest.mark.parametrize("query", [ThreadQuery(limit=0), ThreadQuery(cursor="yesterday")])
def test_a_page_that_cannot_be_is_refused(query: ThreadQuery) -> None:
    with pytest.raises(ThreadError) as caught:
        page_of(summaries(3), query, lambda _: ())
    assert caught.value.slug == "bad-request"


def test_a_thread_is_named_by_id_name_or_the_beginning_of_its_id() -> None:
    names = {"0192aaaa": "the bug", "0192bbbb": None, "01": None}
    assert [find_id(wanted, names) for wanted in ("01", "the bug", "0192b")] == ["01", "0192aaaa", "0192bbbb"]
    for wanted, fact in (("0192", "2 sessions are called"), ("019", "no thread found"), ("", "no thread found")):
        with pytest.raises(ThreadError, match=fact):
            find_id(wanted, names)


def test_a_thread_is_written_from_its_first_turn_on() -> None:
    written: list[ThreadEntry] = []
    closed: list[bool] = []
    recorder = BufferedRecorder(written.extend, close=lambda: closed.append(True), begun=False)
    context = TurnContextEntry({})
    recorder.append([context])
    recorder.flush()
    assert written == []
    recorder.append(turn(1))
    recorder.flush()
    assert written == [context, *turn(1)]
    recorder.close()
    recorder.close()
    assert closed == [True]
    assert not begins_thread(context)


def test_entries_that_could_not_be_written_are_written_by_the_next_flush() -> None:
    written: list[ThreadEntry] = []
    full = True

    def write(entries: Sequence[ThreadEntry]) -> None:
        if full:
            raise ThreadError("the disk is full", slug="thread-unsaved", hint="Free some space.")
        written.extend(entries)

    recorder = BufferedRecorder(write, begun=True)
    recorder.append(turn(1))
    with pytest.raises(ThreadError):
        recorder.flush()
    full = False
    recorder.append(turn(2))
    recorder.flush()
    assert written == turn(1) + turn(2)


def test_turn_contexts_share_what_is_equal_and_nothing_else() -> None:
    first = {"turn_id": "a", "policy": {"roots": ["/w"]}, "flag": True, "gone": None}
    second = {"turn_id": "b", "policy": {"roots": ["/w"]}, "flag": 1, "new": None}
    state = ThreadState[int]()
    for place, payload in enumerate((first, second)):
        state.add(TurnContextEntry(payload), place)
    assert state.turn_context == second
    assert state.turn_context["policy"] is first["policy"]
    assert state.turn_context["flag"] is not True
