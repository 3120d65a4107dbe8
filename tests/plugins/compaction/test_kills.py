"""A process that ends anywhere around a compaction: the conversation is the old one or the new one, and goes on."""

from __future__ import annotations

import json

import pytest

from codex_framework.testing import call, say

LIMIT = "model_auto_compact_token_limit=900"

OLD = [
    ("user", "Hi!"),
    ("assistant", "Hello."),
    ("user", "Plan."),
    ("function_call", "{}"),
    ("function_call_output", "OUTPUT"),
]
NEW = [("user", "Hi!"), ("user", "Plan."), ("user", "PREFIX\nThey planned."), ("assistant", "Done.")]


@pytest.mark.parametrize("torn", [False, True])
def test_a_kill_at_any_line_around_a_compaction_leaves_the_old_or_the_new_conversation(scene, conversation, used, torn):
    async def first(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        await thread.run("Plan.")
        return thread.id

    replies = [say("Hello."), used(call("nosuch"), 1000), say("They planned."), say("Done.")]
    thread_id = scene.play(first, replies, LIMIT)
    path = scene.rollout
    lines = path.read_bytes().splitlines(keepends=True)
    (compacted,) = (number for number, line in enumerate(lines) if json.loads(line)["type"] == "compacted")
    asked = next(number for number, line in enumerate(lines) if b"Plan." in line)
    cuts = range(asked + 1, len(lines) + (not torn))
    texts = []

    async def story(kernel):
        for cut in cuts:
            whole = b"".join(lines[:cut])
            path.write_bytes(whole + lines[cut][: len(lines[cut]) // 2] if torn else whole)
            thread = await kernel.resume_thread(thread_id)
            ended = await thread.run("Good.")
            await thread.shutdown()
            texts.append(ended.final_message)

    scene.play(story, [say("Indeed.")] * len(cuts), "model_auto_compact_token_limit=900000")
    assert texts == ["Indeed."] * len(cuts)
    for cut, body in zip(cuts, scene.asked, strict=True):
        found = [entry for entry in conversation(body["input"]) if entry != ("context", "")]
        assert found.pop() == ("user", "Good."), cut
        found = [(role, "OUTPUT" if role == "function_call_output" else text) for role, text in found]
        if cut <= compacted:
            whole = OLD if ("function_call", "{}") in found else OLD[:3]
            assert found == whole, cut
        else:
            whole = NEW if ("assistant", "Done.") in found else NEW[:3]
            assert found == whole, cut
    assert len(cuts) > 8
