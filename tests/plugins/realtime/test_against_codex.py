"""Everything that is sent to the realtime server, beside what Codex 0.169 sends in the same conversation."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from codex_framework.contract.protocol.events import UserMessageEvent
from codex_framework.testing import call, say
from codex_framework.testing.server import ResponsesServer
from codex_plugin_realtime import (
    RealtimeAudioFrame,
    RealtimeConversationAudio,
    RealtimeConversationClose,
    RealtimeConversationSpeech,
    RealtimeConversationStart,
    RealtimeConversationText,
)

PCM = {"type": "audio/pcm", "rate": 24000}
LONG = " ".join(f"w{number:04}" for number in range(2000))
REPLIES = [say("Looking.", phase="commentary") + call("exec_command", cmd="true"), say(LONG), say("Typed.")]
AUDIO = "A" * 6400

SESSIONS = {
    "v1": {
        "type": "quicksilver",
        "instructions": "Be nice.\n\nContext.",
        "audio": {"input": {"format": PCM}, "output": {"voice": "cove"}},
    },
    "v2": {
        "type": "realtime",
        "instructions": "Be nice.\n\nContext.",
        "output_modalities": ["audio"],
        "audio": {
            "input": {
                "format": PCM,
                "noise_reduction": {"type": "near_field"},
                "transcription": {"model": "gpt-4o-mini-transcribe"},
                "turn_detection": {
                    "type": "server_vad",
                    "interrupt_response": True,
                    "create_response": True,
                    "silence_duration_ms": 500,
                },
            },
            "output": {"format": PCM, "voice": "marin"},
        },
        "tools": [
            {
                "type": "function",
                "name": "background_agent",
                "description": "...",
                "parameters": {
                    "type": "object",
                    "properties": {"prompt": {"type": "string", "description": "..."}},
                    "required": ["prompt"],
                    "additionalProperties": False,
                },
            },
            {
                "type": "function",
                "name": "remain_silent",
                "description": "...",
                "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
            },
        ],
        "tool_choice": "auto",
    },
}

PATHS = {"v1": "/v1/realtime?intent=quicksilver&model=gpt-realtime-1.5", "v2": "/v1/realtime?model=gpt-realtime-1.5"}
HEADERS = {"host", "connection", "upgrade", "sec-websocket-version", "sec-websocket-key"} | {
    "user-agent",
    "originator",
    "thread-id",
    "session-id",
    "authorization",
    "x-session-id",
}

DELEGATION = """\
<realtime_delegation>
  <input>find &lt;it&gt; &amp; go</input>
  <transcript_delta>user: please
