"""Folding the entries of a thread gives the thread that Codex's own file of these entries holds."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_framework import ThreadError, ThreadMeta
from codex_framework.contract.protocol.events import (
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
    InputText,
    Message,
    OutputText,
    user_message,
)
from codex_framework.contract.roles.stores import (
    CompactedEntry,
    EventEntry,
    ItemEntry,
    MetaEntry,
    PluginEntry,
    StoredThread,
    ThreadEntry,
    TurnContextEntry,
)
from codex_framework.toolkit.thread_records import count_entries, decode_entry, encode_entry, fold_entries
from codex_plugin_rollout.store import RolloutStore

TEXTS = st.sampled_from(["a", "b\0", "\N{GREEK SMALL LETTER ALPHA}", "{}"])
USAGE = TokenUsage(input_tokens=1, total_tokens=2)


def entries() -> st.SearchStrategy[ThreadEntry]:
    turns = st.sampled_from(["t1", "t2", "t3"])
    return st.one_of(
        turns.map(lambda turn: EventEntry(TurnStartedEvent(turn, 0))),
        turns.map(lambda turn: EventEntry(TurnCompleteEvent(turn, "done", 0, 0))),
        TEXTS.map(lambda text: ItemEntry(user_message(text))),
        TEXTS.map(lambda text: EventEntry(UserMessageEvent(text))),
        TEXTS.map(lambda text: ItemEntry(Message("assistant", (OutputText(text),)))),
        TEXTS.map(lambda text: ItemEntry(Message("developer", (InputText(text),)))),
        st.just(ItemEntry(Message("user", (InputText("<environment_context>\n</environment_context>"),)))),
        st.just(ItemEntry(FunctionCall("look", "{}", "call-1"))),
        st.just(ItemEntry(FunctionCallOutput("call-1", "seen"))),
        TEXTS.map(lambda text: TurnContextEntry({"model": text})),
        st.just(MetaEntry({"memory_mode": "disabled"})),
        st.sampled_from(["t1", None]).map(
            lambda turn: PluginEntry(plugin="check", kind="kind", data={"of": turn}, turn_id=turn)
        ),
        TEXTS.map(lambda text: CompactedEntry(text, (user_message(text),))),
        st.integers(0, 3).map(lambda turns: EventEntry(ThreadRolledBackEvent(turns))),
        st.just(EventEntry(TokenCountEvent(TokenUsageInfo(USAGE, USAGE), None))),
    )


def parts() -> st.SearchStrategy[list[ThreadEntry]]:
    """Return whole turns, turns that a message without a start begins, and single entries."""
    within = st.lists(entries(), max_size=4)
    turn = st.sampled_from(["t1", "t2", "t3"])
    context = ItemEntry(Message("developer", (InputText("rules"),)))
    whole = st.builds(
        lambda turn, text, more, is_complete: [
            EventEntry(TurnStartedEvent(turn, 0)),
            TurnContextEntry({"model": turn}),
            context,
            ItemEntry(user_message(text)),
            EventEntry(UserMessageEvent(text)),
            PluginEntry(plugin="check", kind="kind", data={}, turn_id=turn),
            EventEntry(TokenCountEvent(TokenUsageInfo(USAGE, USAGE), None)),
            *more,
            *([EventEntry(TurnCompleteEvent(turn, "done", 0, 0))] if is_complete else []),
        ],
        turn,
        TEXTS,
        within,
        st.booleans(),
    )
    old = TEXTS.map(lambda text: [context, ItemEntry(user_message(text)), EventEntry(UserMessageEvent(text))])
    rollback = st.integers(1, 2).map(lambda turns: [EventEntry(ThreadRolledBackEvent(turns))])
    return st.one_of(whole, whole, old, rollback, entries().map(lambda entry: [entry]))


@given(st.lists(parts(), max_size=8), st.one_of(st.none(), st.integers(1, 4), st.sampled_from(["t1", "t9"])))
def test_entries_that_were_encoded_fold_to_the_thread_of_their_file(
    later: Sequence[Sequence[ThreadEntry]], at: int | str | None
) -> None:
    first = EventEntry(UserMessageEvent("begin"))  # without a message of the user, a store writes nothing
    written = [first, *(entry for part in later for entry in part)]
    read = [decode_entry(*encode_entry(entry)) for entry in written]
    assert None not in read
    meta = ThreadMeta(
        id="019a0000-0000-7000-8000-000000000001",
        cwd="/",
        created_at=1.0,
        originator="test",
        source="cli",
        cli_version="0",
        model_provider="test",
    )
    with tempfile.TemporaryDirectory() as home:
        store = RolloutStore()
        recorder = store.create(meta, home)
        recorder.append(written)
        recorder.close()
        filed = store.load(meta.id, home)
        folded = fold_entries(meta, read)
        assert facts_of(folded) == facts_of(filed)
        new_id = "019a0000-0000-7000-8000-000000000002"
        try:
            kept = count_entries(meta.id, read, at)
        except ThreadError:
            with pytest.raises(ThreadError, match="has no turn"):
                store.fork(meta.id, home, new_id=new_id, at=at)
        else:
            store.fork(meta.id, home, new_id=new_id, at=at)
            assert facts_of(fold_entries(meta, read[:kept])) == facts_of(store.load(new_id, home))


def facts_of(stored: StoredThread) -> tuple[object, ...]:
    return (
        stored.history,
        stored.events,
        stored.last_turn_context,
        stored.entries,
        stored.turns,
        stored.meta.extra.get("memory_mode"),
    )
