"""What interceptors see of a compaction, and how they can prevent it."""

from __future__ import annotations

import asyncio

from codex_framework import Interceptor, Status, StopTurn
from codex_framework.contract.protocol.events import ErrorEvent, WarningEvent
from codex_framework.contract.protocol.items import message_text
from codex_framework.testing import Offer, call, fault, say
from codex_plugin_compaction import Compact

LIMIT = "model_auto_compact_token_limit=900"


class Watcher(Interceptor):
    """Writes down what it sees; raises ``before`` and ``after`` if they are given."""

    name = "watcher"

    def __init__(self, before: BaseException | None = None, after: BaseException | None = None) -> None:
        self.seen: list[tuple[str, ...]] = []
        self._before = before
        self._after = after

    async def before_compact(self, reason, turn):
        self.seen.append(("before", reason, turn.facts.kind))
        if self._before is not None:
            raise self._before

    async def after_compact(self, compaction, reason, turn):
        self.seen.append(("after", reason, compaction.message.rpartition("\n")[2]))
        assert message_text(compaction.items[-1]) == compaction.message
        if self._after is not None:
            raise self._after


def messages(events, kind) -> list[str]:
    return [event.message for event in events if isinstance(event, kind)]


async def _on_request(kernel, carry_out):
    thread = await kernel.start_thread()
    await thread.run("Hi!")
    events = await carry_out(thread, Compact())
    return events, await thread.settled(), len(thread.history)


async def _between_samples(kernel):
    thread = await kernel.start_thread()
    return await thread.run("Hi!")


def test_they_run_around_every_compaction(scene, carry_out, used):
    watcher = Watcher()

    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        await thread.run("How are you?")
        await carry_out(thread, Compact())

    replies = [used(call("update_plan", plan=[]), 1000), say("a"), used(say("Hello."), 1000)]
    replies += [say("b"), say("Fine."), say("c")]
    scene.play(story, replies, LIMIT, plugins=[Offer(interceptors=[watcher])])
    assert watcher.seen == [
        ("before", "context_limit", "regular"),
        ("after", "context_limit", "a"),
        ("before", "context_limit", "regular"),
        ("after", "context_limit", "b"),
        ("before", "manual", "compact"),
        ("after", "manual", "c"),
    ]


def test_one_that_raises_prevents_the_compaction(scene, carry_out):
    plugins = [Offer(interceptors=[Watcher(before=RuntimeError("not now"))])]
    events, outcome, length = scene.play(lambda kernel: _on_request(kernel, carry_out), [say("a")], plugins=plugins)
    assert outcome.status is Status.FAILED
    (message,) = messages(events, ErrorEvent)
    assert "interceptor 'watcher' of plugin" in message
    assert ": before_compact() failed: RuntimeError: not now (" in message
    assert length > 2
    assert len(scene.asked) == 1
    assert not [event for event in events if event.type == "item_started"], "nothing has begun"


def test_one_that_raises_in_a_turn_is_told_and_the_turn_goes_on(scene, used):
    plugins = [Offer(interceptors=[Watcher(before=RuntimeError("not now"))])]
    replies = [used(call("update_plan", plan=[]), 1000), say("Fine.")]
    result = scene.play(_between_samples, replies, LIMIT, plugins=plugins)
    assert result.final_message == "Fine."
    (warning,) = messages(result.events, WarningEvent)
    assert "not now" in warning


def test_one_can_end_the_turn(scene, used):
    plugins = [Offer(interceptors=[Watcher(before=StopTurn("enough"))])]
    replies = [used(say("Working.") + call("update_plan", plan=[]), 1000)]
    result = scene.play(_between_samples, replies, LIMIT, plugins=plugins)
    assert result.status is Status.COMPLETED
    assert messages(result.events, WarningEvent) == ["enough"]


def test_one_can_end_the_turn_of_a_compaction_on_request(scene, carry_out):
    plugins = [Offer(interceptors=[Watcher(before=StopTurn("enough"))])]
    events, outcome, _ = scene.play(lambda kernel: _on_request(kernel, carry_out), [say("a")], plugins=plugins)
    assert outcome.status is Status.COMPLETED
    assert [event.type for event in events] == ["task_started", "warning", "task_complete"]


def test_one_that_fails_afterwards_is_told_and_changes_nothing(scene, carry_out):
    plugins = [Offer(interceptors=[Watcher(after=RuntimeError("oops"))])]

    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        subscription = thread.events()
        await carry_out(thread, Compact())
        await thread.shutdown()
        return [event.msg async for event in subscription], await thread.settled(), len(thread.history)

    events, outcome, length = scene.play(story, [say("a"), say("b")], plugins=plugins)
    assert (outcome.status, length) == (Status.COMPLETED, 2)
    assert any(": after_compact() failed: RuntimeError: oops (" in text for text in messages(events, WarningEvent))


def test_an_interrupt_ends_the_waiting_for_one(scene, used):
    class Endless(Watcher):
        async def before_compact(self, reason, turn):
            await super().before_compact(reason, turn)
            await asyncio.Event().wait()

    watcher = Endless()

    async def story(kernel):
        thread = await kernel.start_thread()
        running = asyncio.ensure_future(thread.run("Hi!"))
        while not watcher.seen:
            await asyncio.sleep(0.01)
        await thread.interrupt()
        return await running

    replies = [used(call("update_plan", plan=[]), 1000), fault(400)]
    result = scene.play(story, replies, LIMIT, plugins=[Offer(interceptors=[watcher])])
    assert result.status is Status.INTERRUPTED
    assert len(scene.asked) == 1


def test_they_see_the_request_for_the_summary_as_any_other(scene, carry_out):
    class Renamer(Interceptor):
        name = "renamer"

        async def request(self, request, turn):
            return request.evolve(instructions="Whisper.")

    plugins = [Offer(interceptors=[Renamer()])]
    scene.play(lambda kernel: _on_request(kernel, carry_out), [say("a"), say("b")], plugins=plugins)
    assert [body["instructions"] for body in scene.asked] == ["Whisper.", "Whisper."]
