"""Jobs whose thread store cannot be reached for a while."""

from __future__ import annotations

import asyncio
from typing import Any

from codex_framework.contract.errors import ThreadError
from codex_framework.contract.roles.launchers import Job
from codex_framework.contract.roles.outcomes import Status
from codex_framework.contract.roles.stores import RecorderStopped
from codex_framework.testing import Offer, call, say
from codex_plugin_launchers.in_process import InProcess
from codex_plugin_sessions.memory import MemoryStore


class LostStore(MemoryStore):
    """A store of which a method fails once: the database does not answer."""

    def __init__(self, fails: str) -> None:
        super().__init__()
        self.fails = fails

    def load(self, thread_id: str, codex_home: str) -> Any:
        if self.fails == "load":
            self.fails = ""
            raise ThreadError("the database does not answer", slug="thread-unsaved")
        return super().load(thread_id, codex_home)

    def create(self, meta: Any, codex_home: str) -> Any:
        recorder: Any = super().create(meta, codex_home)
        flush = recorder.flush
        flushes: list[None] = []

        def flush_or_fail() -> None:
            flushes.append(None)
            if self.fails == "flush" and len(flushes) > 1:
                self.fails = ""
                raise RecorderStopped("the database does not answer", slug="thread-unsaved")
            flush()

        recorder.flush = flush_or_fail
        return recorder


def run_twice(make_kernel: Any, store: LostStore) -> tuple[Any, Any]:
    replies = [call("update_plan", plan=[]), say("done"), say("done"), say("done")]

    async def run() -> tuple[Any, Any]:
        config = 'framework.thread_store = "memory"\n'
        async with make_kernel(replies, config=config, plugins=[Offer(stores=[store])]) as kernel:
            launcher = InProcess(kernel)
            job = Job(key="a", prompt="Go.")
            return await (await launcher.start(job)).result(), await (await launcher.start(job)).result()

    return asyncio.run(run())


def test_a_job_that_could_not_be_read_or_recorded_can_be_tried_again(make_kernel: Any) -> None:
    for fails in ("load", "flush"):
        first, second = run_twice(make_kernel, LostStore(fails))
        assert (first.status, first.failure.retryable) == (Status.FAILED, True), (fails, first)
        assert (second.status, second.message) == (Status.COMPLETED, "done"), (fails, second)
