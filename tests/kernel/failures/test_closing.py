"""Rows ``aclose`` of a model client, a network proxy and a sandbox: one that hangs or fails keeps nothing else open."""

from __future__ import annotations

import asyncio

import pytest

from codex_framework import NetworkProxy, Sandbox, SandboxReport, tool
from codex_framework.commands.process.spawn import Unconfined
from codex_framework.testing import Offer, ScriptedModel, say


async def hang():
    await asyncio.sleep(3600)


async def hang_on():
    end = asyncio.get_running_loop().time() + 1.5
    while (left := end - asyncio.get_running_loop().time()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            continue


async def fail():
    raise OSError("no disk")


async def exit_():
    raise SystemExit(3)


async def cancel_itself():
    raise asyncio.CancelledError


def plain():
    return None


class Closing:
    """An object whose ``aclose`` is a function of the test."""

    def __init__(self, log, close=None):
        self.log = log
        self.close = close
        self.close_timeout_s = 0.3

    def aclose(self):
        self.log.append(type(self).__name__)
        return done() if self.close is None else self.close()


async def done():
    pass


class Model(Closing, ScriptedModel):
    def __init__(self, *given):
        Closing.__init__(self, *given)
        ScriptedModel.__init__(self, [say("Hello.")], name="closing")


class Proxy(Closing, NetworkProxy):
    name = "proxy"

    def gate(self, rules, ask=None):
        raise AssertionError


class Walls(Closing, Sandbox):
    name = "walls"

    def probe(self):
        return SandboxReport(available=True)

    def confine(self, access, cwd):
        raise AssertionError


class Jail(Sandbox):
    """Runs commands as they are, and remembers which of them had ended when it was closed."""

    name = "jail"

    def __init__(self):
        self.env = {"IN_JAIL": "1"}
        self.children = []
        self.ended = None

    def probe(self):
        return SandboxReport(available=True)

    def confine(self, access, cwd):
        return self

    async def warm(self):
        pass

    async def start(self, launch):
        child = await Unconfined().start(launch)
        self.children.append(asyncio.ensure_future(child.wait()))
        return child

    async def aclose(self):
        await asyncio.sleep(0)
        self.ended = [child.done() for child in self.children]


@tool
def look() -> str:
    """Look around: without any tool, nothing is prepared for commands."""
    return "nothing"


def test_login_shells_have_ended_when_their_sandbox_is_closed(make_kernel, tmp_path):
    (tmp_path / ".bash_profile").write_text("sleep 60\n")
    jail = Jail()

    async def story():
        config = ['sandbox_mode="workspace-write"']
        env = {"HOME": str(tmp_path), "SHELL": "/bin/bash"}
        offer = Offer(sandboxes=[jail], tools=[look])
        slow = say("Hello.").evolve(delay_s=0.5)
        async with make_kernel([slow], plugins=[offer], entry_points=(), config=config, env=env) as kernel:
            await kernel.run_turn("Hi!")

    asyncio.run(asyncio.wait_for(story(), 30))
    assert jail.ended == [True]


NOUNS = {Model: "model provider 'closing'", Proxy: "network proxy 'proxy'", Walls: "sandbox 'walls'"}
ROLES = {Model: "providers", Proxy: "network_proxies", Walls: "sandboxes"}


@pytest.mark.thorough
@pytest.mark.parametrize("bad", NOUNS)
@pytest.mark.parametrize(
    ("close", "fact"),
    [
        (hang, "did not end within 0.3 s ("),
        (hang_on, "did not end within 0.3 s ("),
        (fail, "failed: OSError: no disk ("),
        (exit_, "failed: SystemExit: 3 ("),
        (cancel_itself, "failed: it was cancelled without an interrupt ("),
        (plain, "failed: aclose is not async ("),
    ],
)
def test_what_cannot_be_closed_is_told_and_the_rest_is_closed(make_kernel, bad, close, fact):
    log = []
    fine = {ROLES[kind]: [kind(log)] for kind in NOUNS if kind is not bad}
    offers = [Offer(name="careless", **{ROLES[bad]: [bad(log, close)]}), Offer(name="fine", **fine)]

    async def story():
        config = ['model_provider="closing"']
        async with make_kernel([], plugins=offers, entry_points=(), config=config) as kernel:
            run = await kernel.run_turn("Hi!")
        await kernel.aclose()
        return run.final_message, kernel.registry.warnings

    message, warnings = asyncio.run(asyncio.wait_for(story(), 30))
    assert message == "Hello."
    assert set(log) == {kind.__name__ for kind in NOUNS}
    (warning,) = (text for text in warnings if "aclose" in text)
    assert f"{NOUNS[bad]} of plugin 'careless': aclose() {fact}" in warning
    assert __file__ in warning
    assert warning.endswith('disable it with `[framework] plugins.disabled = ["careless"]`.')
