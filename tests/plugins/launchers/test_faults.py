"""Workers that die, hang or cannot start, and drivers that are gone. Everything else goes on."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework.contract.errors import CodexError
from codex_framework.contract.protocol.events import Request
from codex_framework.contract.protocol.policies import Decision, ReviewDecision
from codex_framework.contract.roles.launchers import Job, LaunchError
from codex_framework.contract.roles.outcomes import Limits, Status
from codex_framework.testing import call, say
from codex_lib_launch.encoding import event_from_json, versions
from codex_lib_launch.jobs import LocalJob
from codex_plugin_launchers.channel import Channel
from codex_plugin_launchers.pool import _WorkerLost, _WorkerProcess

from .conftest import append_lines
from .test_pool import children, workers

KINDS = pytest.mark.parametrize("kind", ["in-process", pytest.param("pool", marks=pytest.mark.slow)])


def by_prompt(**models: Any) -> Callable[[Any], Any]:
    """Return a model that answers a session by the first word of its prompt."""

    def reply(request: Any) -> Any:
        texts = [item["content"][0]["text"] for item in request.json["input"] if item.get("role") == "user"]
        found = next(models[text.split()[0]] for text in texts if text.split()[0] in models)
        return found(request) if callable(found) else found

    return reply


async def wait_for(condition: Callable[[], Any], limit_s: float = 60.0) -> Any:
    """Wait until something is the case, and return it."""
    end = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < end, "the wait was in vain"
        await asyncio.sleep(0.01)
    return found


def is_alive(pid: int) -> bool:
    """Return whether a process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
def test_a_session_that_ends_its_workers_fails_alone(place):
    deadly = call("exec_command", cmd="kill -9 $PPID")
    here = place(by_prompt(deadly=deadly, job=append_lines(2)))

    async def run():
        async with here.open(workers=1) as launcher:
            jobs = [
                await launcher.start(Job(key=prompt, prompt=prompt)) for prompt in ("deadly one", "job one", "job two")
            ]
            return [await job.result() for job in jobs]

    deadly, *others = asyncio.run(run())
    assert (deadly.failure.slug, deadly.failure.retryable) == ("workers-lost", True), deadly
    assert {other.status for other in others} == {Status.COMPLETED}, others
    assert sorted(here.lines()) == ["job one 1", "job one 2", "job two 1", "job two 2"]


def test_a_call_whose_output_was_lost_is_not_repeated(place):
    once = "[ -e killed ] || { touch killed; kill -9 $PPID; sleep 60; }"
    seen = []

    def model(request: Any) -> Any:
        items = request.json["input"]
        outputs = [item["output"] for item in items if item["type"] == "function_call_output"]
        seen.append(outputs)
        return say("done") if outputs else call("exec_command", cmd=f"echo line >> log; {once}")

    here = place(model)

    async def run():
        async with here.open(workers=1) as launcher:
            return await (await launcher.start(Job(key="k", prompt="go"))).result()

    result = asyncio.run(run())
    assert (result.message, result.attempts) == ("done", 2)
    assert here.lines() == ["line"]
    assert seen == [[], ["aborted"]]


@pytest.mark.slow
def test_the_sessions_of_a_worker_that_hangs_continue_elsewhere(place):
    def model(request: Any) -> Any:
        if not here.log.exists():
            here.log.write_text("asked\n")
            os.kill(workers()[0], signal.SIGSTOP)
        return say("done")

    here = place(model)

    async def run():
        async with here.open(workers=1, patience_s=2.0) as launcher:
            return await (await launcher.start(Job(key="k", prompt="go"))).result()

    assert asyncio.run(run()).message == "done"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("which", ["worker", "warm process"])
def test_sessions_continue_when_a_process_is_ended(place, which, number):
    def model(request: Any) -> Any:
        if not here.log.exists():
            here.log.write_text("asked\n")
            os.kill(workers()[0] if which == "worker" else children(os.getpid())[0], number)
            return call("exec_command", cmd="sleep 60")
        return say("done")

    here = place(model)

    async def run():
        async with here.open(workers=1) as launcher:
            return await (await launcher.start(Job(key="k", prompt="go"))).result()

    result = asyncio.run(run())
    assert result.message == "done"


