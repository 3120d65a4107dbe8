"""Jobs and workers in the tables of the database."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from conftest import job
from dbos import DBOSClient
from sqlalchemy import Connection

from codex_contrib_dbos.database import Database
from codex_contrib_dbos.jobs import APPLICATION, VERSION, JobTable
from codex_contrib_dbos.worker import Leases
from codex_framework.contract.roles.launchers import JobResult
from codex_framework.contract.roles.outcomes import Status
from codex_lib_launch.encoding import encode

T = TypeVar("T")


class Queue:
    """A queue of a database, and its workers as DBOS sees them."""

    def __init__(self, database: Database, name: str) -> None:
        self.table = JobTable(database, name)
        self.table.register_queue(concurrency=16, poll_s=1.0)
        self._database = database
        client = DBOSClient(
            system_database_engine=database.engine, dbos_system_schema=None, application_name=APPLICATION
        )
        self._queue = client.retrieve_queue(name)
        self._system = client._sys_db  # noqa: SLF001  # what DBOS calls in a worker

    def call(self, function: Callable[[Connection], T]) -> T:
        """Call a function in a transaction."""
        return self._database.run_once("test", function)

    def start(self, key: str) -> None:
        """Put a job into the queue."""
        self.call(lambda connection: self.table.start(connection, job(key)))

    def take(self, worker: str) -> list[str]:
        """Have a worker take all jobs."""
        assert self._queue is not None
        return self._system.start_queued_workflows(self._queue, worker, VERSION, None, owner_xid=worker)[0]

    def end(self, key: str, worker: str) -> bool:
        """Have a worker write its result, and return whether it counts."""
        result = JobResult(key=key, thread_id="t", status=Status.COMPLETED, worker=worker)
        output = json.dumps(encode(result))
        return self._system.update_workflow_outcome(key, "SUCCESS", output=output, owner_xid=worker)

    def beat(self, worker: str) -> float:
        """Have a worker give a sign of life, and return its time."""
        self.call(lambda connection: self.table.beat(connection, worker, worker))
        return self.call(self.table.beats)[worker]

    def release(self, worker: str, beat_at: float | None = None) -> int:
        """Give the jobs of a worker back."""
        return self.call(lambda connection: self.table.release(connection, worker, beat_at))

    def status(self, key: str) -> tuple[str, str | None]:
        """Return the status and the worker of a job."""
        return self.call(lambda connection: self.table.statuses(connection, [key]))[key]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Return an empty database."""
    made = Database(f"sqlite:///{tmp_path}/queue.sqlite", patience_s=1.0)
    made.prepare()
    yield made
    made.close()


def test_a_worker_keeps_its_jobs_if_it_has_given_a_newer_sign_of_life(database: Database) -> None:
    queue = Queue(database, "codex")
    queue.start("kept")
    assert queue.take("one") == ["kept"]
    old = queue.beat("one")
    while (new := queue.beat("one")) == old:
        pass
    assert queue.release("one", old) == 0
    assert queue.status("kept") == ("PENDING", "one")
    assert queue.call(queue.table.beats) == {"one": new}
    assert queue.release("one", new) == 1
    assert queue.status("kept")[0] == "ENQUEUED"
    assert queue.call(queue.table.beats) == {}


def test_a_queue_neither_sees_nor_releases_what_runs_in_another_one(database: Database) -> None:
    mine, other = Queue(database, "codex"), Queue(database, "other")
    mine.start("mine")
    other.start("theirs")
    assert (mine.take("one"), other.take("one")) == (["mine"], ["theirs"])
    assert mine.release("one") == 1
    assert other.status("theirs") == ("PENDING", "one")
    other.beat("two")
    assert mine.call(mine.table.beats) == {}
    assert other.call(other.table.beats).keys() == {"one", "two"}


def test_the_result_of_a_worker_that_has_lost_its_job_does_not_count(database: Database) -> None:
    queue = Queue(database, "codex")
    queue.start("moved")
    queue.take("old")
    queue.release("old")
    assert not queue.end("moved", "old")
    assert queue.take("new") == ["moved"]
    assert not queue.end("moved", "old")
    assert queue.call(lambda connection: queue.table.results(connection, ["moved"])) == {}
    assert queue.end("moved", "new")
    assert not queue.end("moved", "old")
    found = queue.call(lambda connection: queue.table.results(connection, ["moved"]))
    assert found["moved"].worker == "new"


def test_a_lease_ends_when_a_sign_of_life_has_not_changed_for_its_time() -> None:
    leases = Leases(30.0)
    looks = {now: leases.find_ended({"lives": now, "dead": 9000.0}, now) for now in (0.0, 12.0, 24.0, 30.0, 36.0)}
    assert looks == {0.0: [], 12.0: [], 24.0: [], 30.0: [], 36.0: [("dead", 9000.0)]}


def test_no_lease_ends_because_the_database_was_away() -> None:
    leases = Leases(30.0)
    looks = {now: leases.find_ended({"lives": 7.0}, now) for now in (0.0, 12.0, 900.0, 912.0)}
    assert looks == {0.0: [], 12.0: [], 900.0: [], 912.0: [("lives", 7.0)]}
