"""The store fulfils its role, on PostgreSQL and on SQLite."""

from __future__ import annotations

import psycopg
import pytest
from threads import head, messages, say_to

from codex_contrib_postgres.settings import PostgresSettings
from codex_contrib_postgres.store import DatabaseStore
from codex_framework import ThreadError
from codex_framework.contract.roles.stores import ThreadQuery
from codex_framework.testing import check_thread_store


def test_the_store_fulfils_its_role(url: str) -> None:
    store = DatabaseStore(url, PostgresSettings(patience_s=0))
    check_thread_store(store)
    assert store.close() == 0


def test_pages_and_searches_find_what_they_should(url: str) -> None:
    store = DatabaseStore(url, PostgresSettings())
    for number in range(7):
        recorder = store.create(head(number), "")
        say_to(recorder, f"Straße {number} 100% \0 of _it_")
        recorder.close()
    store.rename(head(3).id, "My Name", "")
    store.archive(head(6).id, "")
    pages, cursor = [], None
    while True:
        page = store.find(ThreadQuery(limit=2, cursor=cursor), "")
        pages.append([int(thread.id[-12:]) for thread in page.threads])
        cursor = page.cursor
        if cursor is None:
            break
    assert pages == [[5, 4], [3, 2], [1, 0]]
    found = {
        text: [int(thread.id[-12:]) for thread in store.find(ThreadQuery(text=text, archived=None), "").threads]
        for text in ("STRASSE 2", "100%", "%", "_it_", "my name", "nothing")
    }
    everything = [6, 5, 4, 3, 2, 1, 0]
    assert found == {
        "STRASSE 2": [2],
        "100%": everything,
        "%": everything,
        "_it_": everything,
        "my name": [3],
        "nothing": [],
    }
    assert store.find(ThreadQuery(text="strasse 2"), "").threads[0].match == "Straße 2 100% \0 of _it_"
    assert store.load("My Name", "").meta.id == head(3).id
    with pytest.raises(ThreadError, match="several sessions"):
        store.load("019a0000", "")
    for cursor in ("nonsense", "1", "x y"):
        with pytest.raises(ThreadError, match="is not a cursor"):
            store.find(ThreadQuery(cursor=cursor), "")
    store.close()


def test_scopes_do_not_see_each_other(url: str) -> None:
    ours, theirs = (DatabaseStore(url, PostgresSettings(scope=scope)) for scope in ("ours", "theirs"))
    recorder = ours.create(head(), "")
    say_to(recorder, "secret")
    recorder.close()
    assert ours.latest("") == head().id
    assert theirs.latest("") is None
    for refused in (lambda: theirs.load(head().id, ""), lambda: theirs.delete(head().id, "")):
        with pytest.raises(ThreadError, match="no rollout found"):
            refused()
    ours.close()
    theirs.close()


def test_rows_that_cannot_be_read_are_skipped_with_a_warning(postgres_url: str) -> None:
    store = DatabaseStore(postgres_url, PostgresSettings())
    recorder = store.create(head(), "")
    say_to(recorder, "one")
    say_to(recorder, "two")
    recorder.close()
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE codex_entries SET payload = '{' WHERE number = 1")
        connection.execute("UPDATE codex_entries SET kind = 'later' WHERE number = 2")
    stored = store.load(head().id, "")
    assert stored.warnings == ("2 unreadable entries of the thread were skipped",)
    assert [type(event).__name__ for event in stored.events] == ["UserMessageEvent"]
    again = store.reopen(stored, "")
    say_to(again, "three")
    again.close()
    assert messages(store) == ["two", "three"]
    store.close()


def test_a_thread_that_was_continued_since_it_was_loaded_is_loaded_again(url: str) -> None:
    store = DatabaseStore(url, PostgresSettings())
    recorder = store.create(head(), "")
    say_to(recorder, "one")
    recorder.close()
    old = store.load(head().id, "")
    newer = store.reopen(store.load(head().id, ""), "")
    say_to(newer, "two")
    newer.close()
    with pytest.raises(ThreadError, match="has been continued since it was loaded"):
        store.reopen(old, "")
    store.reopen(store.load(head().id, ""), "").close()  # the refusal kept no lease
    store.close()
