"""Compressed responses of model servers, for each API."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import socket
import sys
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from codex_framework import ItemDone, ModelError, ModelEvent, ModelProvider, ProviderInfo
from codex_framework.testing import CHAT, RESPONSES, model_request, say
from codex_lib_model_client import decoding
from codex_lib_model_client.decoding import decoded
from codex_plugin_chat.provider import ChatProvider
from codex_plugin_openai.provider import ResponsesProvider

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

WIRES: dict[str, tuple[Any, type[ModelProvider]]] = {
    "responses": (RESPONSES, ResponsesProvider),
    "chat": (CHAT, ChatProvider),
}
ENCODERS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zstd": zstd.compress}
MB = 1 << 20


def ask(
    wire: str, encoding: str, body: bytes, *, status: int = 200, step: int = 0, count: int = 1, headers: Any = None
) -> tuple[list[list[ModelEvent] | ModelError], list[bytes]]:
    """Ask a server that sends a body, in pieces of so many bytes. Return the answers, and the heads of the requests."""
    heads: list[bytes] = []
    head = f"HTTP/1.1 {status} X\r\ncontent-encoding: {encoding}\r\ncontent-length: {len(body)}\r\n\r\n".encode()

    def serve(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the client leaves, or the test is over
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as file:
                while lines := list(iter(file.readline, b"\r\n")) if file.peek() else []:
                    heads.append(b"".join(lines).lower())
                    file.read(int(heads[-1].partition(b"content-length:")[2].partition(b"\r")[0]))
                    connection.sendall(head)
                    for start in range(0, len(body), step or len(body)):
                        connection.sendall(body[start : start + (step or len(body))])

    async def run(port: int) -> list[list[ModelEvent] | ModelError]:
        info = ProviderInfo(
            id="mock",
            wire_api=wire,
            base_url=f"http://127.0.0.1:{port}/v1",
            request_max_retries=0,
            http_headers=headers or {},
        )
        client = WIRES[wire][1]().open(info, {})
        answers: list[list[ModelEvent] | ModelError] = []
        for _ in range(count):
            try:
                async with asyncio.timeout(60):
                    answers.append([event async for event in client.stream(model_request())])
            except ModelError as error:
                answers.append(error)
        await client.aclose()
        return answers

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        answers = asyncio.run(run(listener.getsockname()[1]))
        thread.join(60)
    return answers, heads


def stream(wire: str, text: str = "THE ANSWER") -> bytes:
    return b"".join(WIRES[wire][0].events(say(text), 1))


def texts(answer: list[ModelEvent] | ModelError) -> list[str]:
    assert isinstance(answer, list), answer
    return [part.text for event in answer if isinstance(event, ItemDone) for part in event.item.content]  # type: ignore[union-attr]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("encoding", ENCODERS)
@pytest.mark.parametrize("step", [0, 1, 7])
def test_a_compressed_response_is_read_as_it_arrives(wire: str, encoding: str, step: int) -> None:
    answers, heads = ask(wire, encoding, ENCODERS[encoding](stream(wire)), step=step, count=2)
    assert [texts(answer) for answer in answers] == [["THE ANSWER"]] * 2
    assert all(b"accept-encoding: zstd,gzip\r\n" in head for head in heads)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("encoding", ENCODERS)
def test_a_response_of_several_frames_is_read(wire: str, encoding: str) -> None:
    body = stream(wire)
    frames = b"".join(ENCODERS[encoding](body[start : start + 100]) for start in range(0, len(body), 100))
    assert texts(ask(wire, encoding, frames)[0][0]) == ["THE ANSWER"]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("encoding", ENCODERS)
def test_much_text_that_is_compressed_well_is_read(wire: str, encoding: str) -> None:
    text = "All work and no play. " * 50_000
    assert texts(ask(wire, encoding, ENCODERS[encoding](stream(wire, text)))[0][0]) == [text]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("encoding", ENCODERS)
def test_a_compressed_refusal_is_shown(wire: str, encoding: str) -> None:
    body = ENCODERS[encoding](json.dumps({"error": {"message": "prompt is too long"}}).encode())
    (error,), _ = ask(wire, encoding, body, status=400)
    assert isinstance(error, ModelError)
    assert error.info == "context_window_exceeded"


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("encoding", ENCODERS)
def test_a_body_that_is_cut_or_not_what_it_says_is_an_error_that_can_be_retried(wire: str, encoding: str) -> None:
    whole = ENCODERS[encoding](b": x\n\n" * 1_000)
    for body in (whole[:-5], b"no such thing", whole + b"rest"):
        (error,), _ = ask(wire, encoding, body)
        assert isinstance(error, ModelError)
        assert (error.slug, error.retryable) == ("stream-disconnected", True)
        assert "error decoding response body" in error.fact


@pytest.mark.parametrize("wire", ["responses", pytest.param("chat", marks=pytest.mark.slow)])
@pytest.mark.parametrize("encoding", ENCODERS)
def test_a_long_event_of_a_bomb_is_cut_off_and_takes_little_memory(wire: str, encoding: str) -> None:
    body = ENCODERS[encoding](b"data: " + b"x" * 8 * MB) * 12
    tracemalloc.start()
    (error,), _ = ask(wire, encoding, body)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(error, ModelError)
    assert "an event of more than 64 MiB" in error.fact
    assert peak < 200 * MB


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("encoding", ENCODERS)
def test_a_bomb_of_short_events_is_cut_off(wire: str, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "_SHORT", MB)
    (error,), _ = ask(wire, encoding, ENCODERS[encoding](b": " + b"x" * (MB - 4) + b"\n\n") * 8)
    assert isinstance(error, ModelError)
    assert "100 times as long" in error.fact


def test_other_work_goes_on_while_much_is_decompressed() -> None:
    ticks = 0

    async def run() -> None:
        class Body:
            status, phrase, headers = 200, "OK", {"content-encoding": "gzip"}

            async def read(self, within_s: float) -> bytes:
                return gzip.compress(b"x" * 8 * MB)

            async def aclose(self) -> None:
                pass

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(tick())
        answer = decoded(Body())
        for _ in range(64):
            assert len(await answer.read(1.0)) <= 1 << 16
        task.cancel()

    asyncio.run(run())
    assert ticks > 50


@pytest.mark.parametrize("wire", WIRES)
def test_a_window_that_is_longer_than_http_permits_is_refused(wire: str) -> None:
    options = {zstd.CompressionParameter.window_log: 27, zstd.CompressionParameter.content_size_flag: 0}
    compressor = zstd.ZstdCompressor(options=options)
    body = compressor.compress(stream(wire)) + compressor.flush(mode=zstd.ZstdCompressor.FLUSH_FRAME)
    (error,), _ = ask(wire, "zstd", body)
    assert isinstance(error, ModelError)


@pytest.mark.parametrize("wire", WIRES)
def test_a_table_may_ask_for_responses_as_they_are(wire: str) -> None:
    _, heads = ask(wire, "identity", stream(wire), headers={"Accept-Encoding": "identity"})
    assert b"accept-encoding: identity\r\n" in heads[0]
    assert b"zstd" not in heads[0]
