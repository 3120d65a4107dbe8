"""Network gates that fail or hang at their end: they are reported, and the command's result stands."""

from __future__ import annotations

import asyncio

import pytest

from codex_framework import NetworkProxy, Sandbox, SandboxReport, Status, ToolContext, tool
from codex_framework.commands import gates
from codex_framework.commands.process.spawn import Unconfined
from codex_framework.testing import call, say

CONFIG = """default_permissions = "net"
[permissions.net]
extends = ":workspace"
[permissions.net.network]
enabled = true
[permissions.net.network.domains]
"known.example" = "allow"
"""


class Gate:
    """A gate without a network, which ends as it is told."""

    blocked = ()

    def __init__(self, end):
        self._end = end

    async def aclose(self):
        await self._end()


class Mute(Gate):
    @property
    def blocked(self):
        raise OSError("nothing was written down")


class Proxy(NetworkProxy):
    name = "proxy"

    def __init__(self, gate):
        self._gate = gate

    def gate(self, rules, ask=None):
        return self._gate


class Open(Sandbox):
    """Runs commands as they are."""

    name = "open"
    env: dict[str, str] = {}  # noqa: RUF012  # never changed

    def probe(self):
        return SandboxReport(available=True)

    def confine(self, access, cwd):
        return self

    async def warm(self):
        pass

    async def start(self, launch):
        return await Unconfined().start(launch)


@tool
async def greet(context: ToolContext) -> str:
    """Greet with a command, without asking for anything."""
    return (await context.run(["echo", "hello"])).stdout


async def fail():
    raise OSError("no disk")


async def hang():
    await asyncio.sleep(3600)


async def fine():
    pass


@pytest.mark.parametrize(
    ("gate", "fact"),
    [
        (Gate(fine), None),
        (Gate(fail), "the network gate Gate failed at its end: OSError: no disk"),
        (Gate(hang), "the network gate Gate did not end within 0.1 s"),
        (Mute(fine), "the network gate Mute failed at its end: OSError: nothing was written down"),
    ],
    ids=["fine", "fails", "hangs", "mute"],
)
def test_the_result_of_a_command_stands_whatever_its_gate_does(thread_with, monkeypatch, gate, fact):
    monkeypatch.setattr(gates, "CLOSE_S", 0.1)

    async def story():
        offers = {"tools": [greet], "sandboxes": [Open()], "network_proxies": [Proxy(gate)], "config": CONFIG}
        async with thread_with(**offers) as thread:
            result = await thread.turn("Hi!", call("greet"), say("Go on."))
            return result, thread.requests[-1].prompt.items[-1], list(thread.warnings)

    result, output, warnings = asyncio.run(asyncio.wait_for(story(), 20))
    assert result.status is Status.COMPLETED
    assert "hello" in str(output)
    assert [text for text in warnings if "gate" in text and fact and text.startswith(fact)] or fact is None


def test_a_gate_that_does_not_say_what_it_blocked_has_blocked_something():
    told = []

    async def ends(gate):
        return await gates.end_gate(gate, told.append)

    assert asyncio.run(ends(Mute(fine))) is True
    assert asyncio.run(ends(Gate(fine))) is False
    assert asyncio.run(ends(Gate(fail))) is False
    assert len(told) == 2
