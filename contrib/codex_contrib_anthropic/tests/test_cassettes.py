"""Answers over this API are recorded and played back, with their thoughts, and without secrets."""

from __future__ import annotations

import asyncio

from codex_framework.testing import call, custom_call, fault, reasoning, say
from codex_framework.testing.cassettes import CassetteFile

KEY = "canary-key-0123456789"
PATCH = "*** Begin Patch\n*** Add File: poem.txt\n+roses\n*** End Patch"
OVERLOADED = fault(529, body={"error": {"type": "overloaded_error", "message": f"{KEY} is overloaded"}})


def test_turns_play_back_without_a_server(make_kernel, model_server, workspace, tmp_path):
    server = model_server(
        [
            reasoning("Hm.") + call("exec_command", cmd="echo hi") + custom_call("apply_patch", PATCH),
            say("Written.", deltas=5),
            OVERLOADED,
            say(f"Again, {KEY}."),
        ]
    )
    text = (
        'model = "claude-sonnet-4-5"\nmodel_provider = "mine"\nsandbox_mode = "danger-full-access"\n'
        f'approval_policy = "never"\n[model_providers.mine]\nbase_url = "{server.url}"\nwire_api = "messages"\n'
        'env_key = "MODELS_KEY"\nrequest_max_retries = 0\n'
    )
    path = tmp_path / "turns.jsonl"

    async def turns(config):
        async with make_kernel(config=config, env={"MODELS_KEY": KEY}) as kernel:
            thread = await kernel.start_thread()
            return [(await thread.run(prompt)).final_message for prompt in ("write", "again")]

    assert asyncio.run(turns(CassetteFile(path, "record")(text))) == ["Written.", f"Again, {KEY}."]
    server.stop()
    written = path.read_text()
    assert KEY not in written
    assert "signature-of-" in written
    (workspace / "poem.txt").unlink()
    assert asyncio.run(turns(CassetteFile(path)(text))) == ["Written.", "Again, <secret:MODELS_KEY>."]
    assert (workspace / "poem.txt").read_text() == "roses\n"
