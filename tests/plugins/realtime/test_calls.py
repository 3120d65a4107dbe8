"""Realtime conversations over WebRTC: the client's offer, the server's answer, and the connection beside the call."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from websockets.datastructures import Headers
from websockets.http11 import Response

from codex_framework.testing import say
from codex_plugin_realtime import (
    RealtimeConversationClose,
    RealtimeConversationClosedEvent,
    RealtimeConversationSdpEvent,
    RealtimeConversationStartedEvent,
    connecting,
)

ANSWER = (201, {"location": "/v1/realtime/calls/rtc_abc?x=rtc_no"}, b"v=answer\r\n")
BOUNDARY = "codex-realtime-call-boundary"


def parts(body: bytes) -> tuple[str, dict[str, Any]]:
    """The offer and the session of a request in parts."""
    start, sdp, session, end = body.decode().split(f"--{BOUNDARY}")
    assert (start, end) == ("", "--\r\n")
    assert sdp.startswith('\r\nContent-Disposition: form-data; name="sdp"\r\nContent-Type: application/sdp\r\n\r\n')
    head, _, encoded = session.partition("\r\n\r\n")
    assert head == '\r\nContent-Disposition: form-data; name="session"\r\nContent-Type: application/json'
    return sdp.partition("\r\n\r\n")[2].removesuffix("\r\n"), json.loads(encoded)


@pytest.mark.parametrize("version", [None, "v2"])
def test_an_offer_is_answered_and_the_call_is_joined(talk: Any, play: Any, version: str | None) -> None:
    async def story() -> None:
        async with talk(say("Done."), config=['model_providers.scripted.query_params={tenant="a b"}']) as here:
            here.server.answers.append(ANSWER)
            await here.offer("v=offer\r\na=1", version=version, prompt="Be nice.", model="mine")
            assert (await here.thread.until(RealtimeConversationStartedEvent)).version == (version or "v1")
            assert await here.thread.until(RealtimeConversationSdpEvent) == RealtimeConversationSdpEvent("v=answer\r\n")
            update = await here.server.next("session.update")
            ((path, headers, body),) = here.server.posted
            sdp, session = parts(body)
            assert sdp == "v=offer\r\na=1"
            assert session == {**update["session"], "model": "mine"}
            assert headers["content-type"] == f"multipart/form-data; boundary={BOUNDARY}"
            assert headers["authorization"] == f"Bearer {here.key}"
            joined, sideband = here.server.requests[0]
            assert sideband["authorization"] == f"Bearer {here.key}"
            if version is None:
                assert path == "/v1/realtime/calls?intent=quicksilver&architecture=avas&tenant=a+b"
                assert joined == "/v1/realtime?intent=quicksilver&tenant=a+b&call_id=rtc_abc"
                assert headers["openai-alpha"] == sideband["openai-alpha"] == "quicksilver=v1"
            else:
                assert path == "/v1/realtime/calls?tenant=a+b"
                assert joined == "/v1/realtime?tenant=a+b&call_id=rtc_abc"
                assert "openai-alpha" not in headers
            await here.hand_off("go", version=version or "v1")
            assert "Done." in (await here.server.items(1))[0]

    play(story)


def test_the_servers_of_chatgpt_get_an_offer_as_json(talk: Any, play: Any) -> None:
    async def story() -> None:
        async with talk(calls="/backend-api/codex") as here:
            here.server.answers.append(ANSWER)
            await here.offer()
            update = await here.server.next("session.update")
            ((path, headers, body),) = here.server.posted
            assert path.startswith("/backend-api/codex/realtime/calls?")
            assert headers["content-type"] == "application/json"
            session = {**update["session"], "model": "gpt-realtime-1.5"}
            assert json.loads(body) == {"sdp": "v=offer", "session": session}

    play(story)


USELESS: list[tuple[Any, str]] = [
    ((201, {}, b"v=0"), "the realtime server's answer to the SDP offer names no call in the header `location`."),
    ((201, {"location": "/calls/rtc_"}, b"v=0"), "names no call"),
    ((201, {"location": "/calls/rtc_a"}, b"\xff"), "answer to the SDP offer is not UTF-8."),
    ((201, {"location": "/calls/rtc_a"}, b"v" * 262_145), "answer to the SDP offer is longer than 262144 bytes."),
    ((201, {"location": "/calls/rtc_a", "content-length": "10"}, b"v"), "answer to the SDP offer broke off."),
    ((401, {}, b'{"error": {"message": "bad KEY"}}'), "bad (hidden)"),
    ((200, {}, b"<html>"), "names no call"),
]

UNFIT = [
    (" ", "the SDP offer is empty."),
    (f"v=0\r\n--{BOUNDARY}\r\n", f"the SDP offer contains {BOUNDARY!r}"),
    ("v" * 262_145, "the SDP offer is longer than 262144 bytes."),
]


def test_offers_and_answers_of_no_use_are_told(talk: Any, play: Any) -> None:
    async def story() -> None:
        async with talk() as here:
            for sdp, told in UNFIT:
                await here.offer(sdp)
                assert told in await here.payload("Error")
            assert here.server.posted == []
            for (code, headers, body), told in USELESS:
                here.server.answers.append((code, headers, body.replace(b"KEY", here.key.encode())))
                await here.offer()
                assert told in await here.payload("Error")
            assert here.of(RealtimeConversationStartedEvent) == []
            assert here.server.requests == []

    play(story)


def test_transcription_needs_a_websocket(talk: Any, play: Any) -> None:
    async def story() -> None:
        async with talk(config=['realtime.type="transcription"']) as here:
            await here.offer()
            assert "a session that only transcribes cannot use WebRTC" in await here.payload("Error")
            session = await here.start()
            assert session == {
                "type": "transcription",
                "audio": {
                    "input": {
                        "format": {"type": "audio/pcm", "rate": 24000},
                        "transcription": {"model": "gpt-4o-mini-transcribe"},
                    }
                },
            }

    play(story)


def status(number: int) -> Response:
    return Response(number, "X", Headers([("content-length", "0"), ("connection", "close")]), b"")


def test_joining_a_call_is_tried_again_unless_the_server_refuses_for_good(
    talk: Any, play: Any, monkeypatch: Any
) -> None:
    async def story() -> None:
        async with talk() as here:
            here.server.answers += [ANSWER, ANSWER]
            here.server.refusals += [status(404), status(503)]
            await here.offer()
            await here.server.next("session.update")
            assert len(here.server.requests) == 3
            await here.submit(RealtimeConversationClose())
            await here.closed()
            here.server.refusals += [status(403)]
            await here.offer()
            assert "403" in await here.payload("Error")
            assert await here.closed() == "error"
            assert len(here.server.requests) == 4

    monkeypatch.setattr(connecting, "_FIRST_DELAY_S", 0.01)
    play(story)


def test_a_call_that_cannot_be_joined_ends_after_the_last_retry(talk: Any, play: Any, monkeypatch: Any) -> None:
    async def story() -> None:
        async with talk(config=["model_providers.scripted.request_max_retries=1"]) as here:
            here.server.answers.append(ANSWER)
            here.server.refusals += [status(503)] * 3
            await here.offer()
            assert "503" in await here.payload("Error")
            assert await here.closed() == "error"
            assert (len(here.server.requests), len(here.of(RealtimeConversationClosedEvent))) == (2, 1)

    monkeypatch.setattr(connecting, "_FIRST_DELAY_S", 0.01)
    play(story)


def test_a_call_can_be_closed_while_it_is_joined(talk: Any, play: Any) -> None:
    async def story() -> None:
        async with talk() as here:
            here.server.answers.append(ANSWER)
            here.server.refusals += [status(503)] * 9
            await here.offer()
            await here.thread.until(RealtimeConversationSdpEvent)
            await here.submit(RealtimeConversationClose())
            assert await here.closed() == "requested"
            asked = len(here.server.requests)
            await asyncio.sleep(0.5)
            assert len(here.server.requests) == asked

    play(story)
