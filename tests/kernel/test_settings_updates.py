"""Updates of a thread's settings on the wire: values with three states, and what is refused as a whole."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ApprovalPolicy, ApprovalReviewer, Decision, ReviewDecision, Status
from codex_framework.contract.permissions.profile import permissions_of
from codex_framework.contract.protocol.events import ErrorEvent, ThreadSettingsAppliedEvent
from codex_framework.contract.protocol.ops import ThreadSettingsOverrides
from codex_framework.contract.protocol.policies import ReadOnly, WorkspaceWrite
from codex_framework.contract.protocol.wire import WireError, read, read_op, to_wire
from codex_framework.testing import Offer, call, say

CONFIG = """default_permissions = "p"
approval_policy = "on-request"
[permissions.p]
extends = ":workspace"
[permissions.p.workspace_roots]
"/profile" = true
[permissions.q]
extends = ":read-only"
"""
PROFILE = to_wire(permissions_of(WorkspaceWrite()).profile)


def update(**fields: Any) -> Any:
    return read_op({"type": "thread_settings", "thread_settings": fields})


def updated(make_kernel: Any, *updates: dict[str, Any], **settings: Any) -> Any:
    """Return the settings after each update, and the texts of all errors. A turn after them shows that the session goes on."""

    async def main() -> Any:
        async with make_kernel([say("done")], config=CONFIG) as kernel, asyncio.timeout(30):
            thread = await kernel.start_thread(**settings)
            heard = thread.events(answers=False)
            after = []
            for fields in updates:
                await thread.submit(update(**fields))
                after.append(thread.settings)
            result = await thread.run("Go!")
            heard.end()
            events = [event.msg async for event in heard]
            assert result.status is Status.COMPLETED
            return after, [event.message for event in events if isinstance(event, ErrorEvent)], events

    return asyncio.run(main())


def test_effort_and_service_tier_have_three_states(make_kernel: Any) -> None:
    after, errors, events = updated(
        make_kernel,
        {"effort": "high", "service_tier": "fast", "summary": "detailed"},
        {"model": "m2"},  # what is left out stays
        {"effort": None, "service_tier": None, "summary": None},  # null is the default, but for the summary
        {"service_tier": "flex", "summary": ""},
        {"service_tier": "default"},
        reasoning_effort="low",
        service_tier="flex",
    )
    assert errors == []
    assert [(one.reasoning_effort, one.service_tier, one.reasoning_summary) for one in after] == [
        ("high", "priority", "detailed"),
        ("high", "priority", "detailed"),
        (None, None, "detailed"),
        (None, "flex", None),
        (None, None, None),
    ]
    shown = [event.thread_settings for event in events if isinstance(event, ThreadSettingsAppliedEvent)]
    assert [each.get("service_tier") for each in shown] == ["priority", "priority", None, "flex", None]


@pytest.mark.parametrize(
    ("fields", "fact"),
    [
        ({"summary": "long"}, "unknown variant `long`, expected one of `auto`, `concise`, `detailed`, `none`"),
        ({"model": " "}, "model: it is empty"),
        ({"personality": "kind"}, "unknown variant `kind`, expected one of `none`, `friendly`, `pragmatic`"),
        ({"approvals_reviewer": "me"}, "unknown variant `me`, expected one of `user`, `auto_review`"),
        ({"permissions": "nope"}, "nope"),
        ({"permissions": ""}, ""),
        ({"permissions": ":nope"}, ":nope"),
        ({"permissions": "q", "sandbox_policy": {"type": "read-only"}}, "set the same thing"),
        ({"permissions": "q", "permission_profile": PROFILE}, "set the same thing"),
        ({"permissions": "q", "active_permission_profile": {"id": "p"}}, "name different profiles"),
        ({"permission_profile": PROFILE, "active_permission_profile": {"id": "q"}}, "is not the profile `q`"),
        ({"permission_profile": PROFILE, "active_permission_profile": {"id": "nope"}}, "nope"),
        ({"active_permission_profile": {"extends": ":read-only"}}, "has no id"),
        ({"workspace_roots": ["/a", "b"]}, "the path 'b' is not absolute"),
        ({"profile_workspace_roots": ["b"]}, "the path 'b' is not absolute"),
        ({"workspace_roots": ["/a\0"]}, "NUL"),
        ({"cwd": "/a\0"}, "NUL"),
        ({"model_provider": "nope"}, "nope"),
        ({"collaboration_mode": {"mode": "nope"}}, "nope"),
    ],
)
def test_a_refused_value_refuses_the_whole_update(make_kernel: Any, fields: Any, fact: str) -> None:
    (after,), errors, events = updated(make_kernel, {"model": "other", "effort": "high", **fields})
    assert (after.model, after.reasoning_effort, after.permissions.id) == ("gpt-5.5", None, "p")
    assert len(errors) == 1
    assert fact in errors[0]
    assert not any(isinstance(event, ThreadSettingsAppliedEvent) for event in events)


@pytest.mark.parametrize(
    "fields",
    [
        {"effort": 5},
        {"service_tier": False},
        {"summary": []},
        {"approval_policy": "sometimes"},
        {"sandbox_policy": {"type": "some"}},
        {"permission_profile": {"type": "managed"}},
        {"workspace_roots": "/a"},
        {"windows_sandbox_level": 1},
        {"active_permission_profile": "p"},
    ],
)
def test_other_types_are_refused_when_they_are_read(fields: Any) -> None:
    with pytest.raises(WireError):
        read(ThreadSettingsOverrides, fields)


def test_the_personality_is_kept_and_told(make_kernel: Any) -> None:
    after, errors, events = updated(make_kernel, {"personality": "friendly"}, {"model": "other"})
    assert ([one.personality for one in after], errors) == (["friendly", "friendly"], [])
    shown = [event.thread_settings for event in events if isinstance(event, ThreadSettingsAppliedEvent)]
    assert [each["personality"] for each in shown] == ["friendly", "friendly"]


def test_profiles_are_selected_by_name_and_shown_by_it(make_kernel: Any) -> None:
    after, errors, _ = updated(
        make_kernel,
        {"permissions": "q"},
        {"active_permission_profile": {"id": ":workspace"}},
        {"permission_profile": PROFILE, "active_permission_profile": {"id": ":workspace", "extends": None}},
        {"permission_profile": PROFILE},
        {"windows_sandbox_level": "elevated"},
    )
    assert errors == []
    assert [one.permissions.id for one in after] == ["q", ":workspace", ":workspace", None, None]


def test_the_roots_of_the_profile_and_of_the_thread_are_both_in_the_workspace(make_kernel: Any) -> None:
    after, errors, _ = updated(
        make_kernel,
        {"workspace_roots": ["/one"], "profile_workspace_roots": ["/two", "/one"]},
        {"profile_workspace_roots": ["/three"]},
        {"permissions": "p"},
        {"workspace_roots": []},
    )
    assert errors == []
    assert [one.permissions.workspace_roots for one in after] == [("/one", "/two"), ("/three",), ("/profile",), ()]


def test_a_relative_folder_starts_at_that_of_the_thread(make_kernel: Any) -> None:
    (after, again), errors, _ = updated(make_kernel, {"cwd": "sub"}, {"cwd": ".."})
    assert errors == []
    assert (after.cwd, again.cwd) == (make_kernel.workspace / "sub", make_kernel.workspace)


class Denies(ApprovalReviewer):
    """Answers in place of the user, if the thread says so."""

    name = "denies"

    async def review(self, request: Any, turn: Any) -> ReviewDecision | None:
        return ReviewDecision(Decision.DENIED) if turn.facts.approvals_reviewer == "auto_review" else None


def test_a_client_chooses_the_reviewer_of_a_thread(make_kernel: Any, tmp_path: Path) -> None:
    made = tmp_path / "made"
    replies = [call("exec_command", cmd=f"touch {made}", login=False), say("done")]

    async def main() -> Any:
        async with make_kernel(replies * 2, plugins=[Offer(reviewers=[Denies()])]) as kernel, asyncio.timeout(30):
            thread = await kernel.start_thread(approval_policy=ApprovalPolicy.UNTRUSTED)

            async def allow(request: Any) -> ReviewDecision:
                return ReviewDecision(Decision.APPROVED)

            found = []
            for reviewer in ("auto_review", "user"):
                await thread.submit(update(approvals_reviewer=reviewer))
                await thread.run("Go!", on_request=allow)
                found.append(made.exists())
            return found

    assert asyncio.run(main()) == [False, True]


def test_a_client_that_narrows_is_not_widened_by_what_it_sends_back(make_kernel: Any) -> None:
    """The policy that a profile is shown as changes nothing when it comes back with the roots of the profile."""
    (first, second), errors, _ = updated(
        make_kernel, {"permissions": "q"}, {"sandbox_policy": to_wire(ReadOnly()), "workspace_roots": []}
    )
    assert errors == []
    assert (first.permissions.id, second.permissions.id) == ("q", "q")
