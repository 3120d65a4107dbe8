"""Webhooks: what is posted, how it is signed, and which notifications are."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from typing import Any

import pytest

from codex_framework.testing import fail, say

from .conftest import APPROVED


def posts(hook: Any, count: int) -> Any:
    return lambda said: len(hook.posted) >= count


def table(hook: Any, *lines: str) -> str:
    return "\n".join(["[framework.plugins.notify.webhooks.ops]", f'url = "{hook.url}"', *lines])


def test_a_turn_is_posted(run: Any, hook: Any, workspace: Any):
    ran = run(table(hook), [say("D\u00f6ne.")], until=posts(hook, 1))
    (posted,) = hook.posted
    assert posted.path == "/services/T0/canary"
    assert posted.headers["content-type"] == "application/json"
    assert posted.headers["user-agent"].startswith("codex-framework/")
    assert posted.headers["webhook-id"].startswith("msg_")
    assert abs(int(posted.headers["webhook-timestamp"]) - time.time()) < 600
    assert "webhook-signature" not in posted.headers
    fields = posted.json
    assert fields.pop("duration-ms") >= 0
    assert fields.pop("thread-id") != fields.pop("turn-id")
    assert fields == {
        "type": "agent-turn-complete",
        "cwd": str(workspace),
        "client": "codex_framework",
        "input-messages": ["Hello!"],
        "last-assistant-message": "D\u00f6ne.",
    }
    assert ran.said == []


@pytest.mark.parametrize(
    ("secret", "key"),
    [
        ("a plain s\u00e4cret", "a plain s\u00e4cret".encode()),
        ("whsec_" + base64.b64encode(b"\x00\xffkey").decode(), b"\x00\xffkey"),
    ],
)
def test_the_signature_is_that_of_standard_webhooks(run: Any, hook: Any, secret: str, key: bytes):
    run(table(hook, 'secret_env_var = "HOOK_SECRET"'), env={"HOOK_SECRET": secret}, until=posts(hook, 1))
    (posted,) = hook.posted
    version, _, given = posted.headers["webhook-signature"].partition(",")
    signed = b".".join(
        [posted.headers["webhook-id"].encode(), posted.headers["webhook-timestamp"].encode(), posted.body]
    )
    assert version == "v1"
    assert base64.b64decode(given) == hmac.digest(key, signed, hashlib.sha256)


def test_kinds_are_chosen_for_each_webhook(run: Any, hook: Any):
    other = f'[framework.plugins.notify.webhooks.other]\nurl = "{hook.url}/other"\nkinds = ["turn-failed"]\n'
    config = table(hook, 'kinds = ["agent-turn-complete", "approval-requested"]') + "\n" + other
    run(config, [*APPROVED, fail("no model")], turns=2, until=posts(hook, 3))
    told = sorted((posted.path.rpartition("/")[2], posted.json["type"]) for posted in hook.posted)
    assert told == [("canary", "agent-turn-complete"), ("canary", "approval-requested"), ("other", "turn-failed")]


def test_they_are_posted_in_order_and_none_is_lost(run: Any, hook: Any):
    run(table(hook), [say(str(number)) for number in range(12)], turns=12, until=posts(hook, 12))
    assert [posted.json["last-assistant-message"] for posted in hook.posted] == [str(number) for number in range(12)]


def test_a_short_turn_can_be_left_out(run: Any, hook: Any):
    run(table(hook, "min_turn_s = 1000.0"), APPROVED, until=posts(hook, 1))
    assert [posted.json["type"] for posted in hook.posted] == ["approval-requested"]


def test_the_content_can_be_left_out(run: Any, hook: Any):
    run(table(hook, "content = false"), [*APPROVED, fail("secret reason")], turns=2, until=posts(hook, 3))
    assert [posted.json["type"] for posted in hook.posted] == [
        "approval-requested", "agent-turn-complete", "turn-failed",
    ]  # fmt: skip
    for posted in hook.posted:
        assert posted.json.keys() <= {"type", "thread-id", "turn-id", "cwd", "client", "duration-ms"}


def test_headers_and_url_can_come_from_variables(run: Any, hook: Any):
    config = """
        [framework.plugins.notify.webhooks.ops]
        url_env_var = "HOOK_URL"
        http_headers = { X-Team = "agents" }
        env_http_headers = { Authorization = "HOOK_TOKEN" }
    """
    run(config, env={"HOOK_URL": hook.url, "HOOK_TOKEN": "Bearer canary"}, until=posts(hook, 1))
    (posted,) = hook.posted
    assert (posted.headers["x-team"], posted.headers["authorization"]) == ("agents", "Bearer canary")


def test_commands_do_not_get_the_variables(run: Any, hook: Any):
    from codex_framework.testing import call

    config = (
        table(hook, 'secret_env_var = "HOOK_S"', 'env_http_headers = { X-A = "HOOK_T" }')
        + '\n[framework.plugins.notify.webhooks.two]\nurl_env_var = "HOOK_U"\n'
    )
    env = {"HOOK_S": "canary-secret-1", "HOOK_T": "canary-header-1", "HOOK_U": f"{hook.url}/canary-url"}
    replies = [call("exec_command", cmd="env; echo end"), say("Done.")]
    ran = run(config, replies, env=env)
    (output,) = [event.aggregated_output for event in ran.results[0].events if event.type == "exec_command_end"]
    assert "end" in output
    assert "canary" not in output
