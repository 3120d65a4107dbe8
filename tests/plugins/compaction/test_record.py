"""Compacted conversations on disk: what is written, and how a resumed one goes on, those of Codex included."""

from __future__ import annotations

import json
import shutil

from codex_framework.contract.protocol.events import ContextCompactedEvent
from codex_framework.testing import call, say
from codex_plugin_compaction import Compact
from codex_plugin_compaction.prompt import SUMMARY_PREFIX

LIMIT = "model_auto_compact_token_limit=900"


def lines(scene) -> list[dict]:
    return [json.loads(line) for line in scene.rollout.read_text().splitlines()]


def test_the_record_has_the_summary_and_the_whole_new_history(scene, carry_out):
    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        await carry_out(thread, Compact())

    scene.play(story, [say("Hello."), say("They greeted.")])
    (compacted,) = (line["payload"] for line in lines(scene) if line["type"] == "compacted")
    assert compacted["message"] == f"{SUMMARY_PREFIX}\nThey greeted."
    assert [item["content"] for item in compacted["replacement_history"]] == [
        [{"type": "input_text", "text": "Hi!"}],
        [{"type": "input_text", "text": compacted["message"]}],
    ]
    kinds = [line["payload"].get("type", line["type"]) for line in lines(scene)]
    end = kinds[kinds.index("compacted") :]
    assert end == ["compacted", "context_compacted", "token_count", "task_complete"]


def test_a_resumed_thread_goes_on_with_the_same_bytes(scene, carry_out):
    async def first(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        await carry_out(thread, Compact())
        await thread.run("How are you?")
        return thread.id

    thread_id = scene.play(first, [say("Hello."), say("They greeted."), say("Fine.")])
    before = scene.asked[2]["input"]

    async def second(kernel):
        thread = await kernel.resume_thread(thread_id)
        await thread.run("Good.")
        return list((await anext(aiter(thread.events()))).msg.initial_messages)

    past = scene.play(second, [say("Indeed.")])
    assert scene.asked[0]["input"][: len(before)] == before
    assert any(isinstance(event, ContextCompactedEvent) for event in past)


def test_a_thread_that_was_compacted_in_a_turn_is_resumed_with_its_context(scene, conversation, used):
    async def first(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        return thread.id

    replies = [used(call("update_plan", plan=[]), 1000), say("They greeted."), say("Done.")]
    thread_id = scene.play(first, replies, LIMIT)

    async def second(kernel):
        await (await kernel.resume_thread(thread_id)).run("Good.")

    scene.play(second, [say("Indeed.")])
    assert conversation(scene.asked[0]["input"]) == [
        ("context", ""),
        ("user", "Hi!"),
        ("user", "PREFIX\nThey greeted."),
        ("assistant", "Done."),
        ("user", "Good."),
    ]


def test_a_compacted_conversation_of_codex_is_resumed_and_its_summary_replaced(scene, conversation, carry_out, anchors):
    name = "rollout-2026-11-20T18-27-39-01a1fa36-d3a8-7873-a34f-da0f79d40d54.jsonl"
    folder = scene.codex_home / "sessions" / "2026" / "11" / "20"
    folder.mkdir(parents=True)
    shutil.copy(anchors / "rollouts" / "p_compact.0.jsonl", folder / name)

    async def story(kernel):
        thread = await kernel.resume_thread("01a1fa36-d3a8-7873-a34f-da0f79d40d54")
        await carry_out(thread, Compact())
        await thread.run("Good.")

    scene.play(story, [say("All three are done."), say("Indeed.")])
    summarising, after = (conversation(body["input"]) for body in scene.asked)
    assert summarising[:3] == [
        ("context", ""),
        ("user", "Compact."),
        ("user", "PREFIX\nSUMMARY: did one and two."),
    ]
    assert [role for role, _ in summarising[3:]] == ["function_call", "function_call_output", "assistant", "user"]
    assert after == [
        ("user", "Compact."),
        ("user", "PREFIX\nAll three are done."),
        ("context", ""),
        ("user", "Good."),
    ]


def test_a_line_of_an_older_codex_without_a_history_is_resumed(scene, conversation):
    thread_id = "01a1fa36-d3a8-7873-a34f-da0f79d40d55"
    folder = scene.codex_home / "sessions" / "2026" / "11" / "20"
    folder.mkdir(parents=True)
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi!"}]}
    head = {"id": thread_id, "timestamp": "2026-11-20T18:27:41.599Z", "cwd": "/w", "source": "exec"}
    summary = {"message": f"{SUMMARY_PREFIX}\nThey greeted."}
    record = [("session_meta", head), ("response_item", said), ("compacted", summary)]
    text = [json.dumps({"timestamp": head["timestamp"], "type": kind, "payload": payload}) for kind, payload in record]
    (folder / f"rollout-2026-11-20T18-27-41-{thread_id}.jsonl").write_text("\n".join(text) + "\n")

    async def story(kernel):
        await (await kernel.resume_thread(thread_id)).run("Good.")

    scene.play(story, [say("Indeed.")])
    assert conversation(scene.asked[0]["input"]) == [
        ("user", "Hi!"),
        ("user", "PREFIX\nThey greeted."),
        ("context", ""),
        ("user", "Good."),
    ]
