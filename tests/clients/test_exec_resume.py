from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from codex_framework.testing.replies import say


def test_the_newest_thread_of_this_folder_is_resumed(cli: Any, tmp_path: Path, user_texts: Any) -> None:
    server = cli.serve(*[say(f"answer {number}") for number in range(4)])
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / ".git" / "objects").mkdir(parents=True)
    here = cli.json("here").events[0]["thread_id"]
    there = cli.json("there", cwd=elsewhere).events[0]["thread_id"]
    assert cli.json("resume", "--last", "more").events[0]["thread_id"] == here
    assert "here" in user_texts(server.requests[2].json)
    cli.json("resume", there, "newest now", cwd=elsewhere)
    cli.serve(say("ok"))
    assert cli.json("resume", "--last", "--all", "more").events[0]["thread_id"] == there


def test_a_resumed_prompt_may_come_from_stdin(cli: Any, user_texts: Any) -> None:
    server = cli.serve(say("one"), say("two"))
    thread_id = cli.json("first").events[0]["thread_id"]
    assert cli.json("resume", thread_id, stdin=b"second").status == 0
    assert user_texts(server.requests[1].json)[-1] == "second"


def test_an_unknown_thread_is_told(cli: Any) -> None:
    cli.serve(say("ok"))
    missing = "01a1fda3-09c8-78f9-8b2f-066bad3b14a2"
    ran = cli.json("resume", missing, "hi")
    assert (ran.status, ran.out) == (1, "")
    assert f"Error: no rollout found for thread id {missing}" in ran.err


def test_without_any_thread_there_is_none_to_resume(cli: Any) -> None:
    cli.serve(say("ok"))
    ran = cli.json("resume", "--last", "hi")
    assert ran.status == 1
    assert "no thread to resume was found in " in ran.err


def test_an_ephemeral_thread_leaves_nothing(cli: Any) -> None:
    cli.serve(say("ok"))
    assert cli.json("--ephemeral", "hi").status == 0
    assert cli.rollouts() == []


def test_resume_is_a_command_of_its_own_too(cli: Any) -> None:
    cli.serve(say("one"), say("two"))
    thread_id = cli.json("first").events[0]["thread_id"]
    ran = cli.run("resume", "--json", thread_id, "more")
    assert ran.events[0]["thread_id"] == thread_id


def test_the_schema_of_one_turn_is_not_sent_on_the_next(cli: Any, tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps({"type": "object"}))
    server = cli.serve(say("{}"), say("two"))
    thread_id = cli.json("--output-schema", str(schema), "first").events[0]["thread_id"]
    schema.unlink()
    cli.json("resume", thread_id, "more")
    first, second = (request.json.get("text", {}) for request in server.requests)
    assert "format" in first
    assert "format" not in second
