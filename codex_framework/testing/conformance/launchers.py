"""The check of launchers: jobs run once by their keys, go on after losses, and bad ones have results that say why."""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from codex_framework.contract.protocol.events import Request
from codex_framework.contract.protocol.policies import Decision, ReviewDecision
from codex_framework.contract.roles.launchers import (
    Job,
    JobResult,
    Launcher,
    LaunchError,
    OpenLauncher,
    RunningJob,
    Workplace,
)
from codex_framework.contract.roles.outcomes import Status
from codex_framework.testing.conformance.findings import Findings, Unmet
from codex_framework.testing.reading import RecordedRequest
from codex_framework.testing.replies import call, fault, say
from codex_framework.testing.server import ResponsesServer

__all__ = ["check_launcher"]

_WITHIN_S = 120.0
"""Time limit of whatever a worker does, in seconds. Engines may start processes first."""

_SESSIONS = 2


def check_launcher(
    launcher: Launcher,
    *,
    overrides: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    kill_worker: Callable[[], object] | None = None,
) -> None:
    """Check that a launcher fulfils its role. Its workers must be on this machine: the model is a server on loopback.

    It opens the launcher twice, and runs about fifteen sessions in a temporary home and folder.

    Args:
        overrides: Further configuration of the workers, in the syntax of ``-c``, for example the thread store.
        environ: Further environment variables of the workers.
        kill_worker: Kills the worker that runs the only session. Without it, the loss of a worker is not checked.

    Raises:
        ContractViolation: It does not; every violation is listed.
    """
    findings = Findings("launcher", launcher)
    if findings.check_members(launcher, Launcher):
        findings.require_name(launcher)
        model = _Model()
        with tempfile.TemporaryDirectory() as folder, ResponsesServer([model], repeat_last=True) as server:
            try:
                home, work = Path(folder, "home"), Path(folder, "work")
                home.mkdir()
                work.mkdir()
                (home / "config.toml").write_text(_CONFIG.format(url=server.url))
                variables = {"CODEX_HOME": str(home), "HOME": str(home), **(environ or {})}
                workplace = Workplace(cwd=str(work), overrides=tuple(overrides), environ=variables)
                with suppress(Unmet):
                    asyncio.run(_Check(findings, launcher, workplace, model, kill_worker).run())
            finally:
                model.release()
    findings.raise_any()


_CONFIG = """
model = "gpt-5.5"
model_provider = "loopback"
approval_policy = "on-request"
sandbox_mode = "read-only"
[model_providers.loopback]
name = "loopback"
base_url = "{url}"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
"""


