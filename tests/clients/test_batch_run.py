"""How a batch runs its rows on a launcher: what it asks for, and what it does with answers that no model server gives."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from codex_client_batch.budget import Budget
from codex_client_batch.results import ResultsFile
from codex_client_batch.rows import BadRow, Row
from codex_client_batch.run import BatchRun
from codex_framework.contract.errors import CodexError
from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.contract.roles.launchers import Job, JobFailure, JobResult, LaunchError
from codex_framework.contract.roles.outcomes import Limits, Status, Usage
from codex_lib_launch.encoding import thread_id_of

BUSY = JobFailure(fact="slow down", slug="model", retryable=True, retry_after_s=0)
NO_LIMITS, NO_BUDGET = Limits(), Budget()
REFUSED = JobFailure(fact="no such model", slug="model")


class Answered:
    """A job with its result."""

    def __init__(self, result: JobResult) -> None:
        self._result = result

    async def result(self) -> JobResult:
        return self._result


class Scripted:
    """A launcher whose answers are given: an error, or what is special about a result. The last one is repeated."""

    def __init__(self, *answers: CodexError | dict[str, Any]) -> None:
        self._answers = [*answers]
        self.jobs: list[Job] = []

    async def start(self, job: Job) -> Any:
        self.jobs.append(job)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, CodexError):
            raise answer
        result = JobResult(key=job.key, thread_id=thread_id_of(job.key), status=Status.COMPLETED)
        return Answered(result.evolve(**answer))


def row(number: int, limits: Limits = NO_LIMITS, cwd: str | None = None) -> Row:
    return Row(
        number=number, key=f"k{number}", prompt="x", agent=None, cwd=cwd, limits=limits, digest="d", extra={"n": number}
    )


@pytest.fixture
def file(tmp_path: Path) -> Iterator[ResultsFile]:
    with contextlib.closing(ResultsFile(tmp_path / "r.jsonl", "b.jsonl")) as found:
        yield found


@pytest.fixture
def run(file: ResultsFile) -> Callable[..., BatchRun]:
    def run(launcher: Any, *rows: Row | BadRow, budget: Budget = NO_BUDGET, retries: int = 2) -> BatchRun:
        def ignore() -> None:
            pass

        found = BatchRun(launcher, file, most=1, retries=retries, budget=budget, again=False, on_change=ignore)
        asyncio.run(found.run(iter(rows)))
        return found

    return run


def test_a_full_queue_is_asked_again_and_costs_no_retry(
    run: Callable[..., BatchRun], file: ResultsFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codex_client_batch.run._LONGEST_DELAY_S", 0.0)
    full = LaunchError("the queue is full", slug="queue-full")
    launcher = Scripted(full, full, {})
    run(launcher, row(1), retries=0)
    assert (file.results["k1"].status, len(launcher.jobs)) == (Status.COMPLETED, 3)


@pytest.mark.parametrize(("retries", "attempts"), [(0, 1), (2, 3)])
def test_a_temporary_failure_is_retried_so_many_times(
    run: Callable[..., BatchRun], file: ResultsFile, retries: int, attempts: int
) -> None:
    launcher = Scripted({"status": Status.FAILED, "failure": BUSY})
    run(launcher, row(1), retries=retries)
    assert [job.key for job in launcher.jobs] == [f"{file.batch.id}/k1"] * attempts
    assert file.results["k1"].failure == BUSY


def test_a_lasting_failure_is_not_retried(run: Callable[..., BatchRun]) -> None:
    launcher = Scripted({"status": Status.FAILED, "failure": REFUSED})
    run(launcher, row(1))
    assert len(launcher.jobs) == 1


def test_a_launcher_that_is_lost_ends_the_run_and_no_row_fails(run: Callable[..., BatchRun], file: ResultsFile) -> None:
    launcher = Scripted({}, LaunchError("the launcher is closed", slug="launcher-closed"))
    with pytest.raises(CodexError, match="the launcher is closed"):
        run(launcher, row(1), row(2), row(3))
    assert (len(launcher.jobs), [*file.results]) == (2, ["k1"])


def test_what_a_launcher_does_not_take_is_the_failure_of_its_row(
    run: Callable[..., BatchRun], file: ResultsFile
) -> None:
    run(Scripted(LaunchError("another job has the key", slug="key-reused"), {}), row(1), row(2))
    assert [each.status for each in file.results.values()] == [Status.FAILED, Status.COMPLETED]


def test_each_session_has_the_smaller_one_of_its_own_limits_and_what_is_left(run: Callable[..., BatchRun]) -> None:
    spent = {"usage": Usage(1, 0, TokenUsage(total_tokens=60))}
    launcher = Scripted(spent)
    rows = (row(1, Limits(tokens=70, turns=3)), row(2, Limits(tokens=70)), row(3))
    found = run(launcher, *rows, budget=Budget(tokens=100))
    assert [job.limits for job in launcher.jobs] == [Limits(tokens=70, turns=3), Limits(tokens=40)]
    assert found.stopped == "budget"


def test_a_retried_session_has_no_more_than_the_budget(run: Callable[..., BatchRun]) -> None:
    spent = {"usage": Usage(1, 0, TokenUsage(total_tokens=60))}
    launcher = Scripted({"status": Status.FAILED, "failure": BUSY, **spent}, spent)
    run(launcher, row(1), row(2), budget=Budget(tokens=100))
    assert [job.limits for job in launcher.jobs] == [Limits(tokens=100), Limits(tokens=100), Limits(tokens=40)]


def test_a_budget_of_money_stops_the_batch(run: Callable[..., BatchRun]) -> None:
    launcher = Scripted({"cost": {"USD": 1.5}})
    found = run(launcher, *map(row, range(1, 5)), budget=Budget(cost=2.0))
    assert [job.limits for job in launcher.jobs] == [Limits(cost=2.0), Limits(cost=0.5)]
    assert (found.stopped, found.spent.cost) == ("budget", {"USD": 3.0})


def test_a_folder_that_has_become_a_link_is_not_used(
    run: Callable[..., BatchRun], file: ResultsFile, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to("/tmp")
    launcher = Scripted({})
    run(launcher, row(1, cwd=str(tmp_path / "link")))
    failure = file.results["k1"].failure
    assert failure is not None
    assert ("has become a link" in failure.fact, launcher.jobs) == (True, [])


def test_a_row_that_cannot_be_run_and_not_be_recorded_ends_the_run(
    run: Callable[..., BatchRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[bytes] = []

    def write(_: int, data: bytes, __: int) -> None:
        writes.append(data)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("codex_client_batch.results.append_whole", write)
    bad = [BadRow(number=number, key=f"(row {number})", fact="it is wrong") for number in (1, 2)]
    with pytest.raises(CodexError, match="cannot be written: No space left"):
        run(Scripted({}), *bad)
    assert len(writes) == 1