assistant: sure
user: find &lt;it&gt; &amp; go</transcript_delta>
</realtime_delegation>"""


def item(text: str, role: str = "user", kind: str = "input_text") -> dict[str, Any]:
    message = {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
    return {"type": "conversation.item.create", "item": message}


def output(call_id: str, text: str = "...") -> dict[str, Any]:
    done = {"type": "function_call_output", "call_id": call_id, "output": text}
    return {"type": "conversation.item.create", "item": done}


def append(handoff: str, text: str) -> dict[str, Any]:
    return {"type": "conversation.handoff.append", "handoff_id": handoff, "output_text": text}


CREATE = {"type": "response.create"}
FINAL = '"Agent Final Message":\n\n'

SENT = {
    "v1": [
        item("hello"),
        item("note", "developer"),
        item("mine", "assistant", "output_text"),
        {"type": "input_audio_buffer.append", "audio": "AAAA"},
        append("codex", "say this"),
        append("ho_1", "Looking."),
        append("ho_1", "LONG"),
        append("codex", f"{FINAL}Typed."),
    ],
    "v2": [
        item("[USER] hello"),
        item("note", "developer"),
        item("mine", "assistant", "output_text"),
        {"type": "input_audio_buffer.append", "audio": "AAAA"},
        item("[BACKEND] say this"),
        CREATE,
        item("[BACKEND] Looking."),
        item("LONG"),
        output("ho_1"),
        CREATE,
        output("call_2", ""),
        {"type": "conversation.item.truncate", "item_id": "spoken", "content_index": 0, "audio_end_ms": 200},
        item("[BACKEND] Typed."),
        CREATE,
    ],
}


class Client:
    """What is done in the conversation, by whichever program."""

    def __init__(self, do: Callable[..., Awaitable[None]]) -> None:
        self.do = do


async def converse(server: Any, client: Client, version: str) -> list[dict[str, Any]]:
    """Hold the conversation. Return what the server got, without the first message."""
    got: list[dict[str, Any]] = []

    async def take(count: int) -> None:
        got.extend([await server.next() for _ in range(count)])

    two = version == "v2"
    for name, values in (
        ("text", {"text": "hello"}),
        ("text", {"text": "note", "role": "developer"}),
        ("text", {"text": "mine", "role": "assistant"}),
        ("audio", {"data": "AAAA"}),
        ("speech", {"text": "say this"}),
    ):
        await client.do(name, **values)
        await take(2 if two and name == "speech" else 1)
    await server.send({"type": "response.created", "response": {"id": "r"}}, {"type": "response.done"})
    await server.send(
        {"type": "conversation.item.input_audio_transcription.delta", "delta": "please"},
        {"type": "response.output_audio_transcript.delta", "delta": "sure"},
    )
    await hand_off(server, version)
    await take(4 if two else 2)
    await server.send({"type": "response.created", "response": {"id": "r"}}, {"type": "response.done"})
    if two:
        silent = {"type": "function_call", "name": "remain_silent", "call_id": "call_2", "id": "i2", "arguments": "{}"}
        spoken = {"type": "response.output_audio.delta", "delta": AUDIO, "item_id": "spoken"}
        await server.send({"type": "conversation.item.done", "item": silent}, spoken, spoken)
        await server.send({"type": "input_audio_buffer.speech_started", "item_id": "spoken"})
        await take(2)
    await client.do("turn", text="typed")
    await take(2 if two else 1)
    await client.do("close")
    return got


async def hand_off(server: Any, version: str) -> None:
    text = "find <it> & go"
    if version == "v1":
        fields = {"handoff_id": "ho_1", "item_id": "i1", "input_transcript": text}
        await server.send({"type": "conversation.handoff.requested", **fields})
        return
    done = {"type": "function_call", "name": "background_agent", "call_id": "ho_1", "id": "i1"}
    arguments = json.dumps({"prompt": text})
    await server.send({"type": "conversation.item.done", "item": {**done, "arguments": arguments}})


def shape(message: Any) -> Any:
    """A message without the words that are each program's own, and with its long text named."""
    if isinstance(message, dict):
        return {
            key: "..."
            if key == "description" or (key == "output" and value and isinstance(value, str))
            else shape(value)
            for key, value in message.items()
        }
    if isinstance(message, list):
        return [shape(each) for each in message]
    if isinstance(message, str) and "tokens truncated…" in message:
        text = message.removeprefix(FINAL)
        assert len(text.encode()) == 3999
        start, _, rest = text.removeprefix("[BACKEND] ").partition("…")
        assert LONG.startswith(start)
        assert LONG.endswith(rest.partition("…")[2])
        return "LONG"
    return message


def check(server: Any, session: Any, sent: list[Any], version: str) -> None:
    ((path, headers),) = server.requests
    assert path == PATHS[version]
    named = HEADERS | ({"openai-alpha"} if version == "v1" else set())
    assert set(headers) - {"sec-websocket-extensions"} == named
    assert headers["authorization"].startswith("Bearer ")
    assert headers["thread-id"] == headers["session-id"]
    assert headers["x-session-id"] not in ("", headers["thread-id"])
    assert shape(session) == {"type": "session.update", "session": SESSIONS[version]}
    assert [shape(message) for message in sent] == SENT[version]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_conversation_here(talk: Any, play: Any, version: str) -> None:
    async def story() -> None:
        async with talk(*REPLIES, context="Context.") as here:

            async def do(name: str, **values: Any) -> None:
                match name:
                    case "text":
                        await here.submit(RealtimeConversationText(**values))
                    case "audio":
                        frame = RealtimeAudioFrame(sample_rate=24000, num_channels=1, **values)
                        await here.submit(RealtimeConversationAudio(frame))
                    case "speech":
                        await here.submit(RealtimeConversationSpeech(**values))
                    case "turn":
                        await here.thread.client.settled()
                        await here.thread.turn(values["text"])
                        mirrored = await here.server.next()  # which Codex 0.169 does not
                        assert mirrored == item(f"{'' if version == 'v1' else '[USER] '}typed")
                    case _:
                        await here.submit(RealtimeConversationClose())

            await here.submit(RealtimeConversationStart("audio", version=version, prompt="Be nice."))
            session = await here.server.next()
            sent = await converse(here.server, Client(do), version)
            check(here.server, session, sent, version)
            assert here.of(UserMessageEvent)[0].message == DELEGATION

    play(story)