_DRIVER = """
import asyncio, json, sys
from codex_framework.contract.roles.launchers import Job, Workplace
from codex_plugin_launchers.pool import PoolLauncher

async def main(cwd, home):
    pool = await PoolLauncher(workers=1).open(Workplace(cwd=cwd, environ={"CODEX_HOME": home, "HOME": home}))
    job = await pool.start(Job(key="k", prompt="go"))
    await job.result()

asyncio.run(main(*sys.argv[1:]))
"""


def test_workers_end_with_their_driver_and_another_one_resumes_their_sessions(place):
    pids: list[int] = []

    def model(request: Any) -> Any:
        if not pids:
            warm = children(driver.pid)[0]
            pids.extend([warm, *children(warm)])
            os.kill(driver.pid, signal.SIGKILL)
            return call("exec_command", cmd="sleep 60")
        return say("done")

    here = place(model)
    driver = subprocess.Popen([sys.executable, "-c", _DRIVER, str(here.folder), here.workplace.environ["HOME"]])
    driver.wait()

    async def resume():
        await wait_for(lambda: pids and not any(map(is_alive, pids)), 10.0)
        async with here.open("pool") as launcher:
            return await (await launcher.resume("k")).result()

    result = asyncio.run(resume())
    assert (result.message, result.attempts) == ("done", 2)


@KINDS
def test_a_closed_launcher_leaves_sessions_that_can_be_resumed(place, kind):
    asked = []

    def model(request: Any) -> Any:
        asked.append(request)
        return call("exec_command", cmd="sleep 60") if len(asked) == 1 else say("done")

    here = place(model)

    async def run():
        async with here.open(kind) as launcher:
            job = await launcher.start(Job(key="k", prompt="go"))
            await wait_for(lambda: asked)
        with pytest.raises(LaunchError) as closed:
            await job.result()
        async with here.open(kind) as launcher:
            return closed.value.slug, await (await launcher.resume("k")).result()

    slug, result = asyncio.run(run())
    assert (slug, result.message) == ("launcher-closed", "done")


@KINDS
def test_an_interrupted_job_has_a_result_and_can_be_continued(place, kind):
    asked = []

    def model(request: Any) -> Any:
        asked.append(request)
        return call("exec_command", cmd="sleep 60") if len(asked) == 1 else say("done")

    here = place(model)

    async def run():
        async with here.open(kind, max_sessions=1) as launcher:
            job = await launcher.start(Job(key="k", prompt="go"))
            await wait_for(lambda: asked)
            await job.interrupt()
            interrupted = await job.result()
            return interrupted, await (await launcher.resume("k")).result()

    interrupted, result = asyncio.run(run())
    assert interrupted.status is Status.INTERRUPTED
    assert result.message == "done"


@KINDS
def test_events_and_approvals_cross_the_processes(place, kind):
    here = place(
        call("exec_command", cmd="echo yes > log", sandbox_permissions="require_escalated", justification="to log"),
        say("done"),
    )
    (Path(here.workplace.environ["HOME"]) / "config.toml").write_text(
        (Path(here.workplace.environ["HOME"]) / "config.toml")
        .read_text()
        .replace('"never"', '"on-request"')
        .replace('"danger-full-access"', '"read-only"')
    )

    async def run():
        async with here.open(kind) as launcher:
            job = await launcher.start(Job(key="k", prompt="go", attended=True))
            kinds = []
            async for event in job.events():
                kinds.append(event.msg.type)
                if isinstance(event.msg, Request):
                    with pytest.raises(CodexError):
                        await job.answer(event.msg.request_id, "yes")
                    assert await job.answer(event.msg.request_id, ReviewDecision(Decision.APPROVED))
                    assert not await job.answer("unknown", ReviewDecision(Decision.APPROVED))
            return kinds, await job.result()

    kinds, result = asyncio.run(run())
    assert result.message == "done"
    assert {"exec_approval_request", "request_resolved", "task_complete"} <= set(kinds)
    assert here.lines() == ["yes"]


