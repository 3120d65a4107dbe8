"""The selection of environments: what is accepted and refused, and a thread that has none."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from codex_framework import Agent, ApprovalPolicy, CommandRequest, Status, ThreadError, ToolContext, tool
from codex_framework.contract.protocol.environments import EnvironmentSelection, EnvironmentSelections
from codex_framework.contract.protocol.events import ErrorEvent, ExecApprovalRequestEvent
from codex_framework.contract.protocol.items import CustomToolCallOutput, FunctionCallOutput, message_text
from codex_framework.contract.protocol.ops import ThreadSettings, ThreadSettingsOverrides
from codex_framework.contract.protocol.wire import WireError, read, read_op, to_wire
from codex_framework.testing import Offer, call, custom_call, say
from codex_framework.toolkit.environments import NO_ENVIRONMENT
from codex_framework.toolkit.files import Files, NotPermittedError

WORKER: Agent[str] = Agent(name="worker", instructions="Work.")
NONE = EnvironmentSelections(environments=())


def local(cwd: Path | str, roots: tuple[str, ...] | None = None) -> EnvironmentSelections:
    return EnvironmentSelections(environments=(EnvironmentSelection("local", str(cwd), roots),))


def select(selections: EnvironmentSelections, **others: Any) -> ThreadSettings:
    return ThreadSettings(ThreadSettingsOverrides(environments=selections, **others))


def play(make_kernel: Any, story: Any, replies: Any = (), plugins: Any = (), **settings: Any) -> Any:
    async def main() -> Any:
        async with make_kernel(replies, plugins=plugins) as kernel, asyncio.timeout(30):
            return await story(kernel, await kernel.start_thread(**settings))

    return asyncio.run(main())


def outputs(thread: Any) -> list[Any]:
    kinds = (FunctionCallOutput, CustomToolCallOutput)
    return [item.output for item in thread.history.items if isinstance(item, kinds)]


def contexts(request: Any) -> list[str]:
    texts = [message_text(item) for item in request.prompt.items if getattr(item, "role", "") == "user"]
    return [
        "<environment_context>" + text.split("<environment_context>")[1] for text in texts if "<environment_c" in text
    ]


async def errors(thread: Any, *ops: Any) -> list[str]:
    heard = thread.events(answers=False)
    for op in ops:
        await thread.submit(op)
    heard.end()
    return [event.msg.message async for event in heard if isinstance(event.msg, ErrorEvent)]


def test_both_wire_forms_are_read(tmp_path: Path) -> None:
    item = {"environment_id": "local", "cwd": str(tmp_path), "unknown": 1}
    both = [
        read(ThreadSettingsOverrides, {"environments": [item]}),
        read(ThreadSettingsOverrides, {"environments": {"environments": [item]}}),
    ]
    assert [one.environments for one in both] == [local(tmp_path), local(tmp_path)]
    whole = read(ThreadSettingsOverrides, {"environments": {"legacy_fallback_cwd": "/x", "environments": []}})
    assert whole.environments == NONE.evolve(legacy_fallback_cwd="/x")
    assert read(ThreadSettingsOverrides, to_wire(whole)) == whole
    assert read_op({"type": "user_input", "items": [], "environments": []}).environments == NONE  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "given", ["local", 1, [1], [{"environment_id": "local"}], [{"cwd": "/"}], [{"environment_id": 1, "cwd": "/"}], {}]
)
def test_other_types_are_refused(given: Any) -> None:
    with pytest.raises(WireError):
        read(ThreadSettingsOverrides, {"environments": given})


@pytest.mark.parametrize(
    ("environments", "fact"),
    [
        ([("local", "/a"), ("local", "/b")], "duplicate turn environment id `local`"),
        ([("local", "/a"), ("box", "/b")], "unknown turn environment id `box`"),
        ([("", "/a")], "unknown turn environment id ``"),
        (
            [("local", "a/b")],
            "invalid cwd for environment `local`: path `a/b` does not use absolute POSIX or Windows path syntax",
        ),
        ([("local", "/a\0b")], "contains a NUL character"),
        (
            [("local", "/a", ("/a", "b"))],
            "invalid runtime workspace root for environment `local`: path `b` does not use absolute",
        ),
        ([("local", "/a", ("/b",))], "the workspace roots of environment `local` do not contain its cwd"),
    ],
)
def test_what_cannot_be_selected_changes_nothing_of_the_update(make_kernel: Any, environments: Any, fact: str) -> None:
    """The texts are those of Codex 0.169, but for the roots without the folder, which it accepts."""
    wanted = EnvironmentSelections(environments=tuple(EnvironmentSelection(*each) for each in environments))

    async def story(kernel: Any, thread: Any) -> Any:
        before = thread.settings
        found = await errors(thread, select(wanted, model="other"))
        return before, thread.settings, found, await thread.run("Go!")

    before, after, found, result = play(make_kernel, story, [say("done")])
    assert after == before
    assert len(found) == 1
    assert fact in found[0]
    assert result.status is Status.COMPLETED, "the session goes on"
    with pytest.raises(ThreadError):
        play(make_kernel, lambda *_: None, environments=wanted.environments)


def test_a_program_that_selects_something_else_is_told(make_kernel: Any) -> None:
    with pytest.raises(ThreadError, match="an environment is 'local'"):
        play(make_kernel, lambda *_: None, environments=("local",))


def test_the_folder_of_the_environment_is_that_of_the_turn_and_a_folder_alone_selects_this_machine(
    make_kernel: Any, tmp_path: Path
) -> None:
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    for folder in (one, two, three):
        folder.mkdir()

    async def story(kernel: Any, thread: Any) -> Any:
        pwd = [call("exec_command", cmd="pwd", login=False), say("done")]
        folders = []
        changes: list[Any] = [
            {"environments": local(one), "cwd": str(two)},  # the environment decides
            {},  # and stays
            {"environments": NONE.evolve(legacy_fallback_cwd=str(two))},
            {"cwd": str(three)},
        ]
        for change in changes:
            kernel.model.add(*pwd)
            await thread.submit(ThreadSettings(ThreadSettingsOverrides(**change)))
            await thread.run("Go!")
            folders.append(thread.settings.cwd)
        return folders, outputs(thread), [contexts(request)[-1] for request in kernel.model.requests]

    folders, answers, seen = play(make_kernel, story, approval_policy=ApprovalPolicy.NEVER)
    assert folders == [one, one, two, three]
    assert [answer.rpartition("\n")[0].rpartition("\n")[2] for answer in (answers[0], answers[1], answers[3])] == [
        str(one),
        str(one),
        str(three),
    ]
    assert answers[2] == NO_ENVIRONMENT
    assert f"<cwd>{one}</cwd>" in seen[0]
    assert '<environment id="local" status="unavailable" />' in seen[4]


def test_the_roots_of_the_environment_are_those_of_the_workspace(make_kernel: Any, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()

    async def story(kernel: Any, thread: Any) -> Any:
        await thread.submit(select(local(here, (str(here), str(there)))))
        return thread.settings

    settings = play(make_kernel, story)
    assert (settings.cwd, settings.permissions.workspace_roots) == (here, (str(there),))


def test_a_turn_without_an_environment_has_neither_files_nor_commands(make_kernel: Any, tmp_path: Path) -> None:
    secret = tmp_path / "file"
    secret.write_text("text")
    found: list[Any] = []

    @tool
    async def attempt(context: ToolContext) -> str:
        """Try all ways to files and commands."""
        for way in (
            lambda: context.read_text(str(secret)),
            lambda: context.write_text(str(secret), "x"),
            lambda: context.run(["true"]),
            lambda: context.start(CommandRequest(argv=("true",))),
        ):
            try:
                found.append(await way())
            except Exception as error:
                found.append(str(error))
        try:
            found.append(Files(context.access).read(str(secret)))
        except NotPermittedError:
            found.append("refused")
        found.append(tuple(context.environments))
        return "ok"

    patch = f"*** Begin Patch\n*** Add File: {tmp_path}/new\n+x\n*** End Patch"
    calls = [
        call("attempt"),
        call("exec_command", cmd=f"touch {tmp_path}/new"),
        call("exec_command", cmd=f"touch {tmp_path}/new", sandbox_permissions="require_escalated", justification="?"),
        call("write_stdin", session_id=1),
        custom_call("apply_patch", patch),
        call("exec_command", cmd=f"apply_patch <<'EOF'\n{patch}\nEOF\n"),
        call("view_image", path=str(secret)),
        call("exec_command", cmd="true", environment_id="local"),
    ]

    async def story(kernel: Any, thread: Any) -> Any:
        asked = []
        heard = thread.events().each(lambda event: asked.append(event.msg))
        listening = asyncio.ensure_future(heard)
        await thread.submit(select(NONE, approval_policy=ApprovalPolicy.UNTRUSTED))
        offered = []
        for one in calls:
            kernel.model.add(one, say("done"))
            await thread.run("Go!")
            offered.append({spec.name for spec in kernel.model.requests[-1].tools})
        shell = await errors(thread, kernel.op("run_user_shell_command", command=f"touch {tmp_path}/new"))
        await thread.shutdown()
        await listening
        return outputs(thread), offered, shell, asked, kernel.model.requests

    answers, offered, shell, events, requests = play(make_kernel, story, plugins=[Offer(tools=[attempt])])
    assert found == [NO_ENVIRONMENT] * 4 + ["refused", ()]
    assert answers == ["ok", *[NO_ENVIRONMENT] * 6, "unknown turn environment id `local`"]
    assert offered[0] >= {"exec_command", "apply_patch", "view_image"}, "as in Codex, which keeps the provider's cache"
    assert len(shell) == 1
    assert "shell is unavailable in this session" in shell[0]
    assert not any(isinstance(event, ExecApprovalRequestEvent) for event in events)
    assert not (tmp_path / "new").exists()
    (context,) = contexts(requests[-1])
    assert "<cwd>" not in context
    assert "<filesystem>" not in context


def test_a_running_turn_keeps_its_environment(make_kernel: Any, tmp_path: Path) -> None:
    async def story(kernel: Any, thread: Any) -> Any:
        @tool
        async def withdraw() -> str:
            """Let a client take the environment away."""
            await thread.submit(select(NONE))
            return "ok"

        kernel.model.add(call("withdraw"), call("exec_command", cmd="echo still", login=False), say("done"))
        agent = Agent(name="a", tools=[withdraw])
        thread.conversation.agent = agent
        await thread.run("Go!")
        kernel.model.add(call("exec_command", cmd="echo no", login=False), say("done"))
        await thread.run("Go!")
        return outputs(thread)

    first, running, after = play(make_kernel, story, approval_policy=ApprovalPolicy.NEVER)
    assert first == "ok"
    assert "still" in running
    assert after == NO_ENVIRONMENT


@pytest.mark.parametrize("others", [{}, {"environments": ()}])
def test_a_resumed_thread_has_an_environment_only_if_it_had_one(make_kernel: Any, tmp_path: Path, others: Any) -> None:
    async def story(kernel: Any, thread: Any) -> Any:
        await thread.submit(select(NONE if not others else local(tmp_path)))
        kernel.model.add(say("one"))
        await thread.run("Go!")
        await thread.shutdown()
        resumed = await kernel.resume_thread(thread.id, **others)
        kernel.model.add(call("exec_command", cmd="true"), say("done"))
        await resumed.run("Go!")
        forked = await kernel.resume_thread(kernel.fork_thread(resumed.id))
        return outputs(resumed)[-1], resumed.settings.environments, forked.settings.environments

    assert play(make_kernel, story) == (NO_ENVIRONMENT, (), ())


def test_an_environment_that_is_gone_when_a_thread_is_resumed_is_skipped_with_a_warning(make_kernel: Any) -> None:
    from codex_framework.contract.roles.stores import StoredThread
    from codex_framework.threads.environments import Environments, keep_environments

    async def story(kernel: Any, thread: Any) -> Any:
        selections = [{"environment_id": "box", "cwd": "/x"}, 7, {"environment_id": None}]
        stored = StoredThread(
            meta=thread.conversation.meta, history=(), events=(), last_turn_context={"environments": selections}
        )
        return keep_environments(stored, thread.settings, Environments())

    settings, warnings = play(make_kernel, story)
    assert settings.environments == ()
    assert warnings == ("skipping unknown turn environment `box`: the thread was last used with it",)


def test_a_child_has_no_environment_that_its_parent_does_not_have_now(make_kernel: Any, tmp_path: Path) -> None:
    async def story(kernel: Any, thread: Any) -> Any:
        spawn = thread.conversation.context("test").spawn
        before = await spawn(WORKER)

        async def tried(child: Any) -> Any:
            kernel.model.add(call("exec_command", cmd="echo run", login=False), say("done"))
            await child.run("Go!")
            return outputs(child)[-1]

        answers = [await tried(before)]
        await thread.submit(select(NONE))
        answers += [await tried(before), await tried(await spawn(WORKER))]
        await before.submit(select(local(tmp_path)))
        answers.append(await tried(before))
        return answers

    first, *rest = play(make_kernel, story, approval_policy=ApprovalPolicy.NEVER)
    assert "run" in first
    assert rest == [NO_ENVIRONMENT] * 3


def test_the_running_turn_of_a_child_loses_an_environment_with_its_parent(make_kernel: Any) -> None:
    async def story(kernel: Any, thread: Any) -> Any:
        @tool
        async def withdraw() -> str:
            """Let a client take the parent's environment away."""
            await thread.submit(select(NONE))
            return "ok"

        child = await thread.conversation.context("test").spawn(WORKER.evolve(tools=[withdraw]))
        kernel.model.add(call("withdraw"), call("exec_command", cmd="echo still", login=False), say("done"))
        await child.run("Go!")
        return outputs(child)

    assert play(make_kernel, story, approval_policy=ApprovalPolicy.NEVER) == ["ok", NO_ENVIRONMENT]


def test_input_selects_environments_in_one_place(make_kernel: Any, tmp_path: Path) -> None:
    raw = {"type": "user_input", "items": [{"type": "text", "text": "hi"}], "environments": []}

    async def story(kernel: Any, thread: Any) -> Any:
        kernel.model.add(say("done"))
        await thread.submit(read_op(raw))
        await thread.settled()
        twice = {**raw, "thread_settings": {"environments": []}}
        return thread.settings.environments, await errors(thread, read_op(twice))

    environments, found = play(make_kernel, story)
    assert environments == ()
    assert "set the same thing" in found[0]
