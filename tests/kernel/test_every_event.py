"""Operations and events that no other test shows by itself."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from codex_framework import (
    Approval,
    Component,
    EventMsg,
    ModelInfo,
    ModelProvider,
    ProviderInfo,
    ThreadComponent,
    ThreadContext,
    ToolApprovalRequestEvent,
)
from codex_framework.contract.protocol.events import (
    AgentReasoningSectionBreakEvent,
    ApplyPatchApprovalRequestEvent,
    DeprecationNoticeEvent,
    ErrorEvent,
    ItemCompletedEvent,
    PatchApplyEndEvent,
    PluginEvent,
    RawResponseItemEvent,
    ReasoningContentDeltaEvent,
    ReasoningRawContentDeltaEvent,
    RequestResolvedEvent,
    WarningEvent,
)
from codex_framework.contract.protocol.items import Message, OutputText, Reasoning
from codex_framework.contract.protocol.ops import CleanBackgroundTerminals, ExecApproval, PatchApproval
from codex_framework.contract.protocol.policies import ApprovalPolicy, Decision, ReviewDecision
from codex_framework.contract.protocol.wire import read_event, to_wire
from codex_framework.contract.roles.models import (
    Completed,
    ItemAdded,
    ItemDone,
    ModelNotice,
    ReasoningDelta,
    ReasoningPartAdded,
)
from codex_framework.testing import call, custom_call, say

REQUEST = ToolApprovalRequestEvent(call_id="c", turn_id="t", tool="t", approval=Approval(question="?"), request_id="c")


class Thinking(ModelProvider):
    """A model that thinks in two summary parts, and aloud."""

    name = "thinking"

    def open(self, info: ProviderInfo, env: Any) -> Any:
        return self

    def model(self, slug: str) -> ModelInfo | None:
        return None

    async def stream(self, request: Any) -> Any:
        yield ItemAdded(Reasoning(summary=(), id="r1"))
        yield ReasoningDelta("r1", "First")
        yield ReasoningPartAdded("r1", 1)
        yield ReasoningDelta("r1", "Second", 1)
        yield ReasoningDelta("r1", "aloud", 0, raw=True)
        parts = tuple({"type": "summary_text", "text": text} for text in ("First", "Second"))
        yield ItemDone(Reasoning(summary=parts, id="r1"))
        yield ItemDone(Message("assistant", (OutputText("Done."),), id="m1"))
        yield Completed("resp_1")

    async def aclose(self) -> None:
        pass


class Noticing(Thinking):
    """A model whose server says something of the turn with each response."""

    name = "noticing"

    def __init__(self, notice: Any) -> None:
        self.notice = notice

    async def stream(self, request: Any) -> Any:
        yield ModelNotice(self.notice)
        yield ModelNotice(self.notice)
        yield ItemDone(Message("assistant", (OutputText("Done."),), id="m1"))
        yield Completed("resp_1", end_turn=bool(request.prompt.items[-1].role == "assistant"))


NOTICING = ('model_provider="noticing"', 'model_providers.noticing={wire_api="noticing", stream_max_retries=0}')


def test_what_the_server_says_of_a_turn_is_told_once(make_thread: Any) -> None:
    async def main() -> None:
        notice = PluginEvent("server.mood", {"mood": ["calm"]})
        async with make_thread([], config=NOTICING, providers=[Noticing(notice)]) as thread:
            events = (await thread.run("go")).events
            assert sum(isinstance(event, RawResponseItemEvent) for event in events) == 2
            assert [event for event in events if isinstance(event, PluginEvent)] == [notice]
            again = (await thread.run("go")).events
            assert [event for event in again if isinstance(event, PluginEvent)] == [notice]

    asyncio.run(main())


@pytest.mark.parametrize("notice", ["calm", REQUEST])
def test_a_server_cannot_say_what_is_no_event_or_ask_as_a_tool_does(make_thread: Any, notice: Any) -> None:
    async def main() -> None:
        async with make_thread([], config=NOTICING, providers=[Noticing(notice)]) as thread:
            ended = await thread.run("go")
            assert "it yielded a notice with" in str(ended.error)
            assert not any(isinstance(event, ToolApprovalRequestEvent) for event in ended.events)

    asyncio.run(main())


def test_reasoning_arrives_in_pieces_with_its_parts_told_apart(make_thread: Any) -> None:
    async def main() -> None:
        config = ('model_provider="thinking"', 'model_providers.thinking={wire_api="thinking"}')
        async with make_thread([], config=config, providers=[Thinking()]) as thread:
            events = (await thread.run("go")).events
            turn = thread.id, events[-1].turn_id
            wanted = (ReasoningContentDeltaEvent, ReasoningRawContentDeltaEvent, AgentReasoningSectionBreakEvent)
            assert [event for event in events if isinstance(event, wanted)] == [
                ReasoningContentDeltaEvent(*turn, "r1", "First", 0),
                AgentReasoningSectionBreakEvent("r1", 1),
                ReasoningContentDeltaEvent(*turn, "r1", "Second", 1),
                ReasoningRawContentDeltaEvent(*turn, "r1", "aloud", 0),
            ]
            assert [event.item.type for event in events if isinstance(event, RawResponseItemEvent)] == [
                "reasoning",
                "message",
            ]
            done = [event.item["type"] for event in events if isinstance(event, ItemCompletedEvent)]
            assert done[-2:] == ["Reasoning", "AgentMessage"]

    asyncio.run(main())


def test_clean_background_terminals_kills_the_commands_of_the_thread_and_no_turn(
    make_kernel: Any, tmp_path: Path
) -> None:
    async def main() -> None:
        marker = tmp_path / "alive"
        script = f"while :; do date +%s%N > {marker}; sleep 0.05; done"
        replies = [call("exec_command", cmd=script, yield_time_ms=400, login=False, shell="sh"), say("running")]
        async with make_kernel(replies) as kernel:
            thread = await kernel.start_thread()
            assert (await thread.run("go")).final_message == "running"
            assert thread.status == "idle"
            written = marker.read_text()
            end = time.monotonic() + 20
            while marker.read_text() == written:
                assert time.monotonic() < end, "the command goes on after its turn"
                await asyncio.sleep(0.02)
            await thread.submit(CleanBackgroundTerminals())
            await thread.submit(CleanBackgroundTerminals())
            await asyncio.sleep(0.2)
            last = marker.read_text()
            await asyncio.sleep(0.3)
            assert marker.read_text() == last

    asyncio.run(asyncio.wait_for(main(), 60))


class Teller(ThreadComponent):
    def __init__(self, thread: ThreadContext) -> None:
        self._thread = thread

    async def turn_ended(self, turn: Any, outcome: Any) -> None:
        turn.emit(PluginEvent("teller.news", {"n": 1}))
        turn.emit(DeprecationNoticeEvent("`old` is deprecated", "use `new`"))


class Tellers(Component):
    name = "tellers"

    def for_thread(self, thread: ThreadContext) -> Teller:
        return Teller(thread)


def test_plugins_tell_clients_of_news_and_of_what_is_deprecated(make_thread: Any) -> None:
    async def main() -> None:
        async with make_thread([say("hi")], components=[Tellers()]) as thread:
            events = (await thread.run("go")).events
            told: list[EventMsg] = [
                event for event in events if isinstance(event, (PluginEvent, DeprecationNoticeEvent))
            ]
            assert told == [
                PluginEvent("teller.news", {"n": 1}),
                DeprecationNoticeEvent("`old` is deprecated", "use `new`"),
            ]
            assert [read_event(to_wire(event)) for event in told] == told

    asyncio.run(main())


PATCH = "*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch"


def test_a_patch_is_answered_once_and_later_answers_are_told_to_be_late(make_kernel: Any, tmp_path: Path) -> None:
    async def main() -> None:
        target = tmp_path / "outside.txt"
        replies = [custom_call("apply_patch", PATCH.format(path=target)), say("done")]
        config = (
            'sandbox_mode="workspace-write"',
            "sandbox_workspace_write={exclude_slash_tmp=true,exclude_tmpdir_env_var=true}",
            "model='gpt-5.5'",
        )
        async with make_kernel(replies, config=config) as kernel:
            thread = await kernel.start_thread(approval_policy=ApprovalPolicy.ON_REQUEST)
            heard: list[EventMsg] = []
            asked = None
            async for event in thread.stream("go"):
                heard.append(event)
                if isinstance(event, ApplyPatchApprovalRequestEvent):
                    assert not target.exists()
                    await thread.submit(ExecApproval("nobody-asked", ReviewDecision(Decision.APPROVED)))
                    await thread.submit(PatchApproval(event.call_id, ReviewDecision(Decision.DENIED)))
                    await thread.submit(PatchApproval(event.call_id, ReviewDecision(Decision.APPROVED)))
                    asked = event
            assert asked is not None
            assert not target.exists(), "the first answer counts"
            rest = thread.events()
            await thread.submit(PatchApproval(asked.call_id, ReviewDecision(Decision.APPROVED)))
            await thread.shutdown()
            heard += [event.msg async for event in rest]
            late = [event.message for event in heard if isinstance(event, WarningEvent) and "is open" in event.message]
            assert [text.split("'")[1] for text in late] == ["nobody-asked", asked.call_id, asked.call_id]
            assert all("The answer has no effect" in text for text in late)
            assert len([event for event in heard if isinstance(event, RequestResolvedEvent)]) == 1
            assert not [event for event in heard if isinstance(event, ErrorEvent)]
            assert not target.exists()
            assert [event.success for event in heard if isinstance(event, PatchApplyEndEvent)] in ([], [False])

    asyncio.run(asyncio.wait_for(main(), 60))