def test_bad_jobs_have_results_that_say_why(place):
    here = place(say("done"))
    jobs = {
        "no agent": Job(key="a", prompt="go", agent="nobody"),
        "bad key": Job(key="b", prompt="go", config={"no_such_key": 1}),
        "limited": Job(key="d", prompt="go", limits=Limits(requests=0)),
        "fine": Job(key="e", prompt="go"),
    }

    async def run():
        async with here.open() as launcher:
            return {name: await (await launcher.start(job)).result() for name, job in jobs.items()}

    results = asyncio.run(run())
    assert results["fine"].message == "done"
    assert results["limited"].status is Status.LIMITED
    assert "nobody" in results["no agent"].failure.fact
    assert "no_such_key" in results["bad key"].failure.fact


@pytest.mark.slow
def test_a_workplace_that_cannot_be_used_is_an_error_of_open(place):
    here = place(say("done"))
    Path(here.workplace.environ["HOME"], "config.toml").write_text("model = 1\n")

    async def run():
        async with here.open():
            pass

    with pytest.raises(CodexError, match="model"):
        asyncio.run(run())


@KINDS
def test_jobs_wait_for_room(place, kind):
    """While one session runs, ``start`` waits, and it can be given up."""
    answer = threading.Event()

    def model(request: Any) -> Any:
        answer.wait(60)
        return say("done")

    here = place(model)

    async def run():
        async with here.open(kind, max_sessions=1) as launcher:
            jobs = [await launcher.start(Job(key="0", prompt="go"))]
            waiting = [asyncio.create_task(launcher.start(Job(key=key, prompt="go"))) for key in ("1", "2", "2")]
            await wait_for(lambda: here.server.requests)
            assert not any(task.done() for task in waiting)
            waiting[0].cancel()
            answer.set()
            one, other = await asyncio.gather(*waiting[1:])
            assert one is other
            return [await job.result() for job in (*jobs, one)]

    assert [result.message for result in asyncio.run(run())] == ["done", "done"]
    assert len(here.server.requests) == 2


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"id": 1, "msg": {}},
        {"id": "a", "msg": []},
        {"id": "a", "msg": {}, "number": "1"},
        {"id": "a", "msg": {}, "thread_id": 1},
    ],
)
def test_an_event_that_is_none_is_refused(raw):
    with pytest.raises(ValueError, match="no event"):
        event_from_json(raw)


NO_SANDBOX = """
from codex_framework import SandboxReport, hookimpl

class Broken:
    name = "faulty"
    def probe(self): return SandboxReport(available=False, reason="no kernel support", hint="Use a newer kernel.")
    def confine(self, access, cwd): raise AssertionError
    async def aclose(self): pass

@hookimpl
def codex_sandboxes(): return [Broken()]
"""


@KINDS
def test_a_worker_without_a_sandbox_fails_the_sessions_that_need_it_and_they_can_be_tried_again(place, kind, tmp_path):
    """Sessions that run no command, and those whose commands need no sandbox, end as usual."""
    here = place(by_prompt(job=append_lines(1), talk=say("hello")))
    broken = tmp_path / "broken.py"
    broken.write_text(NO_SANDBOX)
    overrides = ('sandbox_mode="workspace-write"', 'framework.sandbox="faulty"')
    free, here.workplace = here.workplace, here.workplace.evolve(plugins=[str(broken)], overrides=overrides)
    jobs = {"needs": Job(key="needs", prompt="job one"), "talks": Job(key="talks", prompt="talk to me")}

    async def run():
        async with here.open(kind) as launcher:
            return {name: await (await launcher.start(job)).result() for name, job in jobs.items()}

    results = asyncio.run(run())
    failure = results["needs"].failure
    assert (results["needs"].status, failure.slug, failure.retryable) == (Status.FAILED, "no-sandbox", True)
    assert "'needs'" in failure.fact
    assert results["needs"].worker in failure.fact
    assert "no kernel support" in failure.fact
    assert failure.hint == "Use a newer kernel."
    assert (results["talks"].status, results["talks"].message) == (Status.COMPLETED, "hello")
    assert here.lines() == []
    here.workplace = free
    assert asyncio.run(run())["needs"].status is Status.COMPLETED
    assert here.lines() == ["job one 1"]


