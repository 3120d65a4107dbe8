"""Runs the rows of a batch on a launcher: so many at once, with retries, within a budget."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from codex_client_batch.budget import Budget, Spent
from codex_client_batch.results import ResultsFile, RowResult
from codex_client_batch.rows import BadRow, Row, bad_key
from codex_framework.contract.errors import CodexError, described
from codex_framework.contract.roles.launchers import JobFailure, JobResult, LaunchError, OpenLauncher
from codex_framework.contract.roles.outcomes import Status

__all__ = ["BatchRun"]

_FIRST_DELAY_S = 1.0
_LONGEST_DELAY_S = 60.0
"""Between two attempts, if the server does not name a time. The delay doubles, and varies by a quarter."""


class BatchRun:
    """A run of a batch.

    Args:
        most: How many sessions are started at once.
        retries: How often a row is tried again whose failure can pass.
        again: Whether rows that have failed for good in an earlier run get a new session.
        on_change: Called when a session starts or ends.

    Attributes:
        running: The number of sessions that have been started and not ended.
        waiting: The number of rows among them that wait for their next attempt.
        counts: The number of rows that have a result, by status, earlier results included.
        skipped: The number of rows whose result is from an earlier run.
        stopped: Why rows were left over. None if all were taken.
    """

    def __init__(
        self,
        launcher: OpenLauncher,
        file: ResultsFile,
        *,
        most: int,
        retries: int,
        budget: Budget,
        again: bool,
        on_change: Callable[[], None],
    ) -> None:
        self._launcher = launcher
        self._file = file
        self._slots = asyncio.Semaphore(most)
        self._retries = retries
        self._budget = budget
        self._again = again
        self._on_change = on_change
        self._tasks: set[asyncio.Task[None]] = set()
        self._fault: CodexError | None = None
        self.running = 0
        self.waiting = 0
        self.counts: Counter[Status] = Counter()
        self.skipped = 0
        self.stopped: Literal["budget"] | None = None

    @property
    def spent(self) -> Spent:
        """What all sessions have spent until now, earlier runs included."""
        return self._file.spent

    async def run(self, rows: Iterator[Row | BadRow]) -> None:
        """Run all rows that have no final result.

        Raises:
            CodexError: The launcher was closed, or a result cannot be written. Sessions that were running go on from their records
                when the batch is run again.
        """
        try:
            for row in rows:
                if not await self._take(row):
                    break
            await self._wait_for_all()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._fault is not None:
            raise self._fault

    async def _take(self, row: Row | BadRow) -> bool:
        """Start a row, as soon as there is room for it. Return whether further rows may be started."""
        known = self._file.results.get(row.key)
        if isinstance(row, BadRow):
            failure = _row_failure(row)
            if known is not None and known.failure == failure:
                self._skip(known)
            else:
                self._write(RowResult(row=row.number, key=row.key, failure=failure, ended_at=time.time()))
            return self._fault is None
        if known is not None and known.digest not in {"", row.digest}:
            fact = f"its key {row.key!r} has the result of another prompt, agent or folder; give it another key"
            return await self._take(BadRow(number=row.number, key=bad_key(row.number), fact=fact))
        if known is not None and known.is_final and not (self._again and known.status is Status.FAILED):
            self._file.results.pop(bad_key(row.number), None)  # the row was mended
            self._skip(known)
            return True
        await self._slots.acquire()
        left = self.spent.left(self._budget, None)
        if left.cost == 0 or left.tokens == 0:
            self.stopped = "budget"
        if self._fault is not None or self.stopped:
            self._slots.release()
            return False
        attempt = 1 if known is None else known.round + (1 if known.is_final else 0)
        self.running += 1
        task = asyncio.create_task(self._run_row(row, attempt))
        self._tasks.add(task)
        task.add_done_callback(self._end_row)
        self._on_change()
        return True

    def _skip(self, known: RowResult) -> None:
        self.skipped += 1
        self.counts[known.status] += 1
        self._on_change()

    def _end_row(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._slots.release()
        self.running -= 1
        if not task.cancelled() and (error := task.exception()) is not None and self._fault is None:
            self._fault = error if isinstance(error, CodexError) else CodexError(f"{type(error).__name__}: {error}")
        self._on_change()

    async def _wait_for_all(self) -> None:
        while self._tasks and self._fault is None:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)

    async def _run_row(self, row: Row, number: int) -> None:
        """Run a row with retries, and write its result."""
        batch = self._file.batch.id if number == 1 else f"{self._file.batch.id}~{number}"
        key = f"{batch}/{row.key}"  # the row's key may contain anything, so it comes last
        result: JobResult | None = None
        failure: JobFailure | None = None
        for attempt in range(self._retries + 1):
            result, failure = await self._attempt(row, key, result)
            if failure is None or not failure.retryable or attempt == self._retries:
                break
            await self._pause(failure, attempt)
        found = RowResult(
            row=row.number,
            key=row.key,
            result=result,
            failure=failure,
            round=number,
            digest=row.digest,
            extra=row.extra,
            ended_at=time.time(),
        )
        self._write(found)

    async def _attempt(
        self, row: Row, key: str, before: JobResult | None
    ) -> tuple[JobResult | None, JobFailure | None]:
        """Run a row once.

        Raises:
            LaunchError: The launcher is closed, or has lost its engine. The session may still run there.
        """
        if row.cwd is not None and not _is_real(row.cwd):
            fact = f"the folder {row.cwd} has become a link, or is missing"
            return before, JobFailure(fact=fact, slug="batch-row", hint="Look at what has changed it.")
        limits = row.limits.smaller(self.spent.left(self._budget, before))
        while True:
            try:
                job = await self._launcher.start(row.job(key, limits, self._file.batch.trace))
            except CodexError as error:
                if error.slug == "launcher-closed":
                    raise
                if error.slug != "queue-full":
                    of_engine = error.slug == LaunchError.slug  # not of the row: a later attempt has the same key
                    return before, JobFailure(fact=error.fact, slug=error.slug, hint=error.hint, retryable=of_engine)
                await self._pause(None, 1)  # full of the jobs of others: it costs nothing to ask again
            except Exception as error:  # of the launcher's plugin: other rows go on
                return before, JobFailure(fact=described(error))
            else:
                break
        try:
            result = await job.result()
        except LaunchError:
            raise
        except Exception as error:
            return before, JobFailure(fact=described(error))
        self.spent.add(result)
        return result, result.failure

    async def _pause(self, failure: JobFailure | None, attempt: int) -> None:
        delay = None if failure is None else failure.retry_after_s
        if delay is None:
            delay = min(_LONGEST_DELAY_S, _FIRST_DELAY_S * 2**attempt) * random.uniform(0.75, 1.25)  # noqa: S311  # not secret
        self.waiting += 1
        try:
            await asyncio.sleep(delay)
        finally:
            self.waiting -= 1

    def _write(self, result: RowResult) -> None:
        try:
            self._file.append(result)
        except CodexError as error:
            self._fault = self._fault or error
        else:
            self.counts[result.status] += 1
        self._on_change()


def _is_real(folder: str) -> bool:
    """Return whether a folder is still where it was when its row was read. Sessions may have changed it."""
    path = Path(folder)
    return path.is_dir() and path.resolve() == path


def _row_failure(row: BadRow) -> JobFailure:
    return JobFailure(
        fact=f"row {row.number}: {row.fact}", slug="batch-row", hint="Mend the row, and run the batch again."
    )
