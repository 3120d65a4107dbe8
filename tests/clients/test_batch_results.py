"""What a batch knows of its earlier results: which rows are done, and what was spent."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from codex_client_batch.budget import Budget, Spent
from codex_client_batch.results import ResultsFile, RowResult
from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.contract.roles.launchers import JobFailure, JobResult
from codex_framework.contract.roles.outcomes import Limits, Status, Usage
from codex_lib_launch.encoding import thread_id_of

LOST = JobFailure(fact="the worker was lost", slug="workers-lost", retryable=True)
WRONG = JobFailure(fact="no such model", slug="model")


def job_result(key: str, tokens: int = 0, status: Status = Status.COMPLETED, **cost: float) -> JobResult:
    usage = Usage(1, 0, TokenUsage(total_tokens=tokens))
    return JobResult(key=key, thread_id=thread_id_of(key), status=status, usage=usage, cost=cost)


@pytest.mark.parametrize(
    ("status", "failure", "is_final"),
    [
        (Status.COMPLETED, None, True),
        (Status.FAILED, WRONG, True),
        (Status.FAILED, LOST, False),
        (None, WRONG, True),
        (None, LOST, False),
        (Status.INTERRUPTED, None, False),
        (Status.LIMITED, None, False),
        (Status.LIMITED, WRONG, False),
    ],
)
def test_only_what_another_attempt_would_not_change_is_final(
    tmp_path: Path, status: Status | None, failure: JobFailure | None, is_final: bool
) -> None:
    result = None if status is None else job_result("b/a", status=status).evolve(failure=failure)
    with contextlib.closing(ResultsFile(tmp_path / "r.jsonl", "b.jsonl")) as file:
        file.append(RowResult(row=1, key="a", result=result, failure=failure))
    with contextlib.closing(ResultsFile(tmp_path / "r.jsonl", "b.jsonl")) as file:
        assert file.results["a"].is_final == is_final


def test_a_session_that_goes_on_is_counted_once() -> None:
    spent = Spent()
    for result in (
        job_result("a", 100, USD=1.0),
        job_result("b", 10, USD=0.5, EUR=2.0),
        job_result("a", 150, USD=1.25),
    ):
        spent.add(result)
    assert (spent.tokens, spent.cost) == (160, {"USD": 1.75, "EUR": 2.0})


@pytest.mark.parametrize(
    ("budget", "own", "left"),
    [
        (Budget(), None, Limits()),
        (Budget(tokens=200), None, Limits(tokens=40)),
        (Budget(tokens=200), job_result("a", 150), Limits(tokens=190)),
        (Budget(tokens=100), None, Limits(tokens=0)),
        (Budget(cost=4.0), None, Limits(cost=0.25)),
        (Budget(cost=4.0), job_result("a", USD=1.25), Limits(cost=1.5)),
        (Budget(cost=3.0), None, Limits(cost=0.0)),
    ],
)
def test_the_budget_that_is_left_includes_earlier_runs(tmp_path: Path, budget: Budget, own: Any, left: Limits) -> None:
    with contextlib.closing(ResultsFile(tmp_path / "r.jsonl", "b.jsonl")) as file:
        for number, (key, tokens, cost) in enumerate([("a", 100, 1.0), ("b", 10, 2.5), ("a", 150, 1.25)], 1):
            file.append(RowResult(row=number, key=key, result=job_result(key, tokens, USD=cost)))
    with contextlib.closing(ResultsFile(tmp_path / "r.jsonl", "b.jsonl")) as file:
        assert file.spent.left(budget, own) == left