@pytest.mark.parametrize("answers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_session_that_was_cut_off_too_often_fails_once_and_can_then_be_tried_again(place, answers):
    """A turn without a finished call is no progress, also if the model has answered once."""
    is_fine = threading.Event()
    asked = []

    def model(request: Any) -> Any:
        asked.append(request)
        if not is_fine.is_set() and not answers:
            is_fine.wait(60)
        return say("done") if is_fine.is_set() else call("exec_command", cmd="touch called; sleep 60")

    here = place(model)
    called = here.folder / "called"

    async def cut():
        asked.clear()
        called.unlink(missing_ok=True)
        async with here.open("in-process") as launcher:
            await launcher.start(Job(key="k", prompt="go"))
            await wait_for(called.exists if answers else lambda: asked)

    async def run():
        for _ in range(6):
            await cut()
        (record,) = Path(here.workplace.environ["CODEX_HOME"]).glob("sessions/**/*.jsonl")
        ends = ('"turn_aborted"', '"function_call_output"')  # what killed workers would not have written
        lines = record.read_text().splitlines(keepends=True)
        record.write_text("".join(line for line in lines if not any(end in line for end in ends)))
        asked.clear()
        is_fine.set()
        async with here.open("in-process") as launcher:
            failed = await (await launcher.start(Job(key="k", prompt="go"))).result()
            assert not asked
            return failed.failure, await (await launcher.start(Job(key="k", prompt="go"))).result()

    failure, result = asyncio.run(run())
    assert (failure.slug, failure.retryable) == ("workers-lost", True)
    assert result.message == "done"


READY = {"ready": "w", "versions": versions()}


@pytest.mark.parametrize(
    "messages",
    [
        [READY, READY],
        [READY, {"event": 1, "value": {"id": "a", "msg": []}}],
        [READY, b"\0\0\0\5[1,2]"],
        [READY, b"\xff\xff\xff\xff"],
        [READY, b"\0\0\0\7nothing"],
        [READY, b"\0\0\0\x90half of a message"],
    ],
    ids=repr,
)
def test_a_worker_that_sends_nonsense_is_lost_and_its_session_does_not_wait_for_ever(messages, caplog):
    async def run():
        ours, theirs = socket.socketpair()
        worker = _WorkerProcess(1, await Channel.open(ours))
        running = asyncio.create_task(worker.run(LocalJob(Job(key="k", prompt="go"))))
        with theirs:
            for message in messages:
                text = message if isinstance(message, bytes) else json.dumps(message).encode()
                theirs.sendall(text if isinstance(message, bytes) else len(text).to_bytes(4) + text)
                await asyncio.sleep(0)
            theirs.shutdown(socket.SHUT_WR) if isinstance(messages[-1], bytes) else None
            with pytest.raises(_WorkerLost):
                await asyncio.wait_for(running, 60)
        assert worker.is_lost

    asyncio.run(run())
    is_cut = isinstance(messages[-1], bytes) and messages[-1].endswith(b"half of a message")
    assert ("sent an invalid message" in caplog.text) != is_cut


def test_commands_of_a_session_inherit_no_descriptor_of_their_worker(place):
    here = place(lambda request: say("done") if len(here.server.requests) > 1 else command)
    command = call("exec_command", cmd="ls -l /proc/$$/fd > log")

    async def run():
        async with here.open() as launcher:
            return await (await launcher.start(Job(key="k", prompt="go"))).result()

    assert asyncio.run(run()).message == "done"
    links = [line.partition(" -> ")[2] for line in here.lines() if " -> " in line]
    assert links
    assert not any(link.startswith(("socket:", "anon_inode:")) for link in links), links
