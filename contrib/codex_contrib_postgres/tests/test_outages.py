"""A database that restarts, loses connections, or has another version."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from conftest import Server
from proxy import Proxy
from threads import head, messages, say_to

from codex_contrib_postgres.settings import PostgresSettings
from codex_contrib_postgres.store import DatabaseStore
from codex_framework import ConfigError, ThreadError
from codex_framework.contract.roles.stores import RecorderStopped


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_cut_connection_is_not_noticed(postgres_url: str) -> None:
    proxy = Proxy(postgres_url)
    store = DatabaseStore(proxy.url, PostgresSettings())
    recorder = store.create(head(), "")
    for number in range(20):
        say_to(recorder, f"message {number}")
        recorder.flush()
        proxy.cut()
    recorder.close()
    assert messages(store) == [f"message {number}" for number in range(20)]
    assert store.close() == 0
    proxy.close()


def test_what_could_not_be_saved_is_saved_once_the_database_answers(server: Server, postgres_url: str) -> None:
    store = DatabaseStore(postgres_url, PostgresSettings())
    recorder = store.create(head(), "")
    say_to(recorder, "before")
    recorder.flush()
    server.stop()
    try:
        say_to(recorder, "meanwhile")
        with pytest.raises(ThreadError, match=r"cannot save thread .* in postgresql://127.0.0.1:\d+/") as caught:
            recorder.flush()
        assert "Unsaved entries are kept" in (caught.value.hint or "")
        with pytest.raises(ThreadError):
            recorder.close()
    finally:
        server.start()
    other = DatabaseStore(postgres_url, PostgresSettings())
    wait_for(lambda: messages(other) == ["before", "meanwhile"])
    assert store.close() == 0
    other.reopen(other.load(head().id, ""), "").close()  # the thread was closed, too
    other.close()


def test_a_turn_ends_if_it_must_be_saved_and_cannot_be(postgres_url: str) -> None:
    proxy = Proxy(postgres_url)
    store = DatabaseStore(proxy.url, PostgresSettings(must_save=True, patience_s=0))
    recorder = store.create(head(), "")
    say_to(recorder, "before")
    recorder.flush()
    proxy.is_refusing = True
    proxy.cut()
    say_to(recorder, "meanwhile")
    with pytest.raises(RecorderStopped, match="cannot save thread"):
        recorder.flush()
    assert store.close() == 1
    proxy.close()


def test_nothing_waits_for_a_database_that_could_not_be_reached_a_moment_ago(postgres_url: str) -> None:
    proxy = Proxy(postgres_url)
    proxy.is_refusing = True
    store = DatabaseStore(proxy.url, PostgresSettings(patience_s=0))
    with pytest.raises(ThreadError, match="cannot list threads"):
        store.latest("")
    with pytest.raises(ThreadError, match="could not be reached a moment ago"):
        store.latest("")
    proxy.is_refusing = False
    wait_for(lambda: _answers(store))
    store.close()
    proxy.close()


def _answers(store: DatabaseStore) -> bool:
    try:
        return store.latest("") is None
    except ThreadError:
        return False


@pytest.mark.parametrize(
    ("version", "advice"), [("0000", "Upgrade codex-contrib-postgres"), ("9999", "Upgrade codex-contrib-postgres")]
)
def test_tables_of_an_unknown_version_are_left_alone(postgres_url: str, version: str, advice: str) -> None:
    first = DatabaseStore(postgres_url, PostgresSettings())
    assert first.latest("") is None
    first.close()
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE codex_alembic_version SET version_num = %s", (version,))
    store = DatabaseStore(postgres_url, PostgresSettings())
    with pytest.raises(ThreadError, match=f"have version {version}, and this version .* needs 0002") as caught:
        store.latest("")
    assert advice in (caught.value.hint or "")


def test_processes_that_meet_an_empty_database_create_its_tables_once(url: str) -> None:
    children = []
    for _ in range(4):
        child = os.fork()
        if not child:
            status = 1
            try:
                store = DatabaseStore(url, PostgresSettings())
                status = 0 if store.latest("") is None else 2
            finally:
                os._exit(status)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0, 0]


def test_a_forked_process_has_connections_and_leases_of_its_own(url: str) -> None:
    store = DatabaseStore(url, PostgresSettings())
    recorder = store.create(head(1), "")
    say_to(recorder, "parent")
    recorder.flush()
    child = os.fork()
    if not child:
        status = 1
        try:
            own = store.create(head(2), "")
            say_to(own, "child")
            own.flush()
            own.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    say_to(recorder, "again")
    recorder.close()
    assert messages(store, 1) == ["parent", "again"]
    assert messages(store, 2) == ["child"]
    store.close()


@pytest.mark.parametrize("url", ["", "nonsense", "mysql://host/name", "sqlite://", "sqlite:///:memory:"])
def test_a_url_that_cannot_be_used_is_an_error_of_configuration(url: str) -> None:
    with pytest.raises(ConfigError, match="the database of the thread store has no usable URL"):
        DatabaseStore(url, PostgresSettings())


def test_a_password_is_in_no_error(server: Server) -> None:
    store = DatabaseStore(f"postgresql://postgres:secret@127.0.0.1:{server.port}/missing", PostgresSettings())
    with pytest.raises(ThreadError, match='database "missing" does not exist') as caught:
        store.latest("")
    assert "secret" not in f"{caught.value} {caught.value.hint}"


def test_a_file_that_is_no_database_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "threads").write_bytes(b"no database" * 100)
    store = DatabaseStore(f"sqlite:///{tmp_path}/threads", PostgresSettings())
    with pytest.raises(ThreadError, match="file is not a database"):
        store.latest("")