class AppServer:
    """A thread of the real Codex."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._number = 0
        self.thread_id = ""
        self.turns = 0

    async def ask(self, method: str, **params: Any) -> Any:
        self._number += 1
        await self._write({"id": self._number, "method": method, "params": params})
        while True:
            message = await self.read()
            if message.get("id") == self._number and "method" not in message:
                return message["result"]

    async def read(self) -> Any:
        assert self._process.stdout is not None
        message = json.loads(await self._process.stdout.readline())
        self.turns += message.get("method") == "turn/completed"
        return message

    async def until_turns(self, count: int) -> None:
        while self.turns < count:
            await self.read()

    async def _write(self, message: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        await self._process.stdin.drain()

    async def do(self, name: str, **values: Any) -> None:
        match name:
            case "text":
                await self.ask("thread/realtime/appendText", threadId=self.thread_id, **values)
            case "audio":
                audio = {"sampleRate": 24000, "numChannels": 1, **values}
                await self.ask("thread/realtime/appendAudio", threadId=self.thread_id, audio=audio)
            case "speech":
                await self.ask("thread/realtime/appendSpeech", threadId=self.thread_id, **values)
            case "turn":
                await self.until_turns(1)
                text = [{"type": "text", "text": values["text"]}]
                await self.ask("turn/start", threadId=self.thread_id, input=text)
            case _:
                await self.ask("thread/realtime/stop", threadId=self.thread_id)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_conversation_of_codex(server: Any, play: Any, tmp_path: Path, version: str, codex_binary: str) -> None:

    async def story() -> None:
        with ResponsesServer(REPLIES) as model:
            async with server() as running:
                provider = f'{{name="mock",base_url="{model.url}",wire_api="responses",env_key="MOCK_KEY"}}'
                settings = {
                    "model_providers.mock": provider,
                    "model_provider": '"mock"',
                    "model": '"gpt-5.5"',
                    "features.realtime_conversation": "true",
                    "experimental_realtime_ws_base_url": f'"{running.url}"',
                    "experimental_realtime_ws_startup_context": '"Context."',
                }
                options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
                process = await asyncio.create_subprocess_exec(
                    codex_binary,
                    *options,
                    "app-server",
                    cwd=tmp_path,
                    env={
                        "HOME": str(tmp_path),
                        "CODEX_HOME": str(tmp_path),
                        "PATH": os.environ["PATH"],
                        "MOCK_KEY": "k",
                    },
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.DEVNULL,
                    limit=1 << 24,
                )
                try:
                    app = AppServer(process)
                    client = {"name": "tests", "title": "Tests", "version": "1"}
                    await app.ask("initialize", clientInfo=client, capabilities={"experimentalApi": True})
                    made = await app.ask("thread/start", approvalPolicy="never", sandbox="danger-full-access")
                    app.thread_id = made["thread"]["id"]
                    start = {
                        "threadId": app.thread_id,
                        "outputModality": "audio",
                        "version": version,
                        "prompt": "Be nice.",
                    }
                    await app.ask("thread/realtime/start", **start)
                    session = await running.next()
                    sent = await converse(running, Client(app.do), version)
                    check(running, session, sent, version)
                    asked = [each for each in model.requests[0].json["input"] if each.get("role") == "user"]
                    assert asked[-1]["content"][0]["text"] == DELEGATION
                finally:
                    with suppress(ProcessLookupError):
                        process.terminate()
                    await process.wait()

    play(story)
