"""Messages between processes."""

from __future__ import annotations

import asyncio
import socket

import pytest

from codex_framework.contract.roles.launchers import JobResult
from codex_framework.contract.roles.outcomes import Status
from codex_plugin_launchers import channel
from codex_plugin_launchers.channel import Channel
from codex_plugin_launchers.pool_worker import shortened


def receive(data: bytes):
    """Return what a channel makes of bytes."""

    async def run():
        ours, theirs = socket.socketpair()
        with theirs:
            theirs.sendall(data)
        reader = await Channel.open(ours)
        try:
            return await reader.receive()
        finally:
            await reader.aclose()

    return asyncio.run(run())


@pytest.mark.parametrize(
    "text", [b"", b"[]", b'"a"', b"{", b"\xff", b"cos\nsystem\n(S'true'\ntR.", b"[" * 100_000], ids=range(7)
)
def test_what_is_no_message_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011  # of json, too
        receive(len(text).to_bytes(4) + text)


def test_a_message_that_claims_to_be_too_long_is_not_waited_for():
    with pytest.raises(ValueError, match="bytes"):
        receive(b"\xff\xff\xff\xff{}")


@pytest.mark.parametrize("data", [b"", b"\0\0", b"\0\0\0\5{}"])
def test_a_message_that_is_cut_off_is_the_end(data):
    assert receive(data) is None


def test_a_result_that_is_too_long_becomes_a_failure(monkeypatch):
    monkeypatch.setattr(channel, "LONGEST", 1000)
    result = JobResult(key="k", thread_id="t", status=Status.COMPLETED, message="x" * 2000)

    async def run():
        ours, theirs = socket.socketpair()
        with theirs:
            writer = await Channel.open(ours)
            try:
                return writer.send({"value": result.message}), writer.send({"value": "short"})
            finally:
                await writer.aclose()

    assert asyncio.run(run()) == (False, True)
    short = shortened(result)
    assert (short.status, short.message, short.failure.slug) == (Status.FAILED, None, "result-too-large")
