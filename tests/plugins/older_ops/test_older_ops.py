"""Ops of older versions: what they mean, and what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ThreadError
from codex_framework.contract.protocol.events import (
    ErrorEvent,
    ThreadSettingsAppliedEvent,
    TurnCompleteEvent,
    WarningEvent,
)
from codex_framework.contract.protocol.policies import DangerFullAccess, ReadOnly, WorkspaceWrite
from codex_framework.contract.protocol.wire import read_op
from codex_framework.testing import say
from codex_plugin_older_ops.sandboxes import policy_of


def submitted(make_kernel: Any, *raws: dict[str, Any], replies: int = 1) -> Any:
    """Submit ops from the wire to a thread. Return its settings after each, its events and the prompts that were sent."""

    async def main() -> Any:
        async with make_kernel([say("ok")] * replies) as kernel:
            thread = await kernel.start_thread(reasoning_effort="high")
            heard = thread.events()
            kinds = {tag: offer.item.op for tag, offer in kernel.registry.ops.items()}
            settings = []
            for raw in raws:
                await thread.submit(read_op(raw, kinds))
                await asyncio.sleep(0.01)
                if thread.status != "idle":
                    await thread.settled()
                settings.append(thread.conversation.settings)
            await thread.shutdown()
            return settings, [event.msg async for event in heard], kernel.model.requests

    return asyncio.run(asyncio.wait_for(main(), 30))


def test_override_turn_context_changes_what_it_names_and_null_is_the_default(make_kernel: Any, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    first, second, third = submitted(
        make_kernel,
        {"type": "override_turn_context", "model": "m2", "cwd": str(folder)},
        {"type": "override_turn_context", "effort": None},
        {"type": "override_turn_context", "effort": "low", "sandbox_policy": {"mode": "read-only"}},
    )[0]
    assert (first.model, first.cwd, first.reasoning_effort) == ("m2", folder, "high")
    assert (second.model, second.reasoning_effort) == ("m2", None)
    assert (third.reasoning_effort, third.sandbox_policy) == ("low", ReadOnly())


def test_user_turn_runs_a_turn_with_its_settings(make_kernel: Any) -> None:
    for tag in ("user_turn", "user_input_with_turn_context"):
        raw = {
            "type": tag,
            "items": [{"type": "text", "text": "hello"}],
            "approval_policy": "never",
            "sandbox_policy": {"type": "danger-full-access"},
            "model": "m3",
            "final_output_json_schema": {"type": "object"},
        }
        settings, events, requests = submitted(make_kernel, raw)
        assert settings[0].model == "m3"
        assert requests[0].model.slug == "m3"
        assert requests[0].output_schema == {"type": "object"}
        assert [
            type(event) for event in events if isinstance(event, (ThreadSettingsAppliedEvent, TurnCompleteEvent))
        ] == [
            ThreadSettingsAppliedEvent,
            TurnCompleteEvent,
        ]


def test_configure_session_sets_what_it_can_and_says_what_it_cannot(make_kernel: Any, tmp_path: Path) -> None:
    raw = {
        "type": "configure_session",
        "model": "m4",
        "provider": {"name": "OpenAI"},
        "instructions": "Be kind.",
        "approval_policy": "on-failure",
        "sandbox_policy": {"permissions": ["disk-full-read-access", "disk-write-cwd"]},
        "disable_response_storage": True,
        "notify": None,
        "cwd": str(tmp_path),
    }
    settings, events, _ = submitted(make_kernel, raw)
    assert (settings[0].model, settings[0].cwd, settings[0].reasoning_effort) == ("m4", tmp_path, "high")
    assert isinstance(settings[0].sandbox_policy, WorkspaceWrite)
    warnings = [event.message for event in events if isinstance(event, WarningEvent)]
    assert warnings[-1].startswith("configure_session: provider and instructions cannot change")


@pytest.mark.parametrize(
    "raw",
    [
        {"type": "override_turn_context", "cwd": "relative"},
        {"type": "override_turn_context", "sandbox_policy": {"type": "lenient"}},
        {"type": "override_turn_context", "sandbox_policy": {"permissions": ["disk-everything"]}},
        {"type": "override_turn_context", "sandbox_policy": 7},
    ],
    ids=str,
)
def test_what_cannot_be_read_is_refused_and_changes_nothing(make_kernel: Any, raw: dict[str, Any]) -> None:
    settings, events, _ = submitted(make_kernel, raw)
    (error,) = (event for event in events if isinstance(event, ErrorEvent))
    assert error.codex_error_info == "bad_request"
    assert not [event for event in events if isinstance(event, ThreadSettingsAppliedEvent)]
    assert settings[0].reasoning_effort == "high"


READ, CWD, NET = "disk-full-read-access", "disk-write-cwd", "network-full-access"
USER_TEMP, TEMP = "disk-write-platform-user-temp-folder", "disk-write-platform-global-temp-folder"
NO_TEMP = {"exclude_tmpdir_env_var": True, "exclude_slash_tmp": True}


@pytest.mark.parametrize(
    ("given", "policy"),
    [
        (None, None),
        ([], ReadOnly()),
        ([READ], ReadOnly()),
        ([READ, NET], ReadOnly(network_access=True)),
        ([READ, CWD], WorkspaceWrite(**NO_TEMP)),
        ([CWD, USER_TEMP, TEMP, NET], WorkspaceWrite(network_access=True)),
        ([TEMP], WorkspaceWrite(exclude_tmpdir_env_var=True)),
        (["disk-write-folder=/a"], WorkspaceWrite(writable_roots=("/a",), **NO_TEMP)),
        ([{"disk-write-folder": {"folder": "/b"}}], WorkspaceWrite(writable_roots=("/b",), **NO_TEMP)),
        (["disk-full-write-access"], WorkspaceWrite(**NO_TEMP)),
        (["disk-full-write-access", NET], DangerFullAccess()),
        ("danger-full-access", DangerFullAccess()),
        ({"mode": "workspace-write", "network_access": True}, WorkspaceWrite(network_access=True)),
    ],
    ids=str,
)
def test_every_form_of_a_sandbox_policy_is_understood(given: Any, policy: Any) -> None:
    assert policy_of(given) == policy
    if isinstance(given, list):
        assert policy_of({"permissions": given}) == policy


@pytest.mark.parametrize("given", ["", "free", 1, {"type": "x"}, {"permissions": [1]}, {}])
def test_anything_else_is_no_policy(given: Any) -> None:
    with pytest.raises(ThreadError, match="cannot be read"):
        policy_of(given)
