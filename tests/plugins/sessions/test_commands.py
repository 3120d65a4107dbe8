"""``codex-framework sessions``, ``resume`` and ``fork``."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ThreadMeta
from codex_framework.cli.main import main
from codex_framework.contract.protocol.events import AgentMessageEvent, TurnStartedEvent, UserMessageEvent
from codex_framework.contract.protocol.items import Message, OutputText, message_text, user_message
from codex_framework.contract.roles.stores import EventEntry, ItemEntry
from codex_framework.testing import ResponsesServer, say
from codex_plugin_rollout import RolloutStore
from tests.forked import RunProgram

Run = Callable[..., tuple[int, str, str]]


def id_of(number: int) -> str:
    return f"01a3000{number}-0000-7000-8000-000000000000"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def run(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Run ``codex-framework``. Returns the exit status, the output and the errors."""
    monkeypatch.setenv("CODEX_HOME", str(home))
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str) -> tuple[int, str, str]:
        status = main(list(arguments))
        printed = capfd.readouterr()
        return status, printed.out, printed.err

    return command


@pytest.fixture
def session(home: Path, tmp_path: Path) -> Callable[..., str]:
    """Write a session with a turn for each prompt, and return its id."""

    def write(number: int, *prompts: str) -> str:
        meta = ThreadMeta(
            id=id_of(number),
            cwd=str(tmp_path),
            created_at=1.79e9 + number,
            originator="tests",
            source="exec",
            cli_version="0",
            model_provider="mock",
        )
        recorder = RolloutStore().create(meta, str(home))
        for turn, text in enumerate(prompts, 1):
            answer = f"answer to {text}"
            recorder.append(
                [
                    EventEntry(TurnStartedEvent(f"turn-{turn}", 0)),
                    ItemEntry(user_message(text)),
                    EventEntry(UserMessageEvent(text)),
                    ItemEntry(Message("assistant", (OutputText(answer),))),
                    EventEntry(AgentMessageEvent(answer)),
                ]
            )
        recorder.close()
        os.utime(recorder.path or "", (1.79e9 + number, 1.79e9 + number))
        return meta.id

    return write


def test_sessions_are_listed_newest_first_in_pages(run: Run, session: Any) -> None:
    for number in range(3):
        session(number, f"prompt {number}")
    status, out, err = run("sessions", "list", "--limit", "2")
    assert (status, err) == (0, "")
    header, first, second, _, more = out.splitlines()
    assert header.split() == ["Session", "Changed", "Folder", "First", "message"]
    assert first.startswith(f"{id_of(2)}  ")
    assert first.endswith("  prompt 2")
    assert second.startswith(f"{id_of(1)}  ")
    assert more.startswith("More: --cursor ")
    _, out, _ = run("sessions", "list", "--json", "--cursor", more.split()[-1])
    (last,) = json.loads(out)["sessions"]
    assert (last["id"], last["preview"], last["created_at"]) == (id_of(0), "prompt 0", "2026-09-21T14:13:20.000Z")
    assert json.loads(out)["next_cursor"] is None


def test_without_sessions_there_is_nothing_to_list(run: Run) -> None:
    assert run("sessions", "list") == (0, "No sessions.\n", "")
    assert run("sessions", "search", "x") == (0, "No sessions found.\n", "")
    assert run("sessions", "check") == (0, "No damage found.\n", "")
    assert run("sessions", "search", " ")[0] == 2


def test_a_search_shows_where_the_text_is(run: Run, session: Any) -> None:
    session(1, "one", "Where does the Needle hide?")
    session(2, "nothing")
    status, out, _ = run("sessions", "search", "needle")
    assert status == 0
    assert out.splitlines()[1:] == [next(line for line in out.splitlines() if line.startswith(id_of(1)))]
    assert "Needle" in out


def test_a_session_is_shown_with_its_turns(run: Run, session: Any, home: Path) -> None:
    session(1, "Say\nhi", "bye \x1b[31m")
    _, out, _ = run("sessions", "show", id_of(1)[:8])
    assert out.splitlines()[0] == f"Session {id_of(1)}"
    assert out[out.index("\nTurn 1") :] == (
        "\nTurn 1 (turn-1)\n  user: Say\n        hi\n  agent: answer to Say\n         hi\n"
        "\nTurn 2 (turn-2)\n  user: bye \\x1b[31m\n  agent: answer to bye \\x1b[31m\n"
    )
    _, out, _ = run("sessions", "show", "--last", "--json")
    shown = json.loads(out)
    assert [(turn["number"], turn["id"]) for turn in shown["turns"]] == [(1, "turn-1"), (2, "turn-2")]
    assert len(shown["history"]) == 4
    assert shown["path"].startswith(str(home))


