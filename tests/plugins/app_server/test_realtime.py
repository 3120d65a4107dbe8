"""Realtime conversations, for clients: what they ask for reaches the voice model, and what happens is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from websockets.asyncio.server import ServerConnection, serve

SAID = [
    {"type": "input_audio_buffer.speech_started", "item_id": "i1"},
    {"type": "conversation.item.input_audio_transcription.delta", "delta": "hel"},
    {"type": "conversation.item.input_audio_transcription.completed", "transcript": "hello"},
    {"type": "response.output_audio.delta", "delta": "AAAA", "item_id": "o1"},
    {"type": "response.output_audio_transcript.delta", "delta": "hi"},
    {"type": "response.output_audio_transcript.done", "transcript": "hi there"},
    {"type": "conversation.item.added", "item": {"id": "x1", "type": "message"}},
    {"type": "response.cancelled", "response": {"id": "r1"}},
]

SHOWN = [  # as by Codex 0.171
    ("started", {"realtimeSessionId": "S1", "version": "v2"}),
    ("itemAdded", {"item": {"type": "input_audio_buffer.speech_started", "item_id": "i1"}}),
    ("transcript/delta", {"role": "user", "delta": "hel"}),
    ("transcript/done", {"role": "user", "text": "hello"}),
    (
        "outputAudio/delta",
        {
            "audio": {
                "data": "AAAA",
                "sampleRate": 24000,
                "numChannels": 1,
                "samplesPerChannel": None,
                "itemId": "o1",
            }
        },
    ),
    ("transcript/delta", {"role": "assistant", "delta": "hi"}),
    ("transcript/done", {"role": "assistant", "text": "hi there"}),
    ("itemAdded", {"item": {"id": "x1", "type": "message"}}),
    ("itemAdded", {"item": {"type": "response.cancelled", "response_id": "r1"}}),
]


def test_a_conversation_is_held_and_told(home: Any, connected: Callable[..., Any]) -> None:
    heard: list[dict[str, Any]] = []
    home.serve()

    async def converse(socket: ServerConnection) -> None:
        async for text in socket:
            heard.append(json.loads(text))
            if heard[-1]["type"] == "session.update":
                await socket.send(json.dumps({"type": "session.updated", "session": {"id": "s"}}))
                for event in SAID:
                    await socket.send(json.dumps(event))

    async def run() -> None:
        async with serve(converse, "127.0.0.1", 0) as listening:
            port = next(iter(listening.sockets)).getsockname()[1]
            options = (
                f'experimental_realtime_ws_base_url="http://127.0.0.1:{port}"',
                'model_providers.here.experimental_bearer_token="key"',
            )
            async with connected(*options, experimentalApi=True) as client:
                thread_id = (await client.call("thread/start"))["thread"]["id"]

                async def ask(method: str, **params: Any) -> None:
                    assert await client.call(f"thread/realtime/{method}", threadId=thread_id, **params) == {}

                await ask("start", outputModality="audio", realtimeSessionId="S1", prompt=None)
                await client.until(
                    lambda each: each.get("params", {}).get("item", {}).get("type") == "response.cancelled"
                )
                realtime = [each for each in client.seen if each.get("method", "").startswith("thread/realtime/")]
                assert [(each["method"].removeprefix("thread/realtime/"), each["params"]) for each in realtime] == [
                    (method, {"threadId": thread_id, **params}) for method, params in SHOWN
                ]
                await ask("appendText", text="typed")
                await ask("appendText", text="be brief", role="developer")
                await ask("appendSpeech", text="spoken")
                await ask("appendAudio", audio={"data": "BBBB", "sampleRate": 24000, "numChannels": 1})
                async with asyncio.timeout(60):
                    while heard[-1]["type"] != "input_audio_buffer.append":
                        await asyncio.sleep(0.01)
                await ask("stop")
                closed = await client.notification("thread/realtime/closed")
                assert closed == {"threadId": thread_id, "reason": "requested"}

    asyncio.run(run())
    assert "You are Codex" not in str(heard[0]["session"]["instructions"])  # the client wants no instructions
    sent = json.dumps(heard)
    assert all(text in sent for text in ("[USER] typed", "be brief", "spoken", "BBBB"))


def test_faults_are_notifications_or_refused(home: Any, connected: Callable[..., Any]) -> None:
    home.serve()

    async def run() -> None:
        async with connected(experimentalApi=True) as client:
            voices = (await client.call("thread/realtime/listVoices"))["voices"]
            assert (voices["defaultV1"], voices["defaultV2"]) == ("cove", "marin")
            thread_id = (await client.call("thread/start"))["thread"]["id"]
            assert await client.call("thread/realtime/appendText", threadId=thread_id, text="x") == {}
            assert "conversation is not running" in (await client.notification("error"))["error"]["message"]
            params = {"threadId": thread_id, "outputModality": "text", "version": "v1"}
            assert await client.call("thread/realtime/start", **params) == {}
            assert "requires realtime v2" in (await client.notification("thread/realtime/error"))["message"]
            call = {"type": "existingCall", "callId": "c"}
            error = await client.fail(
                "thread/realtime/start", threadId=thread_id, outputModality="audio", transport=call
            )
            assert error["code"] == -32601

    asyncio.run(run())
