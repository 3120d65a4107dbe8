"""Realtime conversations against a real server on loopback: texts, audio, hand-offs, and what the thread's model is told."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from codex_framework import InputRefused, Interceptor, StopTurn
from codex_framework.contract.protocol.events import (
    TurnAbortedEvent,
    TurnCompleteEvent,
    TurnStartedEvent,
    UserMessageEvent,
)
from codex_framework.contract.protocol.items import message_text
from codex_framework.contract.protocol.ops import Interrupt, TextInput, UserInputOp
from codex_framework.testing import Offer, call, fail, say
from codex_plugin_realtime import (
    RealtimeAudioFrame,
    RealtimeConversationAudio,
    RealtimeConversationClose,
    RealtimeConversationClosedEvent,
    RealtimeConversationListVoices,
    RealtimeConversationListVoicesResponseEvent,
    RealtimeConversationRealtimeEvent,
    RealtimeConversationSpeech,
    RealtimeConversationStartedEvent,
    RealtimeConversationText,
)

DONE = "The agent is done. Its messages above, which begin with [BACKEND], are the result."
PAUSE = call("exec_command", cmd="sleep 20")


def developer_texts(request: Any) -> str:
    return "\n".join(message_text(item) for item in request.prompt.items if getattr(item, "role", "") == "developer")


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_texts_and_audio_of_the_client_reach_the_server_in_order(talk: Any, play: Any, version: str) -> None:
    async def story() -> None:
        async with talk() as here:
            await here.start(version=version, prompt="Be nice.")
            (started,) = here.of(RealtimeConversationStartedEvent)
            assert started.version == version
            assert started.realtime_session_id not in (None, "", here.thread.client.id)
            frame = RealtimeAudioFrame(data="AAAA", sample_rate=24000, num_channels=1, samples_per_channel=1)
            await here.submit(RealtimeConversationText("hello"))
            await here.submit(RealtimeConversationAudio(frame))
            await here.submit(RealtimeConversationText("note", "developer"))
            await here.submit(RealtimeConversationText("[USER] marked"))
            await here.submit(RealtimeConversationSpeech("say this"))
            prefix = "" if version == "v1" else "[USER] "
            assert short_texts(await here.server.items(3)) == [f"user: {prefix}hello", "audio", "developer: note"]
            assert (await here.server.items(1)) == ["user: [USER] marked"]
            if version == "v1":
                assert await here.server.items(1) == ["codex = say this"]
            else:
                assert await here.server.items(2) == ["user: [BACKEND] say this", "response.create"]
            await here.submit(RealtimeConversationClose(), id="close")
            assert await here.closed() == "requested"
            await here.server.connection.wait_closed()
            assert here.server.connection.close_code == 1000

    play(story)


def short_texts(items: list[Any]) -> list[Any]:
    return ["audio" if item == "input_audio_buffer.append" else item for item in items]


def test_a_request_of_the_voice_model_becomes_a_turn_and_its_messages_go_back(talk: Any, play: Any) -> None:
    async def story() -> None:
        replies = (
            say("Looking.", phase="commentary"),
            say("Found <it>."),
        )
        first = replies[0] + call("exec_command", cmd="true")
        async with talk(first, replies[1]) as here:
            await here.start()
            await here.server.send(
                {"type": "response.created", "response": {"id": "r1"}},
                {"type": "conversation.item.input_audio_transcription.delta", "delta": "plea"},
                {"type": "conversation.item.input_audio_transcription.delta", "delta": "se"},
                {"type": "conversation.item.input_audio_transcription.completed", "transcript": "please!"},
                {"type": "response.output_audio_transcript.delta", "delta": "sure"},
            )
            await here.hand_off("find <it> & go")
            assert await here.server.items(3) == [
                "user: [BACKEND] Looking.",
                "user: [BACKEND] Found <it>.",
                f"call_1 = {DONE}",
            ]
            await here.server.send({"type": "response.done", "response": {"id": "r1"}})
            assert await here.server.items(1) == ["response.create"], "not before the present response is over"
            handoff = await here.payload("HandoffRequested")
            assert handoff == {
                "handoff_id": "call_1",
                "item_id": "item_call_1",
                "input_transcript": "find <it> & go",
                "active_transcript": [
                    {"role": "user", "text": "please!"},
                    {"role": "assistant", "text": "sure"},
                    {"role": "user", "text": "find <it> & go"},
                ],
            }
            (said,) = here.of(UserMessageEvent)
            assert said.message == (
                "<realtime_delegation>\n  <input>find &lt;it&gt; &amp; go</input>\n  <transcript_delta>user: please!\n"
                "assistant: sure\nuser: find &lt;it&gt; &amp; go</transcript_delta>\n</realtime_delegation>"
            )
            assert here.server.nothing_more(), "what the voice model said is not told to it"

    play(story)


def test_the_first_version_hears_which_message_is_the_last(talk: Any, play: Any) -> None:
    async def story() -> None:
        first = say("Looking.", phase="commentary") + call("exec_command", cmd="true")
        async with talk(first, say("Found it."), say("Typed.")) as here:
            await here.start(version="v1")
            await here.hand_off("go", "ho_1", version="v1")
            assert await here.server.items(2) == ["ho_1 = Looking.", 'ho_1 = "Agent Final Message":\n\nFound it.']
            await here.thread.client.settled()
            await here.thread.turn("typed")
            assert await here.server.items(2) == ["user: typed", 'codex = "Agent Final Message":\n\nTyped.']

    play(story)


def test_what_the_user_types_and_what_the_model_writes_is_mirrored_within_limits(talk: Any, play: Any) -> None:
    async def story() -> None:
        async with talk(say("short"), say("x" * 9000)) as here:
            await here.start()
            await here.thread.turn("typed")
            assert await here.server.items(3) == ["user: [USER] typed", "user: [BACKEND] short", "response.create"]
            await here.thread.turn("y" * 5000)
            typed, written = await here.server.items(2)
            assert typed.startswith("user: [USER] yyy")
            assert "tokens truncated" in typed
            assert len(typed.removeprefix("user: ").encode()) in range(1190, 1201)
            assert len(written.removeprefix("user: ").encode()) in range(3990, 4001)
            assert here.server.nothing_more(), "the voice model still speaks"
            await here.server.send({"type": "response.cancelled"})
            assert await here.server.items(1) == ["response.create"]

    play(story)


def test_a_request_during_the_work_steers_it_and_silence_is_answered(talk: Any, play: Any) -> None:
    async def story() -> None:
        async with talk(call("exec_command", cmd="sleep 0.5"), say("Both done.")) as here:
            await here.start()
            await here.hand_off("first")
            await here.thread.until(TurnStartedEvent)
            await here.hand_off("second", "call_2")
            silent = {
                "type": "function_call",
                "name": "remain_silent",
                "call_id": "call_3",
                "id": "i3",
                "arguments": "{}",
            }
            await here.server.send({"type": "conversation.item.done", "item": silent})
            steered, response, silence = await here.server.items(3)
            assert steered.startswith("call_2 = The agent is at work already")
            assert (response, silence) == ("response.create", "call_3 = ")
            assert await here.payload("NoopRequested") == {"call_id": "call_3", "item_id": "i3"}
            assert await here.server.items(2) == ["user: [BACKEND] Both done.", f"call_1 = {DONE}"]
            turns = here.of(TurnStartedEvent)
            assert (len(turns), len(here.of(UserMessageEvent))) == (1, 2)

    play(story)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_the_voice_model_learns_that_work_was_interrupted_or_failed(talk: Any, play: Any, version: str) -> None:
    async def story() -> None:
        async with talk(PAUSE, fail("broken", info="bad_request"), say("Again.")) as here:
            await here.start(version=version)
            prefix = '"Agent Final Message":\n\n' if version == "v1" else ""
            await here.hand_off("long", "call_1", version=version)
            await here.thread.until(TurnStartedEvent)
            await here.submit(Interrupt())
            await here.thread.until(TurnAbortedEvent)
            assert await here.server.items(1) == [f"call_1 = {prefix}The agent was interrupted before it was done."]
            await here.hand_off("breaks", "call_2", version=version)
            found = [item for item in await here.server.items(1 if version == "v1" else 2) if item != "response.create"]
            assert found == [f"call_2 = {prefix}The agent could not do this: broken"]
            await here.hand_off("again", "call_3", version=version)
            while not (answer := (await here.server.items(1))[0]).startswith(("call_3", "user: [BACKEND]")):
                assert answer == "response.create"
            assert answer.endswith("Again.")

    play(story)


class Bouncer(Interceptor):
    name = "bouncer"

    async def input(self, input: Any, turn: Any) -> Any:  # noqa: A002  # the contract's word
        raise InputRefused("not today")


def test_a_request_that_the_thread_refuses_is_answered(talk: Any, play: Any) -> None:
    async def story() -> None:
        async with talk(plugin=Offer(name="door", interceptors=[Bouncer()])) as here:
            await here.start()
            await here.hand_off("let me in")
            answer, response = await here.server.items(2)
            assert answer.startswith("call_1 = ")
            assert "not today" in answer
            assert response == "response.create"

    play(story)


class Sleeper(Interceptor):
    name = "sleeper"

    async def input(self, input: Any, turn: Any) -> Any:  # noqa: A002  # the contract's word
        raise StopTurn("asleep")


def test_a_request_whose_turn_stops_before_it_begins_is_answered(talk: Any, play: Any) -> None:
    async def story() -> list[Any]:
        async with talk(plugin=Offer(name="bed", interceptors=[Sleeper()])) as here:
            await here.start()
            await here.hand_off("wake up")
            found: list[Any] = await here.server.items(2)
            return found

    assert play(story) == ["call_1 = The agent is done. It wrote no message.", "response.create"]


@pytest.mark.parametrize("whole", [True, False])
def test_of_what_was_said_the_latest_is_handed_off(talk: Any, play: Any, *, whole: bool) -> None:
    async def story() -> Any:
        async with talk(say("Yes.")) as here:
            await here.start()
            for number in range(8):
                user = {"type": "conversation.item.input_audio_transcription.delta", "delta": f"{number}" * 3000}
                model = {"type": "response.output_audio_transcript.delta", "delta": f"{number}" * 3000}
                await here.server.send(*((user, model) if whole else (model,)))
            if not whole:
                await here.server.send({**model, "delta": "z" * 20_000})
            await here.hand_off("go")
            return (await here.payload("HandoffRequested"))["active_transcript"]

    *said, last = play(story)
    assert last == {"role": "user", "text": "go"}
    assert 14_000 < sum(len(entry["text"]) for entry in said) <= 32_768
    assert said[-1]["text"].endswith("7" * 3000 if whole else "z" * 9)


def test_a_client_may_manage_the_answers_itself(talk: Any, play: Any) -> None:
    async def story() -> None:
        async with talk(say("secret")) as here:
            await here.start(client_managed_handoffs=True)
            await here.hand_off("go")
            await here.thread.until(TurnCompleteEvent)
            await here.submit(RealtimeConversationSpeech("mine"))
            assert await here.server.items(2) == ["user: [BACKEND] mine", "response.create"]

    play(story)


def test_a_request_without_words_starts_nothing(talk: Any, play: Any) -> None:
    async def story() -> None:
        async with talk() as here:
            await here.start(version="v1")
            await here.hand_off("", "ho_1", version="v1")
            assert (await here.payload("HandoffRequested"))["active_transcript"] == []
            assert here.of(TurnStartedEvent) == []

    play(story)


def test_the_model_is_told_of_the_beginning_and_the_end_and_the_record_says_so(talk: Any, play: Any) -> None:
    async def story() -> tuple[list[str], list[bool]]:
        async with talk(*[say("Hi.")] * 4) as here:
            await here.thread.turn("before")
            await here.start()
            await here.thread.turn("during")
            await here.thread.turn("still")
            await here.submit(RealtimeConversationClose())
            await here.closed()
            await here.thread.turn("after")
            record = Path(here.thread.client.rollout_path).read_text()
            assert here.key not in record
            assert "realtime_conversation_" not in record, "events of conversations are not kept"
            lines = map(json.loads, record.splitlines())
            active = [line["payload"]["realtime_active"] for line in lines if line["type"] == "turn_context"]
            return [developer_texts(request) for request in here.thread.requests], active

    told, active = play(story)
    assert active == [False, True, True, False]
    assert [text.count("<realtime_conversation>") for text in told] == [0, 1, 1, 2]
    assert "The voice conversation is over" not in told[2]
    assert "The voice conversation is over" in told[3]


def test_a_resumed_thread_learns_that_the_conversation_is_over(talk: Any, play: Any) -> None:
    async def story() -> list[str]:
        own = 'experimental_realtime_start_instructions="Speak up."'
        async with talk(*[say("Hi.")] * 4, config=[own]) as here:
            await here.start()
            await here.thread.turn("during")
            again = await here.thread.restarted()
            await again.turn("after")
            await again.turn("later")
            return [developer_texts(request) for request in again.requests]

    during, after, later = play(story)
    assert "<realtime_conversation>\nSpeak up.\n</realtime_conversation>" in during
    assert "The voice conversation is over" in after
    assert later == after


def test_a_second_start_ends_the_first_conversation_unless_it_is_wrong(talk: Any, play: Any) -> None:
    async def story() -> None:
        async with talk() as here:
            await here.start()
            await here.submit_wrong_voice()
            assert len(here.server.connections) == 1
            first = here.server.connection
            await here.start(realtime_session_id="mine")
            assert await here.closed() == "requested"
            await first.wait_closed()
            assert first.close_code == 1000
            await here.submit(RealtimeConversationText("to the second"))
            assert await here.server.items(1) == ["user: [USER] to the second"]
            assert here.of(RealtimeConversationStartedEvent)[-1].realtime_session_id == "mine"
            assert here.server.requests[-1][1]["x-session-id"] == "mine"

    play(story)


def test_the_voices_are_listed(talk: Any, play: Any) -> None:
    async def story() -> Any:
        async with talk() as here:
            await here.submit(RealtimeConversationListVoices())
            return (await here.thread.until(RealtimeConversationListVoicesResponseEvent)).voices

    voices = play(story)
    assert (voices.default_v1, voices.default_v2) == ("cove", "marin")
    assert voices.default_v1 in voices.v1
    assert voices.default_v2 in voices.v2


def test_a_thread_that_ends_closes_its_conversation(talk: Any, play: Any) -> None:
    async def story() -> tuple[int | None, list[Any]]:
        async with talk() as here:
            await here.start()
            await here.thread.client.shutdown()
            await here.server.connection.wait_closed()
            return here.server.connection.close_code, here.of(RealtimeConversationClosedEvent)

    code, closed = play(story)
    assert (code, closed) == (1000, [])


def test_speech_of_the_user_cuts_what_the_voice_model_says(talk: Any, play: Any) -> None:
    async def story() -> list[dict[str, Any]]:
        async with talk() as here:
            await here.start()
            spoken = {"type": "response.output_audio.delta", "delta": "A" * 6400, "item_id": "a"}
            started = {"type": "input_audio_buffer.speech_started", "item_id": "a"}
            counted = {**spoken, "item_id": "b", "samples_per_channel": 24000}
            await here.server.send(spoken, spoken, started, spoken, {**started, "item_id": "other"}, counted)
            await here.server.send({"type": "input_audio_buffer.speech_started"}, started)
            found = [await here.server.next("conversation.item.truncate") for _ in range(2)]
            audio = [
                event.payload["AudioOut"] for event in here.of(RealtimeConversationRealtimeEvent) if event.is_delta
            ]
            assert audio[0] == {"data": "A" * 6400, "sample_rate": 24000, "num_channels": 1, "item_id": "a"}
            return found

    cut, other = play(story)
    assert cut == {"type": "conversation.item.truncate", "item_id": "a", "content_index": 0, "audio_end_ms": 200}
    assert (other["item_id"], other["audio_end_ms"]) == ("b", 1000)


def test_input_that_steers_the_thread_is_mirrored_too(talk: Any, play: Any) -> None:
    async def story() -> list[Any]:
        async with talk(call("exec_command", cmd="sleep 0.4"), say("Done.")) as here:
            await here.start()
            here.thread.start("go")
            await here.thread.until(UserMessageEvent)
            await asyncio.sleep(0.1)
            await here.submit(UserInputOp((TextInput("faster"),)))
            found: list[Any] = await here.server.items(4)
            return found

    assert play(story) == ["user: [USER] go", "user: [USER] faster", "user: [BACKEND] Done.", "response.create"]
