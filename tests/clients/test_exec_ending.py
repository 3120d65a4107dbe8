"""The end of ``exec`` although a plugin leaves something running."""

from __future__ import annotations

import subprocess
import time
from typing import Any

import pytest

from codex_framework.cli.shutdown import GRACE_S
from codex_framework.testing.replies import call, fault, reasoning, reply, say

PLUGIN = """
import asyncio, multiprocessing, subprocess, threading, time
from concurrent.futures import ThreadPoolExecutor
from codex_framework import hookimpl, tool

async def stubborn():
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass

async def endless():
    while True:
        try:
            yield
        finally:
            await asyncio.sleep(60)

KEPT = []

@tool
async def leave(what: str) -> str:
    "Leave something running."
    if what == "thread":
        threading.Thread(target=time.sleep, args=(60,), name="sleeper").start()
        threading.Thread(target=time.sleep, args=(60,), name="not waited for", daemon=True).start()
    elif what == "executor":
        KEPT.append(ThreadPoolExecutor(1))
        KEPT[0].submit(time.sleep, 60)
    elif what == "loop executor":
        asyncio.get_running_loop().run_in_executor(None, time.sleep, 60)
    elif what == "child":
        KEPT.append(subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    elif what == "process":
        child = multiprocessing.get_context("fork").Process(target=subprocess.run, args=(["sleep", "3"],))
        child.start()
    elif what == "task":
        KEPT.append(asyncio.ensure_future(stubborn()))
    elif what == "generator":
        KEPT.append(endless())
        await anext(KEPT[0])
    return "left"

@hookimpl
def codex_tools():
    return [leave]
"""


THREAD = "thread 'sleeper' was"
TASK = "task stubborn at {plugin}:9 was"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("what", "told", "fails"),
    [
        ("thread", THREAD, True),
        ("task", TASK, False),
        pytest.param("thread", THREAD, False, marks=pytest.mark.thorough),
        pytest.param("task", TASK, True, marks=pytest.mark.thorough),
        pytest.param("executor", "thread 'ThreadPoolExecutor", False, marks=pytest.mark.thorough),
        pytest.param("loop executor", "thread 'asyncio_0'", False, marks=pytest.mark.thorough),
        pytest.param("process", "process 'ForkProcess", False, marks=pytest.mark.thorough),
        pytest.param("generator", "", False, marks=pytest.mark.thorough),
        pytest.param("child", "", False, marks=pytest.mark.thorough),
    ],
)
def test_a_run_ends_whatever_a_plugin_has_left(cli: Any, what: str, told: str, fails: bool) -> None:
    plugin = cli.work / "leaving.py"
    plugin.write_text(PLUGIN)
    answer = fault(400, body="no") if fails else say("Done.")
    cli.serve(call("leave", what=what), answer)
    with (cli.work / "out").open("wb") as out, (cli.work / "err").open("wb") as err:  # not held open by a child
        process = cli.start("exec", "--json", "--plugin", str(plugin), "go", stdout=out, stderr=err)
        began = time.monotonic()
        try:
            assert process.wait(GRACE_S * 2 + 10) == int(fails)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        assert time.monotonic() - began < 50, "what was left was waited for"
    lines = (cli.work / "out").read_text().splitlines()
    assert ("turn.failed" if fails else "turn.completed") in lines[-1]
    warned = (cli.work / "err").read_text()
    assert told.format(plugin=plugin) in warned
    assert "Traceback" not in warned
    assert "not waited for" not in warned
    (rollout,) = cli.rollouts()
    assert "task_complete" in rollout.read_text().splitlines()[-1]


def test_a_run_with_nothing_left_ends_without_the_grace_and_without_a_word(cli: Any) -> None:
    cli.serve(say("Done."))
    ran = cli.exec("hi")
    assert (ran.status, ran.out) == (0, "Done.\n")
    assert "abandoned" not in ran.err


CLOSING = """
import asyncio
from codex_framework import NetworkProxy, Sandbox, SandboxReport, hookimpl

async def hang(*_):
    await asyncio.sleep(3600)

class Client:
    close_timeout_s = 0.2
    aclose = hang

    def __init__(self, inner):
        self.stream = inner.stream

class Wrapping:
    name = "wrapping"

    def client(self, client, provider):
        return Client(client)

class Proxy(NetworkProxy):
    name = "proxy"
    close_timeout_s = 0.2
    aclose = hang
    def gate(self, rules, ask=None): pass

class Walls(Sandbox):
    name = "walls"
    close_timeout_s = 0.2
    aclose = hang
    def probe(self): return SandboxReport(available=False)
    def confine(self, access, cwd): pass

@hookimpl
def codex_interceptors():
    return [Wrapping()]

@hookimpl
def codex_network_proxies():
    return [Proxy()]

@hookimpl
def codex_sandboxes():
    return [Walls()]
"""


def test_a_run_ends_although_what_a_plugin_offers_hangs_when_it_is_closed(cli: Any) -> None:
    plugin = cli.work / "closing.py"
    plugin.write_text(CLOSING)
    cli.serve(say("Done."))
    ran = cli.exec("--plugin", str(plugin), "hi")
    assert (ran.status, ran.out) == (0, "Done.\n")
    late = f"aclose() did not end within 0.2 s ({plugin}, line 5)"
    for what in ("network proxy 'proxy' of plugin 'closing'", "sandbox 'walls' of plugin 'closing'", "model provider"):
        (line,) = (line for line in ran.err.splitlines() if what in line)
        assert late in line
        assert "disable it with `[framework] plugins.disabled" in line


@pytest.mark.parametrize("argv", [(), ("--json",)])
@pytest.mark.parametrize("response", [reply(), say(""), say(" \n"), reasoning("thought")])
def test_a_turn_without_an_answer_is_an_error(cli: Any, argv: tuple[str, ...], response: Any) -> None:
    cli.serve(response)
    ran = cli.exec(*argv, "hi")
    assert ran.status == 1
    assert "the turn ended without an answer of the model" in ran.err