def test_a_session_gets_a_name_is_archived_and_deleted(run: Run, session: Any, home: Path) -> None:
    session(1, "one")
    assert run("sessions", "name", id_of(1), "mine") == (0, f"Named session {id_of(1)} 'mine'.\n", "")
    assert "[mine] one" in run("sessions", "list")[1]
    assert run("archive", "mine") == (0, f"Archived session {id_of(1)}.\n", "")
    assert run("sessions", "list")[1] == "No sessions.\n"
    assert "(archived)" in run("sessions", "list", "--archived")[1]
    status, _, err = run("exec", "--skip-git-repo-check", "resume", "mine", "go on")
    assert (status, err.splitlines()[-3:-1]) == (
        1,
        [
            f"Error: session {id_of(1)} is archived",
            f"Run `codex-framework unarchive {id_of(1)}` to unarchive it first.",
        ],
    )
    assert run("unarchive", "mine") == (0, f"Unarchived session {id_of(1)}.\n", "")
    status, _, err = run("delete", "mine")
    assert (status, err.splitlines()[:2]) == (
        1,
        ["Error: cannot confirm session deletion without an interactive terminal", "Run it again with --force."],
    )
    assert run("delete", "--force", "mine") == (0, f"Deleted session {id_of(1)}.\n", "")
    assert list(home.rglob("rollout-*")) == []


@pytest.mark.parametrize("command", [["show"], ["archive"], ["export"], ["repair"], ["show", "x", "--last"]])
def test_a_command_that_names_no_session_is_refused(run: Run, command: list[str]) -> None:
    status, _, err = run("sessions", *command)
    assert status == 2
    assert "name a session, or add" in err


@pytest.mark.parametrize("command", ["show", "archive", "unarchive", "export", "repair", "check"])
def test_a_session_that_is_not_there_is_told(run: Run, command: str) -> None:
    status, out, err = run("sessions", command, "01a3")
    assert (status, out) == (1, "")
    assert err.startswith("Error: no rollout found for thread id 01a3\n`codex-framework sessions list` lists")


