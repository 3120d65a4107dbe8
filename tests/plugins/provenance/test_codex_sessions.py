"""Sessions that Codex recorded: what they tell without a record of who acted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.plugins.provenance.conftest import HOUSE, called, noted, returned, said, started

PRIVATE = "internal_chat_message_metadata_passthrough"


def test_the_kinds_of_context_that_codex_names_are_its_sources(sessions: Any, why: Any) -> None:
    kinds = ["permissions.instructions", "host_skills.instructions"]
    content = [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]
    context = {"type": "message", "role": "developer", "content": content, PRIVATE: {"content_item_kinds": kinds}}
    person = said("hello", **{PRIVATE: {"content_item_kinds": ["user.text"]}})
    sessions.write([started(), ("response_item", context), person])
    assert "Recorded by codex_exec 1.2.3, which does not record who acted" in why("last")
    assert "context from permissions.instructions (part 1), host_skills.instructions (part 2)" in why("last", "1")
    assert "#2 user message: from the user in turn 1" in why("last", "2")
    (note,) = json.loads(why("last", "--json"))["notes"]
    assert note["recorded"] is False


def test_context_without_kinds_is_known_by_its_mark(sessions: Any, why: Any) -> None:
    sessions.write([said("<environment_context>...", "user"), started(), said("hello")])
    assert "context from environment (part 1)" in why("last", "1")


@pytest.mark.parametrize(
    ("output", "who"),
    [
        ("approval policy is Never; reject command — you cannot ask", "approval policy Never refused"),
        (
            "patch rejected: writing outside of the project; rejected by user approval settings",
            "approval policy refused",
        ),
        ("exec command rejected by user", "the user refused"),
        ("rejected by user", "the user refused"),
        ("Command blocked by PreToolUse hook: no. Command: rm", "hook refused"),
        ("`rm x` rejected: policy forbids commands starting with `rm`", "command policy refused"),
        ('exec_command failed: CreateProcess { message: "Rejected(\\"no\\")" }', "command policy refused"),
        ("aborted by user after 1.0s", "the user refused"),
    ],
)
def test_known_refusals_are_concluded(sessions: Any, why: Any, output: str, who: str) -> None:
    sessions.write([started(), said("hello"), called(), returned(output)])
    answer = why("last", "c1")
    assert who in answer
    assert "(inferred; not recorded)" in answer


def test_output_that_only_mentions_a_refusal_is_none(sessions: Any, why: Any) -> None:
    sessions.write([started(), said("hello"), called(), returned("log: rejected by user")])
    assert "Nobody changed or refused it." in why("last", "c1")


def test_what_is_recorded_is_not_concluded_again(sessions: Any, why: Any) -> None:
    refused = noted(did="refused", what="call", by=HOUSE, call_id="c1", reason="rejected by user")
    sessions.write([started(), said("hello"), called(), refused, returned("rejected by user")])
    assert why("last", "c1").count("refused") == 1


def test_turns_of_older_files_are_counted_by_what_the_user_wrote(sessions: Any, why: Any) -> None:
    sessions.write([said("one"), said("A.", "assistant"), said("two"), ("compacted", {"message": "short"})])
    overview = why("last")
    assert "2 turns, 3 items" in overview
    assert "somebody compacted the history" in overview
