"""Listing, searching, naming, archiving, deleting and locking sessions."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from codex_framework import ThreadError, ThreadMeta
from codex_framework.contract.protocol.events import TurnStartedEvent, UserMessageEvent
from codex_framework.contract.protocol.items import user_message
from codex_framework.contract.roles.stores import EventEntry, ItemEntry, ThreadQuery
from codex_plugin_rollout import RolloutStore
from codex_plugin_rollout.files import is_session
from codex_plugin_rollout.listing import _parent
from tests.plugins.rollout.forked_sessions import FORK, FORK_OF_FORK, THREAD, copied


def id_of(number: int) -> str:
    return f"01a30000-0000-7000-8000-{number:012}"


def session(store: RolloutStore, home: str, number: int, text: str = "hello", cwd: str = "/w", **extra: object) -> Path:
    meta = ThreadMeta(
        id=id_of(number),
        cwd=cwd,
        created_at=1.79e9 + number,
        originator="tests",
        source="exec",
        cli_version="0",
        model_provider="mock",
        extra=extra,
    )
    recorder = store.create(meta, home)
    started = EventEntry(TurnStartedEvent("turn", 0))
    recorder.append([started, ItemEntry(user_message(text)), EventEntry(UserMessageEvent(text))])
    recorder.close()
    path = Path(recorder.path or "")
    os.utime(path, (1.79e9 + number, 1.79e9 + number))
    return path


def listed(store: RolloutStore, home: str, **query: object) -> list[str]:
    return [summary.id for summary in store.find(ThreadQuery(**query), home).threads]  # type: ignore[arg-type]


def test_pages_follow_each_other_newest_first_without_gap_or_repetition(store: RolloutStore, home: str) -> None:
    for number in range(7):
        session(store, home, number)
    cursor, pages = None, []
    while True:
        page = store.find(ThreadQuery(limit=3, cursor=cursor), home)
        pages.append([summary.id for summary in page.threads])
        cursor = page.cursor
        if cursor is None:
            break
        session(store, home, 20 + len(pages))  # a new one does not move the pages that follow
    assert pages == [[id_of(n) for n in group] for group in ((6, 5, 4), (3, 2, 1), (0,))]


@pytest.mark.parametrize("cursor", ["", "x", "12", "-1:a", "²:a"])
def test_a_wrong_cursor_is_refused(store: RolloutStore, home: str, cursor: str) -> None:
    with pytest.raises(ThreadError) as caught:
        store.find(ThreadQuery(cursor=cursor), home)
    assert caught.value.slug == "bad-request"


def test_sessions_that_cannot_be_read_are_no_empty_list(store: RolloutStore, home: str) -> None:
    assert listed(store, home) == []
    Path(home).mkdir()
    (Path(home) / "sessions").write_text("a file where a folder is needed")
    with pytest.raises(ThreadError) as caught:
        store.find(ThreadQuery(), home)
    assert caught.value.fact == f"cannot read {home}/sessions: Not a directory"


@pytest.mark.parametrize("parent", [None, "", 5, ["x"], {"id": "x"}])
def test_a_parent_that_is_no_id_is_looked_for_in_the_source(parent: object) -> None:
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": "p"}}}
    assert _parent({"parent_thread_id": parent}) is None
    assert _parent({"parent_thread_id": parent, "source": spawned}) == "p"
    assert _parent({"parent_thread_id": "q", "source": spawned}) == "q"


def test_a_summary_says_what_a_list_needs(store: RolloutStore, home: str) -> None:
    path = session(store, home, 1, "Fix   the\nbug", cwd="/project")
    store.rename(id_of(1), "the bug", home)
    (found,) = store.find(ThreadQuery(), home).threads
    assert (found.id, found.cwd, found.name, found.preview) == (id_of(1), "/project", "the bug", "Fix the bug")
    assert (found.created_at, found.updated_at, found.source) == (1.79e9 + 1, 1.79e9 + 1, "exec")
    assert (found.archived, found.forked_from_id, found.parent_id, found.path) == (False, None, None, str(path))


def test_sub_agents_archived_sessions_and_folders_are_told_apart(store: RolloutStore, home: str) -> None:
    session(store, home, 1, cwd="/one")
    session(store, home, 2, cwd="/two")
    session(store, home, 3, cwd="/two", parent_thread_id=id_of(1))
    store.archive(id_of(2), home)
    assert listed(store, home) == [id_of(1)]
    assert listed(store, home, archived=True) == [id_of(2)]
    assert listed(store, home, archived=None, subagents=True) == [id_of(3), id_of(2), id_of(1)]
    assert listed(store, home, archived=None, subagents=True, cwd="/two") == [id_of(3), id_of(2)]


@pytest.mark.parametrize("text", ["NEEDLE", "näedle Ü", 'say "ne\\edle"', "needle in the"])
def test_a_search_finds_names_and_messages(store: RolloutStore, home: str, text: str) -> None:
    session(store, home, 1, 'Where is the needle in the näEdle ü and say "ne\\edle" now?')
    session(store, home, 2, "Something else")
    session(store, home, 3, "nothing here")
    store.rename(id_of(3), f"about {text.swapcase()}", home)
    found = store.find(ThreadQuery(text=text), home).threads
    assert [summary.id for summary in found] == [id_of(3), id_of(1)]
    assert all(text.casefold() in (summary.match or "").casefold() for summary in found)
    assert listed(store, home, text="session_meta") == [], "only messages are searched"


def test_a_thread_of_several_files_is_listed_once_with_its_first_message(store: RolloutStore, home: str) -> None:
    copied(home)
    found = store.find(ThreadQuery(), home).threads
    assert sorted(summary.id for summary in found) == sorted([THREAD, FORK, FORK_OF_FORK])
    assert {summary.preview for summary in found} == {"q1"}
    (thread,) = (summary for summary in found if summary.id == THREAD)
    assert thread.path == store.load(THREAD, home).path
    assert listed(store, home, text="F2") == [FORK_OF_FORK, FORK] or listed(store, home, text="F2") == [
        FORK,
        FORK_OF_FORK,
    ]


def test_every_recorded_session_is_listed(store: RolloutStore, home: str, anchors: Path) -> None:
    folder = Path(home) / "sessions/2026/11/20"
    folder.mkdir(parents=True)
    for path in (anchors / "rollouts").glob("*.jsonl"):
        head = json.loads(path.read_text().split("\n", 1)[0])["payload"]
        shutil.copy(path, folder / f"rollout-2026-11-20T18-27-41-{head['id']}.jsonl")
    found = store.find(ThreadQuery(limit=1000), home).threads
    assert len(found) == len(list(folder.iterdir()))
    assert all(summary.preview and summary.cwd and summary.source == "exec" for summary in found)


def test_what_is_no_session_is_not_listed(store: RolloutStore, home: str) -> None:
    path = session(store, home, 1)
    os.mkfifo(path.with_name(f"rollout-2026-11-22T10-00-00-{id_of(2)}.jsonl"))
    path.with_name("notes.txt").write_text("x")
    path.with_name(f"rollout-2026-11-22T10-00-00-{id_of(3)}.jsonl").write_text("")
    assert sorted(listed(store, home)) == [id_of(1), id_of(3)]


def test_a_name_stands_for_the_id_until_it_is_given_away_or_removed(store: RolloutStore, home: str) -> None:
    session(store, home, 1)
    session(store, home, 2)
    store.rename(id_of(1), "mine", home)
    assert store.load("mine", home).meta.id == id_of(1)
    store.rename(id_of(2), "mine", home)
    assert store.load("mine", home).meta.id == id_of(2)
    store.rename("mine", "", home)
    assert store.load("mine", home).meta.id == id_of(1)
    lines = (Path(home) / "session_index.jsonl").read_text().splitlines()
    assert [sorted(json.loads(line)) for line in lines] == [["id", "thread_name", "updated_at"]] * 3
    assert (Path(home) / "session_index.jsonl").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["a/b", "x" * 201, "a\nb", "\x1b[31m"])
def test_a_name_that_could_be_a_path_or_harm_a_terminal_is_refused(store: RolloutStore, home: str, name: str) -> None:
    session(store, home, 1)
    with pytest.raises(ThreadError, match="cannot be the name"):
        store.rename(id_of(1), name, home)


def test_a_name_follows_a_torn_line(store: RolloutStore, home: str) -> None:
    session(store, home, 1)
    (Path(home) / "session_index.jsonl").write_text('{"id":"x","thread_na')
    store.rename(id_of(1), "mine", home)
    assert store.load("mine", home).meta.id == id_of(1)


def test_the_beginning_of_an_id_is_enough_if_only_one_session_has_it(store: RolloutStore, home: str) -> None:
    session(store, home, 1)
    session(store, home, 2)
    assert store.load(id_of(1), home).meta.id == id_of(1)
    with pytest.raises(ThreadError, match=f"2 sessions begin with 01a3: {id_of(1)}, {id_of(2)}"):
        store.load("01a3", home)
    copied(home)
    assert store.load("01a20497-aa", home).meta.id == FORK_OF_FORK
    with pytest.raises(ThreadError, match="no rollout found"):
        store.load("01a", home)


def test_an_archived_session_comes_back_to_the_folder_of_its_day(store: RolloutStore, home: str) -> None:
    path = session(store, home, 1)
    store.archive(id_of(1), home)
    assert not path.exists()
    assert (Path(home) / "archived_sessions" / path.name).exists()
    with pytest.raises(ThreadError, match="is already archived"):
        store.archive(id_of(1), home)
    store.unarchive(id_of(1), home)
    assert path.exists()
    with pytest.raises(ThreadError, match="is not archived"):
        store.unarchive(id_of(1), home)


def test_all_files_of_a_thread_are_archived_and_its_forks_still_load(store: RolloutStore, home: str) -> None:
    folder = copied(home)
    before = store.load(FORK_OF_FORK, home)
    store.archive(THREAD, home)
    assert len(list((Path(home) / "archived_sessions").iterdir())) == 3
    assert store.load(FORK_OF_FORK, home).history == before.history
    assert store.load(THREAD, home).history
    store.unarchive(THREAD, home)
    assert len(list(folder.iterdir())) == 5


def test_a_session_that_others_continue_is_not_deleted(store: RolloutStore, home: str) -> None:
    folder = copied(home)
    with pytest.raises(ThreadError, match=f"{FORK} continues it") as caught:
        store.delete(THREAD, home)
    assert caught.value.slug == "session-continued"
    assert len(list(folder.iterdir())) == 5
    for thread in (FORK_OF_FORK, FORK, THREAD):
        store.delete(thread, home)
    assert list(folder.iterdir()) == []


def test_a_deleted_session_loses_its_name(store: RolloutStore, home: str) -> None:
    session(store, home, 1)
    store.rename(id_of(1), "mine", home)
    store.delete("mine", home)
    session(store, home, 1)
    with pytest.raises(ThreadError, match="no rollout found"):
        store.load("mine", home)


def test_a_file_outside_of_the_home_is_not_managed(store: RolloutStore, home: str, tmp_path: Path) -> None:
    path = Path(shutil.move(session(store, home, 1), tmp_path))
    for manage in (store.archive, store.unarchive, store.delete):
        with pytest.raises(ThreadError, match="is not a session of"):
            manage(str(path), home)
    assert path.exists()


HOLDER = """
import sys
from codex_plugin_rollout import RolloutStore
store = RolloutStore()
recorder = store.reopen(store.load(sys.argv[2], sys.argv[1]), sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


def test_two_processes_cannot_open_one_session(store: RolloutStore, home: str) -> None:
    path = session(store, home, 1)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, home, id_of(1)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        stored = store.load(id_of(1), home)
        for attempt in (
            lambda: store.reopen(stored, home),
            lambda: store.archive(id_of(1), home),
            lambda: store.delete(id_of(1), home),
            lambda: store.repair(id_of(1), home),
        ):
            with pytest.raises(ThreadError, match=f"thread {id_of(1)} already has an active writer") as caught:
                attempt()
            assert caught.value.slug == "session-in-use"
            if Path("/proc/locks").exists():
                assert f"(process {holder.pid})" in str(caught.value)
        assert path.exists()
        store.fork(id_of(1), home, new_id=id_of(2))
    finally:
        holder.kill()
        holder.communicate()
    store.reopen(stored, home).close()


def test_a_new_session_is_locked_from_its_first_line_to_its_end(store: RolloutStore, home: str) -> None:
    meta = ThreadMeta(
        id=id_of(1), cwd="/w", created_at=1.79e9, originator="t", source="exec", cli_version="0", model_provider="m"
    )
    recorder = store.create(meta, home)
    recorder.append([EventEntry(TurnStartedEvent("turn", 0)), ItemEntry(user_message("hi"))])
    recorder.flush()
    with pytest.raises(ThreadError, match="already has an active writer"):
        store.reopen(store.load(id_of(1), home), home)
    recorder.close()
    store.reopen(store.load(id_of(1), home), home).close()


def test_without_a_place_for_locks_sessions_go_on(store: RolloutStore, home: str) -> None:
    Path(home).mkdir()
    (Path(home) / "thread-writer-locks").write_text("a file")
    session(store, home, 1)
    store.reopen(store.load(id_of(1), home), home).close()


def test_codex_itself_refuses_a_session_that_is_open_here_and_we_one_of_its(
    store: RolloutStore, home: str, tmp_path: Path, codex_binary: str
) -> None:
    session(store, home, 1, cwd=str(tmp_path))
    recorder = store.reopen(store.load(id_of(1), home), home)
    provider = 'model_providers.mock={name="m",base_url="http://127.0.0.1:9/v1"}'
    done = subprocess.run(
        [
            codex_binary,
            "exec",
            "-c",
            provider,
            "-c",
            "model_provider=mock",
            "--skip-git-repo-check",
            "resume",
            id_of(1),
            "go on",
        ],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "CODEX_HOME": home, "PATH": os.environ["PATH"]},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    recorder.close()
    assert done.returncode == 1
    assert f"thread {id_of(1)} already has an active writer" in done.stderr


def test_the_damaged_versions_of_a_file_go_with_it(store: RolloutStore, home: str) -> None:
    path = session(store, home, 1)
    other = session(store, home, 2)
    for each in (path, other):
        for _ in range(2):
            each.write_bytes(each.read_bytes() + b"broken")
            store.repair(str(each), home)
    names = {f"{path.name}.damaged-{number}" for number in (1, 2)}
    assert names <= {each.name for each in path.parent.iterdir()}
    store.archive(id_of(1), home)
    archive = Path(home) / "archived_sessions"
    assert {each.name for each in archive.iterdir()} == {path.name, *names}
    store.unarchive(id_of(1), home)
    assert list(archive.iterdir()) == []
    assert names <= {each.name for each in path.parent.iterdir()}
    path.with_name(f".{path.name}.repaired").write_text("a repair that was cut off")
    store.delete(id_of(1), home)
    left = [each.name for each in path.parent.iterdir()]
    assert sorted(left) == [other.name, f"{other.name}.damaged-1", f"{other.name}.damaged-2"]
    assert not any(b"hello" in each.read_bytes() for each in Path(home).rglob("*") if id_of(1) in each.name)


def test_a_link_leads_to_no_session_with_another_id(home: str, tmp_path: Path) -> None:
    folder = Path(home) / "sessions/2026/11/22"
    folder.mkdir(parents=True)
    file = folder / f"rollout-2026-11-22T10-00-00-{id_of(1)}.jsonl"
    file.write_text("{}\n")
    for number, leads in ((1, True), (2, False)):
        link = tmp_path / file.name.replace(id_of(1), id_of(number))
        link.symlink_to(file)
        assert is_session(link, Path(home)) is leads