def test_a_damaged_session_is_checked_and_repaired(run: Run, session: Any, home: Path) -> None:
    session(1, "one", "two")
    (path,) = home.rglob("rollout-*.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    status, out, _ = run("sessions", "check")
    assert (status, out.splitlines()[:2]) == (
        1,
        [str(path), "  the last line is incomplete; to repair: it is left out"],
    )
    status, out, _ = run("sessions", "repair", "--all")
    assert (status, out) == (0, f"{path}\n  the last line is incomplete; repaired: it is left out\n")
    assert run("sessions", "check", id_of(1)) == (0, "No damage found.\n", "")
    assert path.with_name(f"{path.name}.damaged-1").read_bytes() == whole[:-30]
    path.write_bytes(b"")
    status, out, err = run("sessions", "show", id_of(1))
    assert (status, out.splitlines()[0]) == (0, f"Session {id_of(1)}")
    assert err.startswith("warning: the first line of the conversation's file is missing")
    status, out, _ = run("sessions", "check", "--json")
    assert (status, json.loads(out)["faults"][0]["fact"]) == (1, "the file is empty")
    assert run("sessions", "repair", id_of(1))[0] == 1


def test_a_session_is_exported(run: Run, session: Any, home: Path, tmp_path: Path) -> None:
    session(1, "one")
    target = tmp_path / f"rollout-2026-11-22T00-00-00-{id_of(1)}.jsonl"
    assert run("sessions", "export", id_of(1), "-o", str(target)) == (0, "", f"Wrote {target}.\n")
    whole = RolloutStore().load(id_of(1), str(home))
    assert RolloutStore().load(str(target), "/nowhere").history == whole.history
    status, _, err = run("sessions", "export", id_of(1), "-o", str(target))
    assert status == 1
    assert err.startswith(f"Error: cannot write {target}: File exists")
    text = run("sessions", "export", "--last", "--format", "markdown")
    assert text[1].endswith("## Turn 1\n\n**user**\n\n> one\n\n**agent**\n\nanswer to one\n")
    assert json.loads(run("sessions", "export", "--last", "--format", "json")[1])["id"] == id_of(1)


def test_a_fork_without_a_prompt_runs_no_turn_and_prints_its_id(run: Run, session: Any, home: Path) -> None:
    session(1, "one", "two")
    status, out, err = run("fork", "--at", "1", id_of(1))
    assert (status, err) == (0, "")
    fork = RolloutStore().load(out.strip(), str(home))
    assert (fork.meta.forked_from_id, len(fork.turns)) == (id_of(1), 1)
    status, out, err = run("exec", "fork", "--json", "--at", "turn-2", id_of(1))
    assert json.loads(out)["type"] == "thread.started"
    assert len(RolloutStore().load(json.loads(out)["thread_id"], str(home)).turns) == 2
    status, _, err = run("fork", "--at", "9", id_of(1))
    assert (status, err.splitlines()[0]) == (1, f"Error: thread {id_of(1)} has no turn 9: it has 2 turns")


@pytest.mark.parametrize(
    ("arguments", "tip"),
    [
        (["fork"], "name the thread to fork, or add --last"),
        (["resume"], "`codex-framework sessions list` lists the threads"),
        (["resume", "--at", "1", "x"], "it belongs to `exec fork`"),
        (["exec", "--at", "1", "x"], "it belongs to `exec fork`"),
    ],
)
def test_a_wrong_command_line_is_refused(run: Run, arguments: list[str], tip: str) -> None:
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert tip in err


def test_a_fork_goes_on_with_a_prompt(session: Any, home: Path, tmp_path: Path, run_program: RunProgram) -> None:
    session(1, "one", "two")
    with ResponsesServer([say("forked")]) as server:
        (home / "config.toml").write_text(
            f'model = "m"\nmodel_provider = "p"\n[model_providers.p]\nname = "p"\nbase_url = "{server.url}"\n'
        )
        argv = ("fork", "--skip-git-repo-check", "--at", "1", id_of(1), "other")
        done = run_program(*argv, cwd=tmp_path, env={**os.environ, "CODEX_HOME": str(home)})
        assert (done.returncode, done.stdout) == (0, "forked\n"), done.stderr
        texts = [part["text"] for item in server.inputs[-1] if item["role"] == "user" for part in item["content"]]
    assert [text for text in texts if not text.startswith("<")] == ["one", "other"]
    history = RolloutStore().load(id_of(1), str(home)).history
    assert [message_text(item) for item in history if isinstance(item, Message)][-1] == "answer to two"


def test_the_store_of_the_configuration_is_used(run: Run, home: Path, session: Any) -> None:
    session(1, "one")
    (home / "config.toml").write_text('[framework]\nthread_store = "memory"\n')
    assert run("sessions", "list") == (0, "No sessions.\n", "")
    status, _, err = run("sessions", "check")
    assert (status, err.splitlines()[0]) == (1, "Error: the thread store 'memory' cannot check threads")
    (home / "config.toml").write_text('[framework]\nthread_store = "none"\n')
    status, _, err = run("sessions", "list")
    assert (status, err.splitlines()[0]) == (1, "Error: no plugin offers the thread store 'none'")


def file_of(home: Path, number: int) -> Path:
    (path,) = home.rglob(f"rollout-*-{id_of(number)}.jsonl")
    return path


@pytest.mark.parametrize("command", [["delete", "--force"], ["archive"], ["name"]])
@pytest.mark.parametrize("lie", [id_of(2), id_of(2)[:8], "other"])
def test_the_id_in_a_files_name_counts_not_the_one_in_its_head(
    run: Run, session: Any, home: Path, command: list[str], lie: str
) -> None:
    session(1, "one")
    session(2, "two")
    run("sessions", "name", id_of(2), "other")
    liar, other = file_of(home, 1), file_of(home, 2)
    liar.write_text(liar.read_text().replace(id_of(1), lie))
    _, shown, warned = run("sessions", "show", id_of(1))
    assert shown.splitlines()[0] == f"Session {id_of(1)}"
    assert f"has the id of another thread, {lie}; the id in the file's name is used" in warned
    assert run("sessions", "show", "--last")[1] == shown
    assert json.loads(run("sessions", "export", id_of(1))[1].splitlines()[0])["payload"]["id"] == id_of(1)
    status, out, err = run("sessions", *command, id_of(1), *(["new"] if command == ["name"] else []))
    assert (status, err) == (0, "")
    assert id_of(1) in out
    assert other.exists()
    assert liar.exists() is (command == ["name"])
    assert "[other] two" in run("sessions", "list")[1]


@pytest.mark.parametrize("command", [["delete", "--force"], ["archive"], ["unarchive"], ["name"]])
@pytest.mark.parametrize("name", ["rollout-2026-09-21T14-13-21-{}.jsonl", "notes.jsonl"])
def test_a_file_elsewhere_names_no_session_of_the_home(
    run: Run, session: Any, home: Path, tmp_path: Path, command: list[str], name: str
) -> None:
    session(1, "one")
    path = file_of(home, 1)
    foreign = tmp_path / name.format(id_of(1))
    foreign.write_bytes(path.read_bytes())
    for place in (foreign, Path(f"{home}/../{foreign.name}")):
        status, out, err = run("sessions", *command, str(place), *(["new"] if command == ["name"] else []))
        assert (status, out) == (1, "")
        assert f"is not a session of {home}" in err
    assert path.exists()
    assert run("sessions", "archive", str(path)) == (0, f"Archived session {id_of(1)}.\n", "")


EVIL = "\x1b]0;evil\x07\x9b31m\x7f"


def test_nothing_of_a_session_controls_the_terminal(run: Run, session: Any, home: Path, tmp_path: Path) -> None:
    session(1, f"one{EVIL}")
    path = file_of(home, 1)
    evil_id = f"evil{EVIL}"
    path.write_text(path.read_text().replace('"turn-1"', json.dumps(f"turn{EVIL}")))
    evil = path.rename(path.with_name(path.name.replace(id_of(1), evil_id)))
    elsewhere = tmp_path / "elsewhere.jsonl"
    elsewhere.write_text(evil.read_text().replace(id_of(1), json.dumps(evil_id)[1:-1]))
    for command in (
        ["sessions", "list", "--all"],
        ["sessions", "show", "--last"],
        ["sessions", "show", str(elsewhere)],
        ["sessions", "show", f"no{EVIL}"],
        ["sessions", "name", evil_id, "evil"],
        ["archive", evil_id],
        ["unarchive", evil_id],
        ["delete", "--force", str(evil)],
    ):
        status, out, err = run(*command)
        assert status == (1 if f"no{EVIL}" in command else 0), err
        assert not {*EVIL} & {*"\x1b\x07\x9b\x7f"} & {*out, *err}, command


@pytest.mark.parametrize("form", ["jsonl", "json", "markdown"])
def test_an_export_to_a_terminal_has_its_controls_escaped_and_a_file_gets_it_as_it_is(
    session: Any, home: Path, tmp_path: Path, form: str
) -> None:
    session(1, f"one{EVIL}")
    file_of(home, 1).write_text(file_of(home, 1).read_text().replace("\\u007f", "\x7f"))
    program = str(Path(sys.executable).with_name("codex-framework"))
    command = [program, "sessions", "export", id_of(1), "--format", form]
    environ = {**os.environ, "CODEX_HOME": str(home)}
    reader, terminal = pty.openpty()
    with subprocess.Popen(command, cwd=tmp_path, env=environ, stdin=subprocess.DEVNULL, stdout=terminal) as process:
        os.close(terminal)
        seen = b""
        with contextlib.suppress(OSError):  # the end
            while part := os.read(reader, 65_536):
                seen += part
    os.close(reader)
    assert process.returncode == 0
    text = seen.decode()
    assert not {*text} & {*"\x1b\x07\x9b\x7f"}
    assert "\\u001b]0;evil\\u0007\\u009b31m\\u007f" in text
    as_it_is = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, check=True, timeout=60)
    if form == "markdown":
        assert EVIL in as_it_is.stdout.decode()
    else:
        assert [json.loads(line) for line in (text.splitlines() if form == "jsonl" else [text])] == [
            json.loads(line) for line in (as_it_is.stdout.splitlines() if form == "jsonl" else [as_it_is.stdout])
        ]


def test_a_repair_of_all_goes_on_after_one_that_fails(run: Run, session: Any, home: Path) -> None:
    for number in (1, 2, 3):
        session(number, "one")
        file_of(home, number).write_bytes(file_of(home, number).read_bytes()[:-30])
    store = RolloutStore()
    writer = store.reopen(store.load(id_of(2), str(home)), str(home))
    before = file_of(home, 2).read_bytes()
    status, out, err = run("sessions", "repair", "--all")
    writer.close()
    assert status == 1
    assert out.count("; repaired: it is left out") == 2
    assert f"{file_of(home, 2)}\n  thread {id_of(2)} already has an active writer" in out
    assert "; this cannot be repaired" in out
    assert "Wait until it ends or stop it." in err
    assert file_of(home, 2).read_bytes() == before
    assert run("sessions", "repair", "--all")[0] == 0
    assert run("sessions", "check")[0] == 0
