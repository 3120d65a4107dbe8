"""Turns that are added to a thread of Codex are in its database at once, and are replaced when Codex reads them."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ThreadMeta
from codex_framework.contract.protocol.items import Reasoning, UnknownItem
from codex_framework.testing import ResponsesServer, call, fault, reply, say
from codex_plugin_rollout.store import _previews as previews_of
from codex_plugin_rollout.turn_previews import TurnPreviews, shown_item
from tests.plugins.rollout.conftest import THREAD

SCHEMA = """
CREATE TABLE thread_turns (
    thread_id TEXT NOT NULL, turn_id TEXT NOT NULL, rollout_ordinal INTEGER NOT NULL, status TEXT NOT NULL, error_json TEXT,
    started_at INTEGER, completed_at INTEGER, duration_ms INTEGER, first_user_item_id TEXT, final_agent_item_id TEXT,
    rollout_byte_offset INTEGER, rollout_end_ordinal INTEGER, rollout_end_byte_offset INTEGER, root_turn_id TEXT,
    PRIMARY KEY (thread_id, turn_id)
);
CREATE TABLE thread_items (
    thread_id TEXT NOT NULL, turn_id TEXT NOT NULL, item_id TEXT NOT NULL, rollout_ordinal INTEGER NOT NULL,
    created_at_ms INTEGER NOT NULL, item_json TEXT NOT NULL, item_type TEXT NOT NULL DEFAULT '',
    updated_at_ordinal INTEGER NOT NULL DEFAULT 0, started_at_ms INTEGER, completed_at_ms INTEGER,
    PRIMARY KEY (thread_id, turn_id, item_id)
);
CREATE TABLE thread_history_projection_state (
    thread_id TEXT PRIMARY KEY, next_rollout_byte_offset INTEGER NOT NULL, next_rollout_ordinal INTEGER NOT NULL
);
"""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Codex's database, in which Codex has read 500 bytes of the thread."""
    with closing(sqlite3.connect(tmp_path / "thread_history_1.sqlite")) as database:
        database.executescript(SCHEMA)
        database.execute("INSERT INTO thread_history_projection_state VALUES (?, 500, 5)", (THREAD,))
        database.commit()
        yield database


def lines(*events: dict[str, Any]) -> list[bytes]:
    records = (
        {"timestamp": "t", "ordinal": 7 + number, "type": "event_msg", "payload": event}
        for number, event in enumerate(events)
    )
    return [json.dumps(record).encode() + b"\n" for record in records]


def item(kind: str, item_id: str, **fields: Any) -> dict[str, Any]:
    return {"type": "item_completed", "completed_at_ms": 9, "item": {"type": kind, "id": item_id, **fields}}


STARTED = {"type": "task_started", "turn_id": "t1", "started_at": 1}
ENDED = {"type": "task_complete", "turn_id": "t1", "completed_at": 3, "duration_ms": 2000}
TURN = lines(
    STARTED,
    item("UserMessage", "u1", content=[{"type": "text", "text": "hi", "text_elements": []}]),
    item("McpToolCall", "m1", server="s"),
    item("AgentMessage", "a1", content=[{"type": "Text", "text": "Wait."}], phase="commentary"),
    item("AgentMessage", "a2", content=[{"type": "Text", "text": "Yes."}]),
    item("AgentMessage", "a3", content=[{"type": "Text", "text": "..."}], phase="commentary"),
    ENDED,
)