class _Model:
    """Answers by the prompt. The first request of a session with ``wait`` has no answer until it is released."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._released = threading.Event()

    def release(self) -> None:
        """Let all requests go on."""
        self._released.set()

    def __call__(self, request: RecordedRequest) -> Any:
        items = request.json["input"]
        texts = [item["content"][0]["text"] for item in items if item.get("role") == "user"]
        prompt = next(text for text in texts if text.split()[0] in ("say", "wait", "ask", "fail"))
        with self._lock:
            self.requests[prompt] += 1
            is_first = self.requests[prompt] == 1
        match prompt.split()[0]:
            case "wait" if is_first:
                self._released.wait(_WITHIN_S)
            case "ask" if is_first:
                return call(
                    "exec_command", cmd="true", sandbox_permissions="require_escalated", justification="why not"
                )
            case "fail":
                return fault(400, body={"error": {"message": "a bad request"}})
            case _:
                pass
        return say(f"answer to {prompt}")


class _Check:
    """The steps, each with sessions of its own."""

    def __init__(
        self,
        findings: Findings,
        launcher: Launcher,
        workplace: Workplace,
        model: _Model,
        kill_worker: Callable[[], object] | None,
    ) -> None:
        self._findings = findings
        self._launcher = launcher
        self._workplace = workplace
        self._model = model
        self._kill_worker = kill_worker

    async def run(self) -> None:
        opened = await self._open()
        try:
            for step in (
                self._check_keys,
                self._check_bad_jobs,
                self._check_room,
                self._check_interrupt,
                self._check_requests,
                self._check_loss,
            ):
                with suppress(Unmet):
                    await step(opened)
            left = await self._leave_running(opened)
        finally:
            await self._findings.close_twice(opened.aclose, within_s=_WITHIN_S)
        await self._check_closed(opened, left)
        opened = await self._open()
        try:
            await self._check_another_program(opened)
        finally:
            await self._findings.close_twice(opened.aclose, within_s=_WITHIN_S)

    async def _open(self) -> OpenLauncher:
        opening = self._launcher.open(self._workplace, max_sessions=_SESSIONS)
        opened: OpenLauncher = await self._findings.wait_for("open()", opening, within_s=_WITHIN_S)
        if not self._findings.check_members(opened, OpenLauncher):
            raise Unmet
        return opened

    async def _start(self, opened: OpenLauncher, job: Job) -> RunningJob:
        what = f"start() of the prompt {job.prompt!r}"
        started = await self._findings.wait_for(what, opened.start(job), within_s=_WITHIN_S, allowed=(LaunchError,))
        if not self._findings.check_members(started, RunningJob):
            raise Unmet
        self._findings.require(started.key == job.key, f"the key of a started job is {started.key!r}, not {job.key!r}")
        return started

    async def _result(self, job: RunningJob, status: Status, message: str | None = None) -> JobResult:
        """Wait for a result and compare it."""
        found = await self._findings.wait_for(f"result() of {job.key!r}", job.result(), within_s=_WITHIN_S)
        if not isinstance(found, JobResult):  # an author's mistake
            self._findings.note(f"result() returns {found!r:.200}, not a JobResult")  # type: ignore[unreachable]
            raise Unmet
        self._findings.require(found.key == job.key, f"the result of {job.key!r} is that of {found.key!r}")
        self._findings.require(
            found.status is status, f"the status of {job.key!r} is {found.status!r}, not {status}: {found.failure}"
        )
        self._findings.require(
            message is None or found.message == message, f"the message of {job.key!r} is {found.message!r}"
        )
        self._findings.require(
            (found.failure is None) == (found.status is Status.COMPLETED),
            f"the status of {job.key!r} is {found.status}, and its failure {found.failure}",
        )
        return found

    async def _refusal(self, what: str, slug: str, work: Callable[[], Any]) -> None:
        """Check that something raises a LaunchError, or has a result with a failure."""
        try:
            job = await self._findings.wait_for(what, work(), within_s=_WITHIN_S, allowed=(LaunchError,))
        except LaunchError as error:
            found = error.slug
        else:
            result = await self._findings.wait_for(f"the result of {what}", job.result(), within_s=_WITHIN_S)
            found = "no failure" if result.failure is None else result.failure.slug
        self._findings.require(found == slug, f"{what} ends with {found!r}, not {slug!r}")

    async def _check_keys(self, opened: OpenLauncher) -> None:
        job = Job(key="check/1", prompt="say one")
        started = await self._start(opened, job)
        first = await self._result(started, Status.COMPLETED, "answer to say one")
        again = await self._result(await self._start(opened, job), Status.COMPLETED, "answer to say one")
        resuming = self._findings.wait_for("resume()", opened.resume(job.key), within_s=_WITHIN_S)
        resumed = await self._result(await resuming, Status.COMPLETED, "answer to say one")
        ids = {first.thread_id, again.thread_id, resumed.thread_id}
        self._findings.require(len(ids) == 1, f"a job has the threads {sorted(ids)}")
        self._once("say one", "a job that is started again")
        self._findings.require([event async for event in started.events()] == [], "a job that has ended has events")
        await self._refusal(
            "start() of another prompt with the same key",
            "key-reused",
            lambda: opened.start(job.evolve(prompt="say two")),
        )
        self._findings.require(not self._model.requests["say two"], "a job with a used key runs")
        await self._refusal("resume() of an unknown key", "unknown-job", lambda: opened.resume("check/unknown"))

    async def _check_bad_jobs(self, opened: OpenLauncher) -> None:
        for key in ("", "x" * 201, "a\nb"):
            job = Job(key=key, prompt="say")
            await self._refusal(f"start() with the key {key[:9]!r}", "bad-request", partial(opened.start, job))
        failed = await self._start(opened, Job(key="check/fail", prompt="fail now"))
        await self._result(failed, Status.FAILED)
        job = Job(key="check/agent", prompt="say three", agent="nobody-has-this")
        result = await self._result(await self._start(opened, job), Status.FAILED)
        fact = "" if result.failure is None else result.failure.fact
        self._findings.require(
            "nobody-has-this" in fact, f"the failure of a job with an unknown agent is {fact!r}, which does not name it"
        )

    async def _check_room(self, opened: OpenLauncher) -> None:
        jobs = [Job(key=f"check/many/{number}", prompt=f"say many {number}") for number in range(2 * _SESSIONS)]
        for job in [await self._start(opened, job) for job in jobs]:
            await self._result(job, Status.COMPLETED)

    async def _check_interrupt(self, opened: OpenLauncher) -> None:
        job = Job(key="check/interrupt", prompt="wait for an interrupt")
        started = await self._start(opened, job)
        await self._asked(job.prompt)
        waiting = asyncio.create_task(started.result())
        await asyncio.sleep(0)
        await self._findings.cancel("a caller of result()", waiting)
        await self._findings.wait_for("interrupt()", started.interrupt(), within_s=_WITHIN_S)
        await self._result(started, Status.INTERRUPTED)
        message = "answer to wait for an interrupt"
        await self._result(await self._start(opened, job), Status.COMPLETED, message)

    async def _check_requests(self, opened: OpenLauncher) -> None:
        started = await self._start(opened, Job(key="check/ask", prompt="ask me", attended=True))
        answers: list[object] = []

        async def answer() -> None:
            async for event in started.events():
                if isinstance(event.msg, Request):
                    approved = ReviewDecision(Decision.APPROVED)
                    answers.append(await started.answer(event.msg.request_id, approved))
                    answers.append(await started.answer("no such request", approved))

        await self._findings.wait_for("events() of an attended job", answer(), within_s=_WITHIN_S)
        await self._result(started, Status.COMPLETED, "answer to ask me")
        self._findings.require(
            answers == [True, False],
            f"answers to an open request and to an unknown one return {answers}, not [True, False]",
        )

    async def _check_loss(self, opened: OpenLauncher) -> None:
        if self._kill_worker is None:
            return
        job = Job(key="check/loss", prompt="wait for a loss")
        started = await self._start(opened, job)
        await self._asked(job.prompt)
        self._kill_worker()
        result = await self._result(started, Status.COMPLETED, "answer to wait for a loss")
        self._findings.require(result.attempts > 1, "the result of a job whose worker was lost has 1 attempt")

    async def _leave_running(self, opened: OpenLauncher) -> RunningJob:
        job = Job(key="check/close", prompt="wait for the end")
        started = await self._start(opened, job)
        await self._asked(job.prompt)
        return started

    async def _check_closed(self, opened: OpenLauncher, left: RunningJob) -> None:
        closed = "launcher-closed"
        await self._refusal(
            "start() after aclose()", closed, lambda: opened.start(Job(key="check/late", prompt="say late"))
        )
        await self._refusal("resume() after aclose()", closed, lambda: opened.resume("check/1"))
        try:
            await self._findings.wait_for(
                "result() after aclose()", left.result(), within_s=_WITHIN_S, allowed=(LaunchError,)
            )
        except LaunchError as error:
            self._findings.require(
                error.slug == closed, f"result() after aclose() raises {error.slug!r}, not {closed!r}"
            )
        else:
            self._findings.note("result() of a job that was running at aclose() returns; it must raise LaunchError")

    async def _check_another_program(self, opened: OpenLauncher) -> None:
        for key, prompt in (("check/close", "wait for the end"), ("check/1", "say one")):
            resuming = self._findings.wait_for(f"resume({key!r})", opened.resume(key), within_s=_WITHIN_S)
            await self._result(await resuming, Status.COMPLETED, f"answer to {prompt}")
        self._once("say one", "a job that has ended in another program")
        await self._refusal(
            "start() of another prompt with a key of another program",
            "key-reused",
            lambda: opened.start(Job(key="check/1", prompt="say four")),
        )

    def _once(self, prompt: str, what: str) -> None:
        count = self._model.requests[prompt]
        self._findings.require(count == 1, f"{what} asks the model {count} times")

    async def _asked(self, prompt: str) -> None:
        """Wait until a session has asked the model."""
        end = time.monotonic() + _WITHIN_S
        while not self._model.requests[prompt]:
            if time.monotonic() > end:
                self._findings.note(f"the session of the prompt {prompt!r} does not run within {_WITHIN_S:g} s")
                raise Unmet
            await asyncio.sleep(0.01)
