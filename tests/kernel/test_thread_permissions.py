"""Changing what a thread may do while it lives: by policy, by profile, by name; the workspace follows the folder."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from codex_framework import FunctionSpec, ToolCall, ToolContext, ToolOutput
from codex_framework.contract.permissions.profile import permissions_of
from codex_framework.contract.protocol.events import ErrorEvent
from codex_framework.contract.protocol.events.thread import SessionConfiguredEvent, ThreadSettingsAppliedEvent
from codex_framework.contract.protocol.items import FunctionCallOutput
from codex_framework.contract.protocol.ops import ThreadSettings, ThreadSettingsOverrides
from codex_framework.contract.protocol.policies import ReadOnly, WorkspaceWrite
from codex_framework.contract.protocol.wire import read_op, to_wire
from codex_framework.testing.replies import call, say

CONFIG = """default_permissions = "p"
framework.sandbox_private_tmp = true
[permissions.p]
extends = ":workspace"
[permissions.p.filesystem]
":workspace_roots" = { "data" = "read" }
":slash_tmp" = "read"
"""


class May:
    parallel_safe = True
    spec = FunctionSpec("may", "Tells.", {"type": "object", "properties": {}, "additionalProperties": True})

    def __init__(self, *paths: Path) -> None:
        self._paths = paths

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        assert context.access.private_tmp, "how it is enforced does not change with the profile"
        return ToolOutput("".join("w" if context.access.may_write(path) else "-" for path in self._paths))


def played(make_kernel: Any, may: May, changes: list[ThreadSettingsOverrides]) -> tuple[list[Any], list[Any]]:
    async def main() -> tuple[list[Any], list[Any]]:
        replies = [reply for _ in range(len(changes) + 1) for reply in (call("may"), say("done"))]
        events: list[Any] = []
        async with make_kernel(replies, tools=[may], config=CONFIG) as kernel:
            thread = await kernel.start_thread()
            listening = thread.events()
            await thread.run("go")
            for change in changes:
                await thread.submit(ThreadSettings(change))
                await thread.run("go")
            await thread.shutdown()
            async for event in listening:
                events.append(event.msg)
            return [item.output for item in thread.history.items if isinstance(item, FunctionCallOutput)], events

    return asyncio.run(asyncio.wait_for(main(), 60))


def test_the_workspace_of_a_profile_follows_the_folder_and_keeps_further_roots(
    make_kernel: Any, tmp_path: Path
) -> None:
    old, new, more = make_kernel.workspace, tmp_path / "new", tmp_path / "more"
    for folder in (new, more):
        folder.mkdir()
    paths = [folder / name for folder in (old, new, more) for name in ("x", "data/x")]
    outputs, _ = played(
        make_kernel,
        May(*paths),
        [
            ThreadSettingsOverrides(workspace_roots=(str(more),)),
            ThreadSettingsOverrides(cwd=str(new)),
            ThreadSettingsOverrides(workspace_roots=()),
        ],
    )
    assert outputs == ["w-----", "w---w-", "--w-w-", "--w---"]


def test_what_may_be_done_can_be_changed_in_three_ways(make_kernel: Any) -> None:
    path = make_kernel.workspace / "data" / "x"
    workspace = permissions_of(WorkspaceWrite(exclude_slash_tmp=True)).profile
    outputs, events = played(
        make_kernel,
        May(path),
        [
            ThreadSettingsOverrides(permission_profile=workspace),
            ThreadSettingsOverrides(permissions="p"),
            ThreadSettingsOverrides(sandbox_policy=ReadOnly(network_access=True)),
            ThreadSettingsOverrides(permissions=":workspace"),
        ],
    )
    assert outputs == ["-", "w", "-", "-", "w"]
    (configured,) = (event for event in events if isinstance(event, SessionConfiguredEvent))
    assert configured.active_permission_profile == {"id": "p", "extends": ":workspace"}
    snapshots = [event.thread_settings for event in events if isinstance(event, ThreadSettingsAppliedEvent)]
    active = [snapshot.get("active_permission_profile") for snapshot in snapshots]
    assert active == [None, {"id": "p", "extends": ":workspace"}, None, {"id": ":workspace"}]
    assert [snapshot["sandbox_policy"]["type"] for snapshot in snapshots] == [
        "workspace-write",
        "read-only",  # the nearest that permits no more: a policy cannot keep a part of the workspace shut
        "read-only",
        "workspace-write",
    ]


def test_a_client_that_sends_back_the_policy_it_was_told_changes_nothing(make_kernel: Any) -> None:
    path = make_kernel.workspace / "x"
    outputs, events = played(make_kernel, May(path), [ThreadSettingsOverrides(sandbox_policy=ReadOnly())])
    assert outputs == ["w", "w"], "the profile may write in parts, which no policy can say"
    (snapshot,) = (event.thread_settings for event in events if isinstance(event, ThreadSettingsAppliedEvent))
    assert snapshot["active_permission_profile"] == {"id": "p", "extends": ":workspace"}


def test_wrong_changes_are_refused_and_change_nothing(make_kernel: Any) -> None:
    both = ThreadSettingsOverrides(permissions=":workspace", sandbox_policy=ReadOnly())
    outputs, events = played(
        make_kernel, May(make_kernel.workspace / "x"), [both, ThreadSettingsOverrides(permissions="nope")]
    )
    assert outputs == ["w", "w", "w"]
    errors = [event.message for event in events if isinstance(event, ErrorEvent)]
    assert errors[0] == "sandbox_policy and permissions set the same thing. Pass only one of them."
    assert "there is no permission profile 'nope'" in errors[1]


def test_a_profile_passes_the_wire() -> None:
    profile = permissions_of(WorkspaceWrite(("/data",), network_access=True)).profile
    op = ThreadSettings(ThreadSettingsOverrides(permission_profile=profile, workspace_roots=("/a",)))
    assert read_op(to_wire(op)) == op
