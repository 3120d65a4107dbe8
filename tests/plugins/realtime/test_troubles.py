"""What goes wrong in realtime conversations: input that does not fit, servers that refuse, err, stop or send nonsense."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from websockets.datastructures import Headers
from websockets.http11 import Response

from codex_framework import Op, OpHandler
from codex_framework.contract.protocol.events import ErrorEvent, TurnStartedEvent
from codex_framework.testing import Offer, say
from codex_plugin_realtime import (
    RealtimeAudioFrame,
    RealtimeConversationAudio,
    RealtimeConversationClose,
    RealtimeConversationClosedEvent,
    RealtimeConversationRealtimeEvent,
    RealtimeConversationSpeech,
    RealtimeConversationStart,
    RealtimeConversationStartedEvent,
    RealtimeConversationText,
    conversation,
)

NOT_RUNNING = (
    "conversation is not running. Start one with the op realtime_conversation_start, and wait for"
    " realtime_conversation_started."
)


def frame(data: str = "AAAA", rate: int = 24000, channels: int = 1) -> RealtimeConversationAudio:
    return RealtimeConversationAudio(RealtimeAudioFrame(data=data, sample_rate=rate, num_channels=channels))


def test_ops_without_a_conversation_are_refused(talk: Any, play: Any) -> None:
    async def story() -> None:
        async with talk() as here:
            for op in (RealtimeConversationText("x"), RealtimeConversationSpeech("x"), frame()):
                assert await here.error(op) == NOT_RUNNING
            assert all(event.codex_error_info == "bad_request" for event in here.of(ErrorEvent))
            await here.submit(RealtimeConversationClose(), id="close")
            assert await here.closed() == "requested", "as in Codex"

    play(story)


MISFITS = [
    (frame(rate=48000), "the audio has 48000 Hz and 1 channels, not 24000 Hz and one."),
    (frame(channels=2), "the audio has 24000 Hz and 2 channels"),
    (frame("not base64!"), "the data of the audio frame is not base64."),
    (frame("AAA"), "the data of the audio frame is not base64."),
    (frame("AA AA"), "the data of the audio frame is not base64."),
    (frame(""), "the audio frame is empty."),
    (frame("A" * ((1 << 20) + 4)), "the audio frame has 1048580 characters, and 1048576 are allowed."),
    (
        RealtimeConversationText("x", "system"),
        "the role 'system' is unknown: it must be one of user, developer, assistant.",
    ),
    (RealtimeConversationText("x" * ((1 << 20) + 1)), "the text has 1048577 characters, and 1048576 are allowed."),
]


def test_input_that_does_not_fit_is_refused_and_the_conversation_goes_on(talk: Any, play: Any) -> None:
    async def story() -> None:
        async with talk() as here:
            await here.start()
            for op, told in MISFITS:
                assert told in await here.error(op)
            await here.submit(RealtimeConversationText("next"))
            assert await here.server.items(1) == ["user: [USER] next"]

    play(story)


WRONG_STARTS = [
    ({"version": "v1", "output_modality": "text"}, "text realtime output modality requires realtime v2"),
    ({"version": "v1", "voice": "marin"}, "realtime voice `marin` is not supported for v1; supported voices: juniper,"),
    ({"version": "v4"}, "realtime version 'v4' is not supported. Use v1 or v2."),
    ({"output_modality": "smell"}, "realtime output modality 'smell' is not supported. Use text or audio."),
    ({"realtime_session_id": "a\nb"}, "the realtime session id 'a\\nb' cannot be sent as a header."),
    ({"realtime_session_id": ""}, "the realtime session id '' cannot be sent as a header."),
]


def test_what_a_start_gets_wrong_is_an_event_of_the_conversation(talk: Any, play: Any) -> None:
    async def story() -> None:
        async with talk() as here:
            for fields, told in WRONG_STARTS:
                assert told in await here.failed_start(**fields)
            assert here.server.requests == []
            assert await here.error(RealtimeConversationText("x")) == NOT_RUNNING

    play(story)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ('realtime.voice="cove"', "realtime voice `cove` is not supported for v2"),
        ('realtime.version="v3"', "realtime version 'v3' is not supported. Use v1 or v2."),
        ("features.realtime_conversation=false", "realtime conversations are switched off."),
        (
            'experimental_realtime_ws_base_url="ftp://me:secret@host/x"',
            "experimental_realtime_ws_base_url = 'ftp://host/x' is not a URL with one of the schemes http, https, ws, wss.",
        ),
        ('experimental_realtime_ws_base_url="ws://[::1"', "is not a URL"),
    ],
)
def test_settings_that_do_not_fit_are_told_when_a_conversation_starts(
    talk: Any, play: Any, config: str, told: str
) -> None:
    async def story() -> None:
        async with talk(config=[config]) as here:
            assert told in await here.failed_start()

    play(story)


def test_a_missing_key_is_told_before_anything_is_sent(talk: Any, play: Any) -> None:
    async def story() -> None:
        async with talk(env={"RT_KEY": " "}) as here:
            assert "Missing environment variable: `RT_KEY`" in await here.failed_start()
            assert here.server.requests == []

    play(story)


def refusal(status: int, text: str) -> Response:
    body = json.dumps({"error": {"message": text}}).encode()
    return Response(status, "X", Headers([("content-length", str(len(body))), ("connection", "close")]), body)


def test_a_server_that_refuses_is_quoted_without_the_key(talk: Any, play: Any) -> None:
    async def story() -> None:
        async with talk() as here:
            here.server.refusals.append(refusal(401, f"bad key {here.key}"))
            error = await here.failed_start()
            assert "401" in error
            assert "bad key (hidden)" in error
            here.server.refusals.append(refusal(403, "x" * 950 + f" {here.key} " + "y" * 100))
            assert "sk-canary" not in await here.failed_start()
            assert await here.error(RealtimeConversationText("x")) == NOT_RUNNING
            session = await here.start()  # the next attempt is on its own
            assert session["type"] == "realtime"
            assert here.server.requests[0][1]["authorization"] == f"Bearer {here.key}"
            assert here.key not in repr(here.thread.events)

    play(story)


def test_a_server_that_is_not_there_is_told(talk: Any, play: Any) -> None:
    async def story() -> None:
        async with talk(config=['experimental_realtime_ws_base_url="ws://127.0.0.1:1/v1?key=geheim"']) as here:
            error = await here.failed_start()
            assert error.startswith("Connection failed: error sending request for url (ws://127.0.0.1:1/v1/realtime): ")
            assert here.of(RealtimeConversationClosedEvent) == []

    play(story)


async def ended(here: Any) -> tuple[str | None, list[str]]:
    """Wait for the end of a conversation. Return its reason, and the errors that no earlier call has returned."""
    reason = await here.closed()
    errors = [
        event.payload["Error"] for event in here.of(RealtimeConversationRealtimeEvent) if "Error" in event.payload
    ]
    seen, here.seen_errors = here.seen_errors, len(errors)
    return reason, errors[seen:]


ERRORS: list[tuple[Any, str]] = [
    ({"type": "error", "error": {"message": "boom KEY"}}, "boom (hidden)"),
    ({"type": "error", "message": "plain"}, "plain"),
    ({"type": "error", "error": ["odd"]}, '["odd"]'),
    (
        {"type": "error", "error": json.loads("[" * 600 + "]" * 600)},
        "the realtime server sent an error that is nested too deeply to be shown",
    ),
    (b"binary", "the realtime server sent a binary message, which no event is"),
    ("x" * ((16 << 20) + 1), "the realtime server sent an event that is too long"),
]


def test_an_error_of_the_server_ends_the_conversation(talk: Any, play: Any) -> None:
    async def story() -> None:
        async with talk() as here:
            for message, error in ERRORS:
                await here.start()
                if isinstance(message, dict):
                    await here.server.send(json.dumps(message).replace("KEY", here.key))
                else:
                    await here.server.send(message)
                assert await ended(here) == ("error", [error])
                assert await here.error(RealtimeConversationText("x")) == NOT_RUNNING

    play(story)


def test_the_end_of_a_connection_is_told(talk: Any, play: Any) -> None:
    async def story() -> None:
        async with talk() as here:
            for code in (1000, 1001):
                await here.start()
                await here.server.connection.close(code)
                assert await ended(here) == ("transport_closed", [])
            await here.start()
            await here.server.connection.close(1011, "bye")
            assert await ended(here) == ("error", ["the realtime server closed the connection: 1011 bye"])
            await here.start()
            here.server.connection.transport.abort()
            reason, (error,) = await ended(here)
            assert reason == "error"
            assert error.startswith("the connection to the realtime server was lost: ")

    play(story)


def test_a_request_is_not_lost_when_the_server_leaves(talk: Any, play: Any) -> None:
    async def story() -> None:
        async with talk(say("Done.")) as here:
            await here.start()
            await here.hand_off("do it")
            await here.server.connection.close()
            assert await here.closed() == "transport_closed"
            assert here.of(TurnStartedEvent) != []
            await here.thread.client.settled()

    play(story)


class Slow(OpHandler[Any]):
    """Keeps the next op of the thread waiting."""

    class SlowOp(Op):
        type = "slow"

    op = SlowOp

    async def handle(self, op: Any, thread: Any, id: str) -> None:  # noqa: A002  # the wire's name
        await asyncio.sleep(0.4)


def test_a_request_that_waits_for_the_thread_is_not_lost_either(talk: Any, play: Any) -> None:
    async def story() -> None:
        async with talk(say("Done."), plugin=Offer(name="slow", ops=[Slow()])) as here:
            await here.start()
            slow = asyncio.ensure_future(here.submit(Slow.SlowOp()))
            await asyncio.sleep(0)
            await here.hand_off("do it")
            await here.server.connection.close()
            assert await here.closed() == "transport_closed"
            await slow
            assert here.of(TurnStartedEvent) != []
            await here.thread.client.settled()

    play(story)


def test_a_server_that_reads_nothing_is_given_up(talk: Any, play: Any, monkeypatch: Any) -> None:
    async def story() -> None:
        async with talk() as here:
            await here.start()
            here.server.connection.transport.pause_reading()
            large = frame("A" * (1 << 16))
            while not here.of(RealtimeConversationClosedEvent):
                await here.submit(large)
                await asyncio.sleep(0.001)
            assert await ended(here) == ("error", ["the realtime server has not read for 0 s"])

    monkeypatch.setattr(conversation, "_UNREAD_S", 0.1)
    play(story)


def test_a_server_that_falls_silent_is_asked_and_then_given_up(talk: Any, play: Any, monkeypatch: Any) -> None:
    async def story() -> None:
        async with talk() as here:
            await here.start()
            await asyncio.sleep(0.5)  # it answers pings, which is enough
            assert here.of(RealtimeConversationClosedEvent) == []
            here.server.connection.protocol.recv_ping = lambda frame: None
            here.server.connection.transport.pause_reading()
            assert await ended(here) == ("error", ["the realtime server was silent for 0 s"])

    monkeypatch.setattr(conversation, "_SILENCE_S", 0.1)
    play(story)


def test_nonsense_of_the_server_is_skipped(talk: Any, play: Any) -> None:
    async def story() -> None:
        nonsense = [
            "not json",
            "[1]",
            "[" * 100_000,
            '{"type": 1}',
            '{"type": "unheard.of"}',
            '{"type": "error"}',
            '{"type": "session.updated", "session": 5}',
            '{"type": "response.output_audio.delta"}',
            '{"type": "conversation.item.done", "item": {"type": "function_call", "name": "background_agent"}}',
            '{"type": "conversation.item.added", "item": NaN}',
            f'{{"type": "conversation.item.added", "item": {"[" * 600}"\\ud83d"{"]" * 600}}}',
            '{"type": "response.output_text.delta", "delta": 5}',
        ]
        async with talk(say("Done.")) as here:
            await here.start()
            await here.server.send(*nonsense, '{"type": "response.output_text.delta", "delta": "half \\ud83d"}')
            assert await here.payload("OutputTranscriptDelta") == {"delta": "half \ufffd"}
            await here.hand_off("half \ud83d")
            assert (await here.payload("HandoffRequested"))["input_transcript"] == "half \ufffd"
            assert len(await here.server.items(3)) == 3
            assert len([text for text in here.thread.warnings if "not a JSON object" in text]) == 1
            kinds = {next(iter(event.payload)) for event in here.of(RealtimeConversationRealtimeEvent)}
            assert kinds == {"SessionUpdated", "OutputTranscriptDelta", "HandoffRequested"}

    play(story)


def test_audio_that_the_server_does_not_take_is_dropped_and_texts_are_refused(talk: Any, play: Any) -> None:
    async def story() -> None:
        async with talk() as here:
            here.server.greets = False
            await here.submit(RealtimeConversationStart("audio"))
            await here.thread.until(RealtimeConversationStartedEvent)
            here.server.connection.transport.pause_reading()
            large = frame("A" * (1 << 16))
            while not here.thread.warnings:
                await here.submit(large)
                await asyncio.sleep(0)
            await here.submit(large)
            for _ in range(64):
                await here.submit(RealtimeConversationText("x"))
            assert "does not keep up, so the text was not sent" in await here.error(RealtimeConversationText("x"))
            assert len([text for text in here.thread.warnings if "audio of the user is dropped" in text]) == 1
            await here.submit(RealtimeConversationClose())
            assert await here.closed() == "requested"

    play(story)


def test_a_start_can_be_closed_while_it_connects(talk: Any, play: Any) -> None:
    async def story() -> None:
        async with talk() as here:
            accepting, late = asyncio.Event(), asyncio.Event()

            async def hold(*_: Any) -> None:
                accepting.set()
                await late.wait()

            here.server.check_later = hold
            await here.submit(RealtimeConversationStart("audio"))
            async with asyncio.timeout(60):
                await accepting.wait()
            await here.thread.turn("meanwhile", say("Hi."))
            assert "<realtime_conversation>" not in str(here.thread.requests)
            await here.submit(RealtimeConversationText("too early"))
            await here.submit(RealtimeConversationClose())
            assert await here.closed() == "requested"
            assert here.of(RealtimeConversationStartedEvent) == []
            assert await here.error(RealtimeConversationText("x")) == NOT_RUNNING
            late.set()
            await asyncio.sleep(0.1)  # the server notices that nobody is there

    play(story)
