"""The ops ``undo`` and ``thread_rollback`` in real threads: what clients are told, what is kept, what is refused."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from typing import Any

import pytest

from codex_framework import ThreadError
from codex_framework.contract.protocol.events import ErrorEvent, ThreadRolledBackEvent, WarningEvent
from codex_framework.contract.protocol.items import message_text
from codex_framework.testing import call, say
from codex_plugin_undo import ThreadRollback, Undo, UndoCompletedEvent, UndoStartedEvent

ON = "framework.plugins.undo.snapshots=true"


def sh(script: str) -> Any:
    return call("exec_command", cmd=script, login=False)


def ended(events: list[Any]) -> tuple[bool, str]:
    (end,) = (event for event in events if isinstance(event, UndoCompletedEvent))
    return end.success, end.message


@pytest.fixture
def project(workspace):
    subprocess.run(["git", "init", "-q", str(workspace)], check=True)
    (workspace / "file").write_text("one\n")
    return workspace


def said(thread: Any) -> list[str]:
    return [message_text(item) for item in thread.history.items if item.type == "message" and item.role == "user"]


def test_turns_are_undone_one_by_one_from_the_last(scene, carry_out, project):
    async def story(kernel):
        thread = await kernel.start_thread()
        seen = []
        for word in ("two", "three"):
            await thread.run(f"Write {word}.")
            seen.append((project / "file").read_text())
        for _ in range(3):
            events = await carry_out(thread, Undo())
            assert isinstance(events[1], UndoStartedEvent)
            seen.append(((project / "file").read_text(), ended(events)[0]))
        return seen, ended(events)[1], said(thread)

    replies = [sh("echo two > file; touch made"), say("Done."), sh("echo three > file"), say("Done.")]
    seen, last, texts = scene.play(story, replies, ON)
    assert seen == ["two\n", "three\n", ("two\n", True), ("one\n", True), ("one\n", False)]
    assert last == "There is no snapshot to go back to."
    assert not (project / "made").exists()
    assert texts[-1] == "Write three.", "the conversation stays as it is"


def test_the_snapshot_is_complete_before_the_first_call_runs(scene, carry_out, project):
    for number in range(1500):
        (project / f"file{number}").write_text(f"{number}")
    subprocess.run(["git", "-C", str(project), "add", "-A"], check=True)

    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Remove all.")
        assert list(project.glob("file*")) == []
        return ended(await carry_out(thread, Undo()))

    success, _ = scene.play(story, [sh("rm -f file*"), say("Done.")], ON)
    assert success
    assert len(list(project.glob("file*"))) == 1501


def test_a_resumed_thread_can_still_be_undone(scene, carry_out, project):
    async def first(kernel):
        thread = await kernel.start_thread()
        await thread.run("Write.")
        return thread.id

    thread_id = scene.play(first, [sh("echo two > file"), say("Done.")], ON)

    async def second(kernel):
        thread = await kernel.resume_thread(thread_id)
        return ended(await carry_out(thread, Undo()))

    assert scene.play(second, [], ON)[0]
    assert (project / "file").read_text() == "one\n"


def test_undo_replaces_a_running_turn(scene, carry_out, project):
    async def story(kernel):
        thread = await kernel.start_thread()
        thread.start("Write, and wait.")
        async with asyncio.timeout(30):
            while (project / "file").read_text() == "one\n":
                await asyncio.sleep(0.01)
        return ended(await carry_out(thread, Undo()))

    assert scene.play(story, [sh("echo two > file; sleep 60")], ON)[0]
    assert (project / "file").read_text() == "one\n"


def test_without_snapshots_it_says_how_to_get_them(scene, carry_out, project):
    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Write.")
        return ended(await carry_out(thread, Undo())), (kernel.config.codex_home / "snapshots").exists()

    (success, message), exists = scene.play(story, [sh("echo two > file"), say("Done.")])
    assert (success, exists) == (False, False)
    assert "Set `snapshots = true` in [framework.plugins.undo]" in message


def test_codex_feature_of_the_same_meaning_is_obeyed(scene, carry_out, project):
    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Write.")
        return ended(await carry_out(thread, Undo()))

    assert scene.play(story, [sh("echo two > file"), say("Done.")], "features.ghost_commit=true")[0]


def test_outside_of_a_repository_it_warns_once_and_the_turns_go_on(scene, carry_out, workspace):
    async def story(kernel):
        thread = await kernel.start_thread()
        warnings = []
        for _ in range(2):
            result = await thread.run("Hi!")
            warnings += [event.message for event in result.events if isinstance(event, WarningEvent)]
        return [text for text in warnings if "undone" in text], ended(await carry_out(thread, Undo()))

    warnings, end = scene.play(story, [say("Hello."), say("Hello.")], ON)
    assert warnings == [f"Turns cannot be undone in {workspace}: it is not part of a git repository."]
    assert end == (False, "There is no snapshot to go back to.")


def test_a_snapshot_that_is_gone_is_told(scene, carry_out, project):
    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Write.")
        shutil.rmtree(kernel.config.codex_home / "snapshots")
        return ended(await carry_out(thread, Undo()))

    success, message = scene.play(story, [sh("echo two > file"), say("Done.")], ON)
    assert not success
    assert "does not exist any more" in message
    assert (project / "file").read_text() == "two\n"


def test_the_model_cannot_write_its_snapshots(scene, project):
    async def story(kernel):
        thread = await kernel.start_thread()
        return await thread.run("Break them.")

    home = scene.codex_home / "snapshots"
    replies = [sh(f"find {home} -type f -exec rm -f {{}} +; echo x > {home}/x"), say("Done.")]
    scene.play(story, replies, ON, 'sandbox_mode="workspace-write"')
    assert list(home.rglob("HEAD"))
    assert not (home / "x").exists()


def test_a_git_that_the_model_could_have_written_is_not_run(scene, project):
    folder = project / "bin"
    folder.mkdir()
    (folder / "git").write_text(f"#!/bin/sh\ntouch {project}/ran\n")
    (folder / "git").chmod(0o755)
    scene.path = f"{folder}:{scene.path}"

    async def story(kernel):
        await (await kernel.start_thread()).run("Write.")

    scene.play(story, [sh("true"), say("Done.")], ON, 'sandbox_mode="workspace-write"')
    assert list((scene.codex_home / "snapshots").rglob("HEAD")), "the other git took the snapshot"
    assert not (project / "ran").exists()


@pytest.mark.parametrize("name", ["commit", "root", "folder"])
def test_a_damaged_entry_is_told(scene, carry_out, project, name):
    async def first(kernel):
        thread = await kernel.start_thread()
        await thread.run("Write.")
        return thread.id

    async def second(kernel):
        return ended(await carry_out(await kernel.resume_thread(thread_id), Undo()))

    thread_id = scene.play(first, [sh("echo two > file"), say("Done.")], ON)
    text = scene.rollout.read_text()
    assert text.count(f'"{name}":"') == 1
    scene.rollout.write_text(text.replace(f'"{name}":"', f'"{name}":7,"was":"'))
    told = "The snapshot could not be restored: its entry in the session is damaged"
    assert scene.play(second, [], ON) == (False, told)


# Rolling back


def test_a_rollback_drops_turns_from_the_conversation_and_not_from_the_files(scene, carry_out, project):
    async def story(kernel):
        thread = await kernel.start_thread()
        for word in ("two", "three"):
            await thread.run(f"Write {word}.")
        subscription = thread.events()
        await thread.submit(ThreadRollback(1))
        async for event in subscription:
            if isinstance(event.msg, ThreadRolledBackEvent):
                break
        subscription.close()
        kept = said(thread)
        end = ended(await carry_out(thread, Undo()))
        return event.msg.num_turns, kept, end, thread.id

    replies = [sh("echo two > file"), say("Done."), sh("echo three > file"), say("Done.")]
    turns, kept, end, thread_id = scene.play(story, replies, ON)
    assert turns == 1
    assert "Write two." in kept
    assert "Write three." not in kept
    assert end[0], "the snapshot of the first turn is the newest that is left"
    assert (project / "file").read_text() == "one\n"

    async def again(kernel):
        return said(await kernel.resume_thread(thread_id))

    assert "Write three." not in scene.play(again, [])


@pytest.mark.parametrize("turns", [0, -1])
def test_a_wrong_number_of_turns_is_refused(scene, carry_out, turns):
    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        return await carry_out(thread, ThreadRollback(turns)), said(thread)

    (error,), kept = scene.play(story, [say("Hello.")])
    assert isinstance(error, ErrorEvent)
    assert (error.message, error.codex_error_info) == ("num_turns must be >= 1", "thread_rollback_failed")
    assert "Hi!" in kept


def test_more_turns_than_there_are_drop_all(scene, carry_out):
    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        await thread.submit(ThreadRollback(99))
        await thread.run("Again!")
        return said(thread)

    kept = scene.play(story, [say("Hello."), say("Hello.")])
    assert "Hi!" not in kept
    assert kept[-1] == "Again!"


def test_a_running_turn_is_not_rolled_back(scene, project):
    async def story(kernel):
        thread = await kernel.start_thread()
        subscription = thread.events()
        thread.start("Wait.")
        submission = await thread.submit(ThreadRollback(1))
        async for event in subscription:
            if isinstance(event.msg, ErrorEvent):
                break
        subscription.close()
        await thread.interrupt()
        return event.id == submission, event.msg, said(thread)

    own, error, kept = scene.play(story, [sh("sleep 60")])
    assert own
    assert error.message == "Cannot rollback while a turn is in progress."
    assert error.codex_error_info == "thread_rollback_failed"
    assert "Wait." in kept


def test_a_thread_without_a_record_cannot_be_rolled_back(scene, carry_out):
    async def story(kernel):
        thread = await kernel.start_thread(ephemeral=True)
        await thread.run("Hi!")
        return await carry_out(thread, ThreadRollback(1))

    (error,) = scene.play(story, [say("Hello.")])
    assert error.message == "thread rollback requires persisted thread history"


def test_a_number_that_is_none_is_refused_before_the_handler(scene, carry_out):
    async def story(kernel):
        thread = await kernel.start_thread()
        with pytest.raises((ThreadError, TypeError)):
            raise ThreadError((await carry_out(thread, ThreadRollback("1")))[0].message)  # type: ignore[arg-type]

    scene.play(story, [])
