"""Children of a thread whose permissions are narrowed later."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from codex_framework import Agent, ApprovalPolicy, Component, Status, ThreadComponent, ToolContext, tool
from codex_framework.contract.protocol.events import ThreadSettingsAppliedEvent
from codex_framework.contract.protocol.ops import ThreadSettings, ThreadSettingsOverrides
from codex_framework.contract.protocol.permissions import AbsolutePath, AccessMode, AdditionalPermissions, FileEntry
from codex_framework.contract.protocol.policies import DangerFullAccess, ReadOnly, WorkspaceWrite
from codex_framework.testing import Offer, call, say

WORKER: Agent[str] = Agent(name="worker", instructions="Work.")


def spawner(thread: Any) -> Any:
    return thread.conversation.context("test").spawn


def change(**overrides: Any) -> ThreadSettings:
    return ThreadSettings(ThreadSettingsOverrides(**overrides))


def play(
    make_kernel: Any,
    story: Any,
    replies: Any,
    policy: Any = DangerFullAccess(),  # noqa: B008
    plugins: Any = (),
    config: Any = (),
    **settings: Any,
) -> Any:
    async def main() -> Any:
        async with make_kernel(replies, plugins=plugins, config=config) as kernel, asyncio.timeout(60):
            thread = await kernel.start_thread(approval_policy=ApprovalPolicy.NEVER, **settings)
            await thread.submit(change(sandbox_policy=policy))
            return await story(kernel, thread)

    return asyncio.run(main())


def test_a_child_may_do_no_more_than_its_parent_may_since_it_was_narrowed(make_kernel: Any, tmp_path: Path) -> None:
    made = tmp_path / "outside"

    async def story(kernel: Any, thread: Any) -> Any:
        child = await spawner(thread)(WORKER)
        heard = child.events(answers=False)
        await thread.submit(change(sandbox_policy=ReadOnly(), approval_policy=ApprovalPolicy.UNTRUSTED))
        result = await child.run("Go!")
        await child.shutdown()
        applied = [event.msg async for event in heard if isinstance(event.msg, ThreadSettingsAppliedEvent)]
        return result, child.settings, applied, kernel.model.requests[-1].prompt.items

    replies = [call("exec_command", cmd=f"touch {made}", login=False), say("done")]
    result, settings, applied, items = play(make_kernel, story, replies)
    assert result.status is Status.COMPLETED
    assert not made.exists()
    assert (settings.sandbox_policy, settings.approval_policy) == (ReadOnly(), ApprovalPolicy.UNTRUSTED)
    assert [event.thread_settings["approval_policy"] for event in applied] == ["untrusted"]
    assert "read-only" in str(items), "the model is told its new permissions"


def test_a_running_turn_of_a_child_loses_files_that_its_parent_may_no_longer_write(
    make_kernel: Any, tmp_path: Path
) -> None:
    path = tmp_path / "x"

    async def story(kernel: Any, thread: Any) -> list[bool]:
        child = thread.conversation.context("test").spawn
        found = []

        @tool
        async def narrow(context: ToolContext) -> str:
            """Let the user narrow the parent."""
            found.append(context.access.may_write(path))
            await thread.submit(change(sandbox_policy=ReadOnly()))
            return "narrowed"

        @tool
        async def look(context: ToolContext) -> str:
            """Look at what may be written."""
            found.append(context.access.may_write(path))
            return "seen"

        kernel.model.add(call("narrow"), call("look"), say("done"))
        worker = await child(Agent(name="worker", tools=(narrow, look)))
        await worker.run("Go!")
        return found

    assert play(make_kernel, story, []) == [True, False]


def test_grants_of_a_session_are_kept_together(make_kernel: Any) -> None:
    one, two = (AdditionalPermissions((FileEntry(AbsolutePath(each), AccessMode.WRITE),)) for each in ("/one", "/two"))

    async def story(kernel: Any, thread: Any) -> Any:
        thread.conversation.grant("local", one)
        thread.conversation.grant("local", two)
        return thread.conversation.granted["local"]

    assert play(make_kernel, story, []) == one.merged(two)


@pytest.mark.parametrize("deep", [False, True])
def test_a_running_turn_of_a_child_is_narrowed_from_its_next_call_on(
    make_kernel: Any, tmp_path: Path, deep: bool
) -> None:
    before, after = tmp_path / "before", tmp_path / "after"

    async def story(kernel: Any, thread: Any) -> Any:
        child = await spawner(thread)(WORKER)
        if deep:
            child = await spawner(child)(WORKER)

        @tool
        async def narrow() -> str:
            """Let the user narrow the first thread while the turn of the last one runs."""
            await thread.submit(change(sandbox_policy=ReadOnly(), approval_policy=ApprovalPolicy.UNTRUSTED))
            return "narrowed"

        tools.append(narrow)
        kernel.model.add(
            call("exec_command", cmd=f"touch {before}", login=False),
            call("narrow"),
            call("exec_command", cmd=f"touch {after}", login=False),
            say("done"),
        )
        result = await child.run("Go!")
        return result, child.settings

    tools: list[Any] = []

    class Tools(ThreadComponent):
        def tools(self, turn: Any) -> Any:
            return tools

    class Whole(Component):
        name = "whole"

        def for_thread(self, thread: Any) -> Any:
            return Tools()

    result, settings = play(make_kernel, story, [], plugins=[Offer(components=[Whole()])])
    assert result.status is Status.COMPLETED
    assert before.exists()
    assert not after.exists()
    assert (settings.sandbox_policy, settings.approval_policy) == (ReadOnly(), ApprovalPolicy.UNTRUSTED)


def test_a_turn_of_a_child_keeps_its_settings_if_nothing_is_narrowed(make_kernel: Any, tmp_path: Path) -> None:
    made = tmp_path / "made"

    async def story(kernel: Any, thread: Any) -> Any:
        child = await spawner(thread)(WORKER)
        turn = asyncio.ensure_future(child.run("Go!"))
        while not kernel.model.requests:
            await asyncio.sleep(0)
        await child.submit(change(sandbox_policy=ReadOnly()))
        await thread.submit(change(model="another"))
        return (await turn).status

    replies = [call("exec_command", cmd=f"touch {made}", login=False).evolve(delay_s=0.05), say("done")]
    assert play(make_kernel, story, replies) is Status.COMPLETED
    assert made.exists(), "settings of the next turn do not touch the running one"


def test_a_grandchild_is_narrowed_too_although_its_parent_is_idle(make_kernel: Any) -> None:
    async def story(kernel: Any, thread: Any) -> Any:
        child = await spawner(thread)(WORKER)
        grandchild = await spawner(child)(WORKER)
        await thread.submit(change(sandbox_policy=ReadOnly()))
        await grandchild.run("Go!")
        late = await spawner(child)(WORKER)
        return child.settings, grandchild.settings, late.settings

    assert [found.sandbox_policy for found in play(make_kernel, story, [say("ok")])] == [ReadOnly()] * 3


def test_a_child_is_not_widened_with_its_parent(make_kernel: Any) -> None:
    async def story(kernel: Any, thread: Any) -> Any:
        child = await spawner(thread)(WORKER)
        before = child.settings
        await thread.submit(change(sandbox_policy=DangerFullAccess()))
        await child.run("Go!")
        return before is child.settings, child.settings.sandbox_policy

    assert play(make_kernel, story, [say("ok")], ReadOnly()) == (True, ReadOnly())


def test_a_child_that_is_stricter_already_stays_as_it_is(make_kernel: Any) -> None:
    async def story(kernel: Any, thread: Any) -> Any:
        child = await spawner(thread)(WORKER.evolve(permissions=":read-only"))
        before = child.settings
        await thread.submit(change(sandbox_policy=WorkspaceWrite(), approval_policy=ApprovalPolicy.ON_REQUEST))
        await child.run("Go!")
        return before is child.settings, child.settings

    same, settings = play(make_kernel, story, [say("ok")])
    assert same
    assert settings.approval_policy is ApprovalPolicy.NEVER


def test_a_child_that_was_set_to_more_by_itself_is_taken_back(make_kernel: Any) -> None:
    async def story(kernel: Any, thread: Any) -> Any:
        child = await spawner(thread)(WORKER)
        await child.submit(change(sandbox_policy=DangerFullAccess(), approval_policy=ApprovalPolicy.ON_REQUEST))
        await child.run("Go!")
        return child.settings.sandbox_policy, child.settings.approval_policy

    assert play(make_kernel, story, [say("ok")], ReadOnly()) == (ReadOnly(), ApprovalPolicy.NEVER)


@pytest.mark.parametrize("network", [True, False])
def test_a_child_of_a_parent_that_moved_away_can_only_read(make_kernel: Any, tmp_path: Path, network: bool) -> None:
    async def story(kernel: Any, thread: Any) -> Any:
        child = await spawner(thread)(WORKER)
        await thread.submit(change(cwd=str(tmp_path / "elsewhere")))
        await child.run("Go!")
        return child.settings.sandbox_policy

    (tmp_path / "elsewhere").mkdir()
    workspace = WorkspaceWrite(network_access=network, exclude_slash_tmp=True, exclude_tmpdir_env_var=True)
    assert play(make_kernel, story, [say("ok")], workspace) == ReadOnly()


def test_a_child_is_started_with_what_its_parent_is_permitted_now_although_that_was_narrowed_while_idle(
    make_kernel: Any,
) -> None:
    async def story(kernel: Any, thread: Any) -> Any:
        child = await spawner(thread)(WORKER)
        await thread.submit(change(sandbox_policy=ReadOnly(), approval_policy=ApprovalPolicy.UNTRUSTED))
        grandchild = await spawner(child)(WORKER)
        return [(each.settings.sandbox_policy, each.settings.approval_policy) for each in (child, grandchild)]

    assert play(make_kernel, story, []) == [(ReadOnly(), ApprovalPolicy.UNTRUSTED)] * 2


def test_the_options_of_the_sandbox_stay_if_only_reading_is_left(make_kernel: Any, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    workspace = WorkspaceWrite(exclude_slash_tmp=True, exclude_tmpdir_env_var=True)

    async def story(kernel: Any, thread: Any) -> Any:
        child = await spawner(thread)(WORKER)
        await thread.submit(change(cwd=str(tmp_path / "elsewhere")))
        await child.run("Go!")
        return child.settings.sandbox_policy, child.settings.permissions.options, thread.settings.permissions.options

    config = "[framework]\nsandbox_private_tmp = true\n[framework.sandbox_limits]\nprocesses = 77\n"
    policy, own, above = play(make_kernel, story, [say("ok")], workspace, config=config)
    assert policy == ReadOnly()
    assert own == above
    assert own.limits.processes == 77


def test_a_turn_is_refused_if_nothing_of_the_permissions_can_be_kept(make_kernel: Any, tmp_path: Path) -> None:
    config = '[permissions.one.filesystem]\n":root" = "read"\n"/usr/share" = "deny"\n[permissions.one.network]\nenabled = true\n'
    config += '[permissions.two.filesystem]\n":root" = "read"\n"/usr/lib" = "deny"\n'

    async def main() -> Any:
        async with make_kernel([say("never")], config=config) as kernel, asyncio.timeout(30):
            thread = await kernel.start_thread(approval_policy=ApprovalPolicy.NEVER)
            await thread.submit(change(permissions="one"))
            child = await spawner(thread)(WORKER)
            await thread.submit(change(permissions="two"))
            heard = child.events(answers=False)
            child.start("Go!")
            await child.shutdown()
            return [event.msg async for event in heard], kernel.model.requests

    events, requests = asyncio.run(main())
    assert requests == []
    assert any("exceed those that its parent has now" in str(event) for event in events)
