"""Ops of older versions: what they mean, and what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ThreadError
from codex_framework.commands.access import file_access
from codex_framework.contract.permissions.file_access import NetworkMode
from codex_framework.contract.permissions.profile import Permissions
from codex_framework.contract.protocol.events import (
    ErrorEvent,
    ThreadSettingsAppliedEvent,
    TurnCompleteEvent,
    WarningEvent,
)
from codex_framework.contract.protocol.items import Reasoning
from codex_framework.contract.protocol.policies import DangerFullAccess, ReadOnly, WorkspaceWrite
from codex_framework.contract.protocol.wire import read_op
from codex_framework.testing import reply, say
from codex_plugin_older_ops.sandboxes import limits_of


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


def test_the_context_of_input_includes_workspace_roots_and_the_profile(make_kernel: Any, tmp_path: Path) -> None:
    for name in ("more", "profiles"):
        (tmp_path / name).mkdir()
    (settings,), _, requests = submitted(
        make_kernel,
        {
            "type": "user_input_with_turn_context",
            "items": [{"type": "text", "text": "hello"}],
            "sandbox_policy": {"type": "danger-full-access"},
            "active_permission_profile": {"id": ":workspace", "extends": None},
            "workspace_roots": [str(tmp_path / "more")],
            "profile_workspace_roots": [str(tmp_path / "profiles")],
            "windows_sandbox_level": "restricted-token",
            "responsesapi_client_metadata": {"from": "editor"},
        },
    )
    assert settings.sandbox_policy == WorkspaceWrite((str(tmp_path / "more"), str(tmp_path / "profiles")))
    assert requests[0].client_metadata == {"from": "editor"}


@pytest.mark.parametrize(
    ("given", "policy"),
    [
        ("unless-allow-listed", "untrusted"),
        ("auto-edit", "untrusted"),
        ("on-failure", "on-failure"),
        ("untrusted", "untrusted"),
    ],
)
def test_older_names_of_approval_policies_never_ask_about_less(make_kernel: Any, given: str, policy: str) -> None:
    for raw in (
        {"type": "override_turn_context", "approval_policy": given},
        {"type": "configure_session", "approval_policy": given},
        {"type": "user_turn", "items": [], "approval_policy": given},
    ):
        (settings,), _, _ = submitted(make_kernel, raw)
        assert settings.approval_policy == policy, raw


@pytest.mark.parametrize("wanted", [True, False])
def test_older_deltas_repeat_those_of_today_if_they_are_wanted(make_kernel: Any, *, wanted: bool) -> None:
    thought = Reasoning(
        id="r", summary=({"type": "summary_text", "text": "Hm."},), content=None, encrypted_content=None
    )

    async def main() -> list[Any]:
        config = [f"framework.plugins.older_ops.deltas={str(wanted).lower()}"]
        async with make_kernel([reply(thought, *say("Hello there.").items)], config=config) as kernel:
            thread = await kernel.start_thread()
            heard = thread.events()
            await thread.run("hi")
            await thread.shutdown()
            return [event async for event in heard]

    events = asyncio.run(main())
    by_type = {}
    for event in events:
        by_type.setdefault(event.msg.type, []).append((event.id, getattr(event.msg, "delta", "")))
    today = by_type["agent_message_content_delta"]
    assert "".join(delta for _, delta in today) == "Hello there."
    for older, newer in (
        ("agent_message_delta", "agent_message_content_delta"),
        ("agent_reasoning_delta", "reasoning_content_delta"),
        ("agent_reasoning_raw_content_delta", "reasoning_raw_content_delta"),
    ):
        assert by_type.get(older, []) == (by_type.get(newer, []) if wanted else []), older


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
        {"type": "override_turn_context", "approval_policy": "auto"},
        {"type": "override_turn_context", "approval_policy": {"granular": 5}},
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


@pytest.mark.parametrize(
    ("given", "policy"),
    [
        (None, None),
        ("danger-full-access", DangerFullAccess()),
        ({"mode": "workspace-write", "network_access": True}, WorkspaceWrite(network_access=True)),
        ({"type": "read-only"}, ReadOnly()),
        (ReadOnly(), ReadOnly()),
    ],
    ids=str,
)
def test_every_form_of_a_sandbox_policy_is_understood(given: Any, policy: Any) -> None:
    assert limits_of(given) == ({} if policy is None else {"sandbox_policy": policy})


FOLDER = "disk-write-folder=/usr/share"
HOME = Path("/usr/src")


@pytest.mark.parametrize(
    ("given", "written", "readable", "network"),
    [
        ([], "", False, False),
        ([READ], "", True, False),
        ([READ, NET], "", True, True),
        ([READ, CWD], "cwd", True, False),
        ([READ, FOLDER], "folder", True, False),
        ([READ, {"disk-write-folder": {"folder": "/usr/share"}}], "folder", True, False),
        ([READ, TEMP], "tmp", True, False),
        ([READ, USER_TEMP], "tmpdir", True, False),
        ([CWD, FOLDER, TEMP, NET], "cwd folder tmp", False, True),
        (["disk-full-write-access"], "cwd folder tmp tmpdir etc", True, False),
        (["disk-full-write-access", NET], "cwd folder tmp tmpdir etc", True, True),
    ],
    ids=str,
)
def test_a_list_of_permissions_permits_what_it_says_and_nothing_else(
    given: Any, written: str, readable: bool, network: bool
) -> None:
    assert limits_of(given) == limits_of({"permissions": given})
    permissions = Permissions(profile=limits_of(given)["permission_profile"])
    access = file_access(permissions, HOME, {"TMPDIR": "/var/tmp"})
    places = {"cwd": "/usr/src", "folder": "/usr/share", "tmp": "/tmp", "tmpdir": "/var/tmp", "etc": "/etc"}
    assert {name for name, place in places.items() if access.may_write(Path(place, "x"))} == set(written.split())
    assert access.may_read(Path("/etc/hostname")) is readable
    assert (access.network is NetworkMode.ON) is network


def test_a_list_without_the_workspace_keeps_it_read_only_in_a_turn(make_kernel: Any, workspace: Path) -> None:
    raw = {"type": "override_turn_context", "sandbox_policy": {"permissions": [READ, FOLDER]}}
    settings = submitted(make_kernel, raw)[0][0]
    access = file_access(settings.permissions, settings.cwd, {})
    assert access.may_write(Path("/usr/share/x"))
    assert not access.may_write(workspace / "x")


def test_events_carry_the_id_that_the_client_has_submitted(make_kernel: Any) -> None:
    async def main() -> Any:
        async with make_kernel([say("ok")] * 2) as kernel:
            thread = await kernel.start_thread()
            heard = thread.events()
            kinds = {tag: offer.item.op for tag, offer in kernel.registry.ops.items()}
            items = [{"type": "text", "text": "hello"}]
            raws = {
                "configure": {"type": "configure_session", "model": "m1"},
                "override": {"type": "override_turn_context", "model": "m2"},
                "turn": {"type": "user_turn", "items": items, "model": "m3"},
                "input": {"type": "user_input_with_turn_context", "items": items},
            }
            told = []
            for name, raw in raws.items():
                assert await thread.submit(read_op(raw, kinds), id=name) == name
                async for event in heard:
                    if isinstance(event.msg, (applied, complete)):
                        told.append((event.id, type(event.msg)))
                    if isinstance(event.msg, complete if "items" in raw else applied):
                        break
            return told

    applied, complete = ThreadSettingsAppliedEvent, TurnCompleteEvent
    assert asyncio.run(asyncio.wait_for(main(), 30)) == [
        ("configure", applied),
        ("override", applied),
        ("turn", applied),
        ("turn", complete),
        ("input", complete),
    ]


@pytest.mark.parametrize(
    "given",
    [
        *("", "free", 1, {"type": "x"}, {"permissions": [1]}, {}, ["disk-write-folder="], ["disk-write-folder=here"]),
        *(["disk-everything"], [{"disk-write-folder": {"folder": "../up"}}], ["disk-write-folder"]),
    ],
    ids=str,
)
def test_anything_else_is_no_policy(given: Any) -> None:
    with pytest.raises(ThreadError, match="cannot be read"):
        limits_of(given)