def test_a_turn_is_added_when_it_ends_and_what_codex_has_read_stays_where_it_is(
    database: sqlite3.Connection, tmp_path: Path
) -> None:
    previews = TurnPreviews(tmp_path, THREAD)
    previews.add(TURN[:-1], 500)
    assert database.execute("SELECT * FROM thread_turns").fetchall() == []
    previews.add(TURN[-1:], 500 + len(b"".join(TURN[:-1])))
    assert database.execute("SELECT * FROM thread_turns").fetchall() == [
        (THREAD, "t1", 7, "completed", None, 1, 3, 2000, "u1", "a2", 500, 13, 500 + len(b"".join(TURN)), None)
    ]
    items = database.execute("SELECT item_id, rollout_ordinal, created_at_ms FROM thread_items").fetchall()
    assert items == [("u1", 8, 9), ("a1", 10, 9), ("a2", 11, 9), ("a3", 12, 9)], "another kind waits for Codex"
    assert database.execute("SELECT * FROM thread_history_projection_state").fetchall() == [(THREAD, 500, 5)]


@pytest.mark.parametrize(
    ("ended", "status", "error"),
    [
        ({"type": "turn_aborted", "turn_id": "t1", "reason": "interrupted"}, "interrupted", None),
        (
            {**ENDED, "error": {"message": "bad", "codex_error_info": "bad_request"}},
            "failed",
            {"message": "bad", "codexErrorInfo": "badRequest", "additionalDetails": None},
        ),
    ],
)
def test_a_turn_that_was_not_completed_says_so(
    database: sqlite3.Connection, tmp_path: Path, ended: dict[str, Any], status: str, error: Any
) -> None:
    TurnPreviews(tmp_path, THREAD).add(lines(STARTED, ended), 500)
    ((found, text),) = database.execute("SELECT status, error_json FROM thread_turns").fetchall()
    assert (found, text and json.loads(text)) == (status, error)


def test_what_codex_has_read_itself_is_left_alone(database: sqlite3.Connection, tmp_path: Path) -> None:
    TurnPreviews(tmp_path, THREAD).add(TURN, 499)
    TurnPreviews(tmp_path, "another thread").add(TURN, 500)
    assert database.execute("SELECT * FROM thread_turns").fetchall() == []
    database.execute(
        "INSERT INTO thread_turns (thread_id, turn_id, rollout_ordinal, status) VALUES (?, 't1', 1, 'own')", (THREAD,)
    )
    database.commit()
    TurnPreviews(tmp_path, THREAD).add(TURN, 500)
    assert database.execute("SELECT status FROM thread_turns").fetchall() == [("own",)]


@pytest.mark.parametrize(
    "change", ["DROP TABLE thread_items", "ALTER TABLE thread_turns DROP COLUMN duration_ms", "BEGIN IMMEDIATE"]
)
def test_a_database_of_another_version_or_a_busy_one_is_left_alone(
    database: sqlite3.Connection, tmp_path: Path, change: str
) -> None:
    database.execute(change)
    TurnPreviews(tmp_path, THREAD).add(TURN, 500)
    assert database.execute("SELECT * FROM thread_turns").fetchall() == []


def test_a_missing_or_broken_database_and_odd_lines_cost_nothing(tmp_path: Path) -> None:
    previews = TurnPreviews(tmp_path, THREAD)
    previews.add(TURN, 500)
    assert list(tmp_path.iterdir()) == [], "it is not made"
    (tmp_path / "thread_history_1.sqlite").write_text("no database")
    previews.add(TURN, 500)
    previews.add(
        [b'{"type":"event_msg"', b'{"type":"event_msg"}', *lines(STARTED, {"type": "item_completed"}, ENDED)], 0
    )
    previews.add(lines(STARTED, item("CommandExecution", "c1"), ENDED), 0)


def test_a_number_that_the_database_cannot_hold_costs_only_its_turn(
    database: sqlite3.Connection, tmp_path: Path
) -> None:
    odd = lines(STARTED, {**ENDED, "duration_ms": 1 << 64})
    previews = TurnPreviews(tmp_path, THREAD)
    previews.add([*odd, *TURN], 500)
    assert database.execute("SELECT rollout_byte_offset FROM thread_turns").fetchall() == [(500 + len(b"".join(odd)),)]


