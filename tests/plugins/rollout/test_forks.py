"""Forks of recorded sessions, of sessions with several files, and of our own; and exports of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from codex_framework import ThreadError, ThreadMeta
from codex_framework.contract.protocol.events import TurnStartedEvent, UserMessageEvent
from codex_framework.contract.protocol.items import user_message
from codex_framework.contract.roles.stores import EventEntry, ItemEntry
from codex_framework.testing.replies import say
from codex_framework.testing.server import ResponsesServer
from codex_plugin_rollout import RolloutStore
from codex_plugin_rollout.forks import write_new
from tests.plugins.rollout.forked_sessions import FORK, FORK_OF_FORK, THREAD, copied, said

NEW = "01a30000-0000-7000-8000-000000000000"


@pytest.fixture
def recorded(home: str) -> Path:
    return copied(home)


@pytest.mark.parametrize("thread", [THREAD, FORK, FORK_OF_FORK])
def test_a_fork_at_a_turn_has_the_turns_up_to_it(store: RolloutStore, home: str, recorded: Path, thread: str) -> None:
    whole = store.load(thread, home)
    before = {path: path.read_bytes() for path in recorded.iterdir()}
    for number, turn in enumerate(whole.turns, 1):
        for at in (number, turn.id):
            new = f"01a30000-{number:04}-7000-8000-{'0' if at == number else '1'}00000000000"
            store.fork(thread, home, new_id=new, at=at)
            fork = store.load(new, home)
            assert said(fork) == said(whole)[: 2 * number]
            assert (fork.meta.forked_from_id, fork.meta.id, fork.warnings) == (thread, new, ())
            assert len(fork.turns) == number
    store.fork(thread, home, new_id=NEW)
    assert store.load(NEW, home).history == whole.history
    assert {path: path.read_bytes() for path in before} == before


def test_a_fork_goes_on_and_is_forked_again(store: RolloutStore, home: str, recorded: Path) -> None:
    assert recorded
    store.fork(FORK_OF_FORK, home, new_id=NEW, at=3)
    recorder = store.reopen(store.load(NEW, home), home)
    recorder.append(
        [EventEntry(TurnStartedEvent("t", 0)), ItemEntry(user_message("n1")), EventEntry(UserMessageEvent("n1"))]
    )
    recorder.close()
    again = NEW.replace("01a3", "01a4")
    store.fork(NEW, home, new_id=again)
    assert said(store.load(again, home)) == ["q1", "a1", "q3", "a3", "q4", "a4", "n1"]
    assert said(store.load(FORK_OF_FORK, home))[-1] == "a8"


def test_every_recorded_session_forks_with_the_same_prompt(store: RolloutStore, home: str, anchors: Path) -> None:
    for number, path in enumerate(sorted((anchors / "rollouts").glob("*.jsonl"))):
        folder = Path(home) / "sessions/2026/11/20"
        folder.mkdir(parents=True, exist_ok=True)
        head = json.loads(path.read_text().split("\n", 1)[0])["payload"]
        shutil.copy(path, folder / f"rollout-2026-11-20T18-27-41-{head['id']}.jsonl")
        new = f"01a30000-0000-7000-8000-{number:012}"
        store.fork(head["id"], home, new_id=new)
        fork, whole = store.load(new, home), store.load(head["id"], home)
        assert (fork.history, fork.turns, fork.warnings) == (whole.history, whole.turns, ()), path


@pytest.mark.parametrize("at", [0, 4, -1, "no such turn"])
def test_a_turn_that_is_not_there_cannot_be_forked_at(
    store: RolloutStore, home: str, recorded: Path, at: int | str
) -> None:
    with pytest.raises(ThreadError, match=f"has no turn {at}: it has 3 turns") as caught:
        store.fork(THREAD, home, new_id=NEW, at=at)
    assert caught.value.slug == "no-such-turn"
    assert not list(recorded.rglob(f"*{NEW}*"))


@pytest.mark.parametrize("at", [1, 2, 3, None])
def test_a_fork_names_the_byte_at_which_it_leaves_its_base(
    store: RolloutStore, home: str, recorded: Path, at: int | None
) -> None:
    store.fork(THREAD, home, new_id=NEW, at=at)
    (path,) = Path(home).rglob(f"*{NEW}*")
    head = json.loads(path.read_text())["payload"]
    base = head["history_base"]
    (continued,) = (found for found in recorded.iterdir() if found.stem.endswith(base["thread_id"]))
    lines = continued.read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line)["ordinal"] < base["end_ordinal_exclusive"]]
    assert base["end_byte_offset"] == len(b"".join(kept))
    assert head["forked_from_ordinal_exclusive"] == base["end_ordinal_exclusive"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_could_not_be_written_whole_is_not_there(tmp_path: Path) -> None:
    def lines() -> Iterator[bytes]:
        yield b"one\n"
        raise OSError(28, "No space left on device")

    with pytest.raises(ThreadError, match="No space left on device"):
        write_new(tmp_path / "new.jsonl", lines())
    assert list(tmp_path.iterdir()) == []


def own_session(store: RolloutStore, meta: ThreadMeta, home: str, *prompts: str) -> None:
    recorder = store.create(meta, home)
    for number, text in enumerate(prompts, 1):
        started = EventEntry(TurnStartedEvent(f"turn-{number}", 0))
        recorder.append([started, ItemEntry(user_message(text)), EventEntry(UserMessageEvent(text))])
    recorder.close()


def test_a_fork_of_our_own_session_stands_alone(store: RolloutStore, meta: ThreadMeta, home: str) -> None:
    own_session(store, meta, home, "one", "two", "three")
    store.fork(meta.id, home, new_id=NEW, at=2)
    store.delete(meta.id, home)
    fork = store.load(NEW, home)
    assert said(fork) == ["one", "two"]
    assert fork.meta.forked_from_id == meta.id
    assert fork.meta.base_instructions == meta.base_instructions


def test_a_fork_that_cannot_be_written_leaves_nothing(store: RolloutStore, meta: ThreadMeta, home: str) -> None:
    own_session(store, meta, home, "one")
    (path,) = Path(home).rglob("*.jsonl")
    path = path.rename(Path(home) / path.name)
    shutil.rmtree(Path(home) / "sessions")
    (Path(home) / "sessions").write_text("a file where a folder is needed")
    with pytest.raises(ThreadError, match="cannot write") as caught:
        store.fork(str(path), home, new_id=NEW)
    assert caught.value.slug == "thread-unsaved"
    assert not list(Path(home).rglob(f"*{NEW}*"))


def test_an_export_is_one_file_with_the_whole_conversation(
    store: RolloutStore, home: str, recorded: Path, tmp_path: Path
) -> None:
    for thread in (THREAD, FORK_OF_FORK):
        whole = store.load(thread, home)
        path = tmp_path / f"rollout-2026-11-22T00-00-00-{thread}.jsonl"
        path.write_bytes(b"".join(store.export(thread, home)))
        alone = store.load(str(path), "/nowhere")
        assert (alone.history, alone.warnings) == (whole.history, ())
        assert [json.loads(line)["ordinal"] for line in path.read_text().splitlines()] == list(
            range(len(path.read_text().splitlines()))
        )


def test_codex_itself_goes_on_with_our_forks(store: RolloutStore, home: str, tmp_path: Path, codex_binary: str) -> None:
    Path(home).mkdir()
    own = ThreadMeta(
        id="01a50000-0000-7000-8000-000000000000",
        cwd=str(tmp_path),
        created_at=1.8e9,
        originator="tests",
        source="exec",
        cli_version="0",
        model_provider="mock",
    )
    own_session(store, own, home, "one", "two", "three")
    of_own = "01a60000-0000-7000-8000-000000000000"
    store.fork(own.id, home, new_id=of_own, at=2)

    def codex(*arguments: str) -> str:
        provider = f'model_providers.mock={{name="mock",base_url="{server.url}",wire_api="responses"}}'
        options = ("-c", provider, "-c", "model_provider=mock", "-m", "gpt-5.5", "--skip-git-repo-check", "--json")
        done = subprocess.run(
            [codex_binary, "exec", *options, *arguments],
            cwd=tmp_path,
            env={"HOME": str(tmp_path), "CODEX_HOME": home, "PATH": os.environ["PATH"]},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return str(json.loads(done.stdout.split("\n", 1)[0])["thread_id"])

    with ResponsesServer([say("new")], repeat_last=True) as server:
        theirs = codex("q1")
        for prompt in ("q2", "q3"):
            codex("resume", theirs, prompt)
        store.fork(theirs, home, new_id=NEW, at=2)
        of_fork = NEW.replace("01a3", "01a4")
        store.fork(NEW, home, new_id=of_fork, at=1)
        expected = {NEW: ["q1", "q2"], of_own: ["one", "two"], of_fork: ["q1"], theirs: ["q1", "q2", "q3"]}
        for thread, prompts in expected.items():
            codex("resume", thread, "go on")
            said_there = [
                part["text"]
                for item in server.inputs[-1]
                if item.get("role") == "user"
                for part in item["content"]
                if not part["text"].startswith("<")
            ]
            assert said_there == [*prompts, "go on"]
            assert store.load(thread, home).warnings == ()
