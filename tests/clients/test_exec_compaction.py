"""``exec`` with a conversation that grows too long."""

from __future__ import annotations

import json
from typing import Any

from codex_framework.contract.protocol.events import TokenUsage
from codex_framework.testing.replies import call, say
from codex_framework.testing.scripted import Reply

LIMIT = ("-c", "model_auto_compact_token_limit=50000")


def used(reply: Reply, input_tokens: int, output_tokens: int) -> Reply:
    return reply.evolve(usage=TokenUsage(input_tokens, 0, output_tokens, 0, input_tokens + output_tokens))


def replies() -> list[Reply]:
    """What the recorded run of Codex was answered with."""
    return [
        used(call("exec_command", cmd="echo one"), 1000, 50),
        used(call("exec_command", cmd="echo two"), 60_000, 50),
        used(say("SUMMARY: did one and two."), 61_000, 30),
        used(call("exec_command", cmd="echo three"), 2000, 10),
        used(say("Done."), 100, 10),
    ]


def test_json_lines_tell_nothing_of_a_compaction_as_in_codex(cli: Any, anchors: Any) -> None:
    cli.serve(*replies())
    ran = cli.json("--dangerously-bypass-approvals-and-sandbox", *LIMIT, "Compact.")
    recorded = [json.loads(line) for line in (anchors / "exec_jsonl" / "p_compact.jsonl").read_text().splitlines()]
    assert [event["type"] for event in ran.events] == [event["type"] for event in recorded]
    assert ran.events[2:] == recorded[2:]


def test_people_read_that_the_context_was_compacted(cli: Any) -> None:
    cli.serve(*replies())
    ran = cli.exec("--dangerously-bypass-approvals-and-sandbox", *LIMIT, "Compact.")
    lines = ran.err.splitlines()
    assert (ran.status, ran.out) == (0, "Done.\n")
    assert lines.count("context compacted") == 1
    assert lines.index("two") < lines.index("context compacted") < lines.index("three")
    assert "SUMMARY" not in ran.err


def test_a_resumed_conversation_that_was_full_is_compacted_first(cli: Any) -> None:
    server = cli.serve(used(say("One."), 60_000, 50), say("SUMMARY: one."), say("Two."))
    cli.exec(*LIMIT, "First.")
    ran = cli.exec("resume", "--last", *LIMIT, "Second.")
    assert ran.out == "Two.\n"
    assert len(server.requests) == 3
    said = [item for item in server.inputs[2] if item.get("role") == "user"]
    assert [item["content"][0]["text"].rpartition("\n")[2] for item in said][:2] == ["First.", "SUMMARY: one."]