IMAGES = [{"type": "image", "image_url": "data:,"}, {"type": "skill", "name": "a", "path": "/b"}]
CHANGES = {
    "/b": {"type": "delete", "content": "x"},
    "/a": {"type": "update", "unified_diff": "@@", "move_path": "/c"},
}


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (
            {"type": "UserMessage", "id": "1", "content": IMAGES},
            [{"type": "image", "detail": None, "url": "data:,"}, {"type": "skill", "name": "a", "path": "/b"}],
        ),
        (
            {"type": "FileChange", "id": "1", "status": "in_progress", "changes": CHANGES},
            [
                {"path": "/a", "kind": {"type": "update", "move_path": "/c"}, "diff": "@@\n\nMoved to: /c"},
                {"path": "/b", "kind": {"type": "delete"}, "diff": "x"},
            ],
        ),
    ],
)
def test_parts_of_items_have_the_form_of_the_app_server(given: dict[str, Any], shown: Any) -> None:
    found = shown_item(given)
    assert found is not None
    assert found.get("content", found.get("changes")) == shown


def test_codex_shows_added_turns_at_once_and_as_it_reads_them_itself(
    app_server: Callable[[str], Any], tmp_path: Path
) -> None:
    patch = "*** Begin Patch\n*** Add File: new.txt\n+hello\n*** End Patch"
    search = UnknownItem(
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}}
    )
    thought = Reasoning(
        id="rs_1", summary=({"type": "summary_text", "text": "**Hm**"},), content=None, encrypted_content="x" * 800
    )
    replies = [
        say("One."),
        call("exec_command", cmd="cat a.txt", login=False, call_id="c1"),
        call("exec_command", cmd=f"apply_patch <<'E'\n{patch}\nE", login=False, call_id="c2"),
        reply(search, thought, *say("Two.").items),
        fault(400, body={"error": {"message": "no"}}),
    ]
    work, home = tmp_path / "work", tmp_path / "home"
    with ResponsesServer(replies) as server:
        with app_server(server.url) as codex:
            thread = codex.request("thread/start", cwd=str(work), approvalPolicy="never", sandbox="danger-full-access")[
                "thread"
            ]["id"]
            codex.turn(thread, "first")
        (work / "a.txt").write_text("a\n")
        (home / "config.toml").write_text(
            f'model = "gpt-5.5"\nmodel_provider = "mock"\n[model_providers.mock]\nname = "mock"\nbase_url = "{server.url}"\n'
        )
        for prompt in ("second", "third"):
            argv = ["exec", "--skip-git-repo-check", "-s", "danger-full-access", "resume", thread, prompt]
            subprocess.run(
                [Path(sys.executable).with_name("codex-framework"), *argv],
                cwd=work, env={**os.environ, "CODEX_HOME": str(home), "HOME": str(tmp_path)},
                stdin=subprocess.DEVNULL, capture_output=True, timeout=120,
            )  # fmt: skip
        with app_server(server.url) as codex:
            before = codex.request("thread/read", threadId=thread, includeTurns=True)["thread"]["turns"]
            codex.request("thread/resume", threadId=thread)
            after = codex.request("thread/read", threadId=thread, includeTurns=True)["thread"]["turns"]
    assert [turn["status"] for turn in before] == ["completed", "completed", "failed"]
    assert [shown["type"] for shown in before[1]["items"]] == [
        *("userMessage", "commandExecution", "fileChange", "webSearch", "reasoning", "agentMessage")
    ]
    assert before == after


def test_only_a_thread_in_one_numbered_file_of_a_home_with_a_database_gets_previews(
    database: sqlite3.Connection, meta: ThreadMeta, tmp_path: Path
) -> None:
    paginated = meta.evolve(extra={"history_mode": "paginated"})
    base = {"rollout_id": THREAD, "end_ordinal_exclusive": 5}
    assert previews_of(paginated, tmp_path) is not None
    assert previews_of(paginated, tmp_path / "elsewhere") is None
    assert previews_of(meta, tmp_path) is None
    assert previews_of(meta.evolve(extra={**paginated.extra, "history_base": base}), tmp_path) is None
