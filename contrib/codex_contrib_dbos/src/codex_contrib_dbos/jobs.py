"""Jobs in the database: one row of DBOS's table of workflows for each, whose id is the job's key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dbos import DBOSClient, EnqueueOptions
from dbos._schemas.system_database import SystemSchema
from sqlalchemy import Connection, delete, func, insert, literal, select, update

from codex_contrib_dbos.codec import FORMAT, json_of
from codex_contrib_dbos.database import WORKERS, Database
from codex_framework import __version__
from codex_framework.contract.protocol.wire import encode_json
from codex_framework.contract.roles.launchers import Job, JobFailure, JobResult, LaunchError
from codex_framework.contract.roles.outcomes import Status
from codex_framework.contract.value import Value
from codex_lib_launch.encoding import decode, digest_of, encode, thread_id_of

__all__ = ["APPLICATION", "TOPIC", "VERSION", "WORKFLOW", "JobTable", "StoredJob"]

APPLICATION = "codex-framework"
WORKFLOW = "codex_session"
TOPIC = "codex"
EVENTS = "codex-events"
VERSION = f"codex-framework {__version__}"
"""Workers run only the jobs of programs of their own version."""

_WORKFLOWS, _INPUTS, _OUTPUTS = SystemSchema.workflow_status, SystemSchema.workflow_input, SystemSchema.workflow_output
_MESSAGES, _STREAMS = SystemSchema.notifications, SystemSchema.streams
_UNFINISHED = ("ENQUEUED", "DELAYED", "PENDING")
_CHUNK = 1000
_INTERRUPTED = "interrupted"


class StoredJob(Value, kw_only=True):
    """A job as the database has it.

    Attributes:
        result: Its result. None if it has not ended.
    """

    job: Job
    status: str
    version: str | None
    result: JobResult | None = None

    @property
    def can_continue(self) -> bool:
        """Whether it has ended and another attempt can help."""
        if self.result is None:
            return False
        failure = self.result.failure
        again = {Status.INTERRUPTED, Status.LIMITED}
        return self.result.status in again or (failure is not None and failure.retryable)


class JobTable:
    """Reads and writes jobs. Its methods are called in a transaction, on any thread."""

    def __init__(self, database: Database, queue: str) -> None:
        from dbos._serialization import DBOSPortableJSON

        self._queue = queue
        self._now = database.now
        self._client = DBOSClient(
            system_database_engine=database.engine,
            dbos_system_schema="dbos",
            serializer=DBOSPortableJSON,
            application_name=APPLICATION,
            lazy=True,
            retry_connection_errors=False,
        )

    def register_queue(self, *, concurrency: int, poll_s: float) -> None:
        """Create the queue, or change its limits."""
        self._client.register_queue(self._queue, worker_concurrency=concurrency, polling_interval_sec=poll_s)

    # what programs call

    def count_waiting(self, connection: Connection) -> int:
        """Return how many jobs wait for a worker."""
        waiting = select(func.count()).where(_WORKFLOWS.c.queue_name == self._queue, _WORKFLOWS.c.status == "ENQUEUED")
        return int(connection.execute(waiting).scalar_one())

    def find(self, connection: Connection, key: str) -> StoredJob | None:
        """Return a job. None if no job has the key. Raises LaunchError if it cannot be read."""
        columns = (_WORKFLOWS.c.name, _WORKFLOWS.c.status, _WORKFLOWS.c.application_version, _WORKFLOWS.c.serialization)
        query = (
            select(*columns, _INPUTS.c.inputs)
            .join(_INPUTS, _INPUTS.c.workflow_uuid == _WORKFLOWS.c.workflow_uuid, isouter=True)
            .where(_WORKFLOWS.c.workflow_uuid == key)
        )
        row = connection.execute(query).one_or_none()
        if row is None:
            return None
        if row.name != WORKFLOW:
            fact = f"the key {key!r} is the id of a workflow {row.name!r} of another application"
            raise LaunchError(fact, slug="key-reused", hint="Give the job another key.")
        arguments = json_of(row.inputs, row.serialization)
        job = decode(Job, str(arguments["positionalArgs"][0]))
        result = None if row.status in _UNFINISHED else self.results(connection, [key]).get(key)
        return StoredJob(job=job, status=row.status, version=row.application_version, result=result)

    def start(self, connection: Connection, job: Job) -> StoredJob:
        """Put a job into the queue, unless it is there, runs, or has ended for good. Raises LaunchError."""
        stored = self.find(connection, job.key)
        if stored is None:
            options: EnqueueOptions = {
                "workflow_name": WORKFLOW,
                "workflow_id": job.key,
                "queue_name": self._queue,
                "app_version": VERSION,
            }
            self._client.enqueue_in_transaction(connection, options, encode(job))
            return StoredJob(job=job, status="ENQUEUED", version=VERSION)
        if digest_of(stored.job) != digest_of(job):
            fact = f"the key {job.key!r} was used for another job, with another prompt, agent or configuration"
            raise LaunchError(fact, slug="key-reused", hint="Give the job another key.")
        return self._continue(connection, stored, job)

    def resume(self, connection: Connection, key: str) -> StoredJob:
        """Return a job, and put it into the queue if it has ended but can continue. Raises LaunchError."""
        stored = self.find(connection, key)
        if stored is None:
            raise LaunchError(f"no job has the key {key!r}", slug="unknown-job", hint="Start the job.")
        return self._continue(connection, stored, stored.job)

    def _continue(self, connection: Connection, stored: StoredJob, job: Job) -> StoredJob:
        is_row = _WORKFLOWS.c.workflow_uuid == job.key
        mine = {"application_version": VERSION, "queue_name": self._queue}
        if not stored.can_continue:
            if stored.status == "ENQUEUED" and stored.version != VERSION:  # the workers it waits for may never come
                connection.execute(update(_WORKFLOWS).where(is_row, _WORKFLOWS.c.status == "ENQUEUED").values(mine))
            return stored
        again = {
            "status": "ENQUEUED",
            "owner_xid": None,
            "started_at_epoch_ms": None,
            "completed_at": None,
            "recovery_attempts": 0,
        }
        connection.execute(
            update(_WORKFLOWS).where(is_row, _WORKFLOWS.c.status == stored.status).values({**again, **mine})
        )
        inputs = encode_json({"positionalArgs": [encode(job)], "namedArgs": {}})
        connection.execute(update(_INPUTS).where(_INPUTS.c.workflow_uuid == job.key).values(inputs=inputs))
        connection.execute(delete(_OUTPUTS).where(_OUTPUTS.c.workflow_uuid == job.key))
        return StoredJob(job=job, status="ENQUEUED", version=VERSION)

    def interrupt(self, connection: Connection, key: str) -> None:
        """Take a job out of the queue, or tell its worker to end it."""
        waiting = (_WORKFLOWS.c.workflow_uuid == key, _WORKFLOWS.c.status == "ENQUEUED")
        taken_out = connection.execute(update(_WORKFLOWS).where(*waiting).values(status="CANCELLED"))
        if not taken_out.rowcount:
            self.send(connection, key, {"interrupt": True})

    def send(self, connection: Connection, key: str, message: Any) -> str:
        """Send a message to the worker of a job, and return the message's id."""
        from uuid import uuid4

        message_id = str(uuid4())
        values = {
            "destination_uuid": key,
            "topic": TOPIC,
            "message": encode_json(message),
            "message_uuid": message_id,
            "serialization": FORMAT,
        }
        connection.execute(insert(_MESSAGES).values(values))
        return message_id

    def results(self, connection: Connection, keys: Sequence[str]) -> dict[str, JobResult]:
        """Return the results of the jobs that have ended. A key whose job was deleted has a failure."""
        found: dict[str, JobResult] = {}
        columns = (_WORKFLOWS.c.workflow_uuid, _WORKFLOWS.c.status, _WORKFLOWS.c.serialization)
        for start in range(0, len(keys), _CHUNK):
            query = (
                select(*columns, _OUTPUTS.c.output, _OUTPUTS.c.error)
                .join(_OUTPUTS, _OUTPUTS.c.workflow_uuid == _WORKFLOWS.c.workflow_uuid, isouter=True)
                .where(_WORKFLOWS.c.workflow_uuid.in_(keys[start : start + _CHUNK]))
                .where(_WORKFLOWS.c.status.not_in(_UNFINISHED))
            )
            for row in connection.execute(query):
                found[row.workflow_uuid] = _result(row)
        return found

    def events(self, connection: Connection, key: str, after: int) -> list[tuple[int, Any]]:
        """Return the lists of events that a worker has sent, each with its number, after a number."""
        query = (
            select(_STREAMS.c.offset, _STREAMS.c.value, _STREAMS.c.serialization)
            .where(_STREAMS.c.workflow_uuid == key, _STREAMS.c.key == EVENTS, _STREAMS.c.offset > after)
            .order_by(_STREAMS.c.offset)
        )
        return [(row.offset, json_of(row.value, row.serialization)) for row in connection.execute(query)]

    def last_event(self, connection: Connection, key: str) -> int:
        """Return the number of the newest list of events. -1 if there are none."""
        newest = select(func.max(_STREAMS.c.offset)).where(_STREAMS.c.workflow_uuid == key, _STREAMS.c.key == EVENTS)
        found = connection.execute(newest).scalar()
        return -1 if found is None else int(found)

    def reply(self, connection: Connection, key: str, message_id: str) -> Any:
        """Return a worker's reply to a message. None if there is none yet."""
        query = select(_STREAMS.c.value, _STREAMS.c.serialization)
        row = connection.execute(
            query.where(_STREAMS.c.workflow_uuid == key, _STREAMS.c.key == message_id)
        ).one_or_none()
        return None if row is None else json_of(row.value, row.serialization)

    # what workers call

    def messages(self, connection: Connection, keys: Sequence[str]) -> list[tuple[str, str, Any]]:
        """Return key, id and data of the messages to jobs that have not ended."""
        query = (
            select(
                _MESSAGES.c.destination_uuid, _MESSAGES.c.message_uuid, _MESSAGES.c.message, _MESSAGES.c.serialization
            )
            .where(_MESSAGES.c.destination_uuid.in_(keys), _MESSAGES.c.topic == TOPIC, _MESSAGES.c.consumed.is_(False))
            .order_by(_MESSAGES.c.created_at_epoch_ms)
        )
        rows = connection.execute(query)
        return [(row.destination_uuid, row.message_uuid, json_of(row.message, row.serialization)) for row in rows]

    def forget_messages(self, connection: Connection, key: str) -> None:
        """Delete the messages to a job that has ended."""
        connection.execute(delete(_MESSAGES).where(_MESSAGES.c.destination_uuid == key, _MESSAGES.c.topic == TOPIC))

    def write_stream(self, connection: Connection, key: str, stream: str, text: str) -> None:
        """Append JSON text to a stream of a job."""
        newest = (
            select(func.coalesce(func.max(_STREAMS.c.offset), -1) + 1)
            .where(_STREAMS.c.workflow_uuid == key, _STREAMS.c.key == stream)
            .scalar_subquery()
        )
        names = ["workflow_uuid", "key", "value", "serialization", "function_id", "offset"]
        row = select(literal(key), literal(stream), literal(text), literal(FORMAT), literal(0), newest)
        connection.execute(insert(_STREAMS).from_select(names, row))

    def statuses(self, connection: Connection, keys: Sequence[str]) -> dict[str, tuple[str, str | None]]:
        """Return the status and the worker of jobs."""
        query = select(_WORKFLOWS.c.workflow_uuid, _WORKFLOWS.c.status, _WORKFLOWS.c.executor_id)
        rows = connection.execute(query.where(_WORKFLOWS.c.workflow_uuid.in_(keys)))
        return {row.workflow_uuid: (row.status, row.executor_id) for row in rows}

    # workers

    def beat(self, connection: Connection, executor_id: str, name: str) -> None:
        """Say that a worker lives."""
        is_row = WORKERS.c.executor_id == executor_id
        if not connection.execute(update(WORKERS).where(is_row).values(beat_at=self._now)).rowcount:
            values = {"executor_id": executor_id, "name": name, "queue": self._queue, "version": VERSION}
            connection.execute(insert(WORKERS).values(**values, beat_at=self._now))

    def beats(self, connection: Connection) -> dict[str, float]:
        """Return the workers of the queue that are not known to have ended, each with its last sign of life."""
        rows = connection.execute(
            select(WORKERS.c.executor_id, WORKERS.c.beat_at).where(WORKERS.c.queue == self._queue)
        )
        found: dict[str, float] = {row.executor_id: row.beat_at for row in rows}
        running = (
            select(_WORKFLOWS.c.executor_id)
            .where(_WORKFLOWS.c.status == "PENDING", _WORKFLOWS.c.queue_name == self._queue)
            .distinct()
        )
        for executor_id in connection.execute(running).scalars():
            found.setdefault(executor_id, 0.0)
        return found

    def release(self, connection: Connection, executor_id: str, beat_at: float | None = None) -> int:
        """Give the jobs of a worker back to the queue, and return their number.

        Args:
            beat_at: Nothing is done if the worker has given a sign of life after this one.
        """
        is_row = WORKERS.c.executor_id == executor_id
        if beat_at is not None:
            newest = connection.execute(select(WORKERS.c.beat_at).where(is_row).with_for_update()).scalar()
            if newest is not None and newest != beat_at:
                return 0
        connection.execute(delete(WORKERS).where(is_row))
        running = (_WORKFLOWS.c.executor_id == executor_id, _WORKFLOWS.c.status == "PENDING")
        back = {"status": "ENQUEUED", "owner_xid": None, "started_at_epoch_ms": None}
        released = update(_WORKFLOWS).where(*running, _WORKFLOWS.c.queue_name == self._queue).values(back)
        return connection.execute(released).rowcount

    def live_workers(self, connection: Connection, lease_s: float) -> list[tuple[str, str]]:
        """Return name and version of the workers that have given a sign of life recently."""
        lives = (WORKERS.c.queue == self._queue, WORKERS.c.beat_at > self._now - lease_s)
        rows = connection.execute(select(WORKERS.c.name, WORKERS.c.version).where(*lives).order_by(WORKERS.c.name))
        return [(row.name, row.version) for row in rows]


def _result(row: Any) -> JobResult:
    """Return the result of a workflow that has ended."""
    key = row.workflow_uuid
    fields: dict[str, Any] = {"key": key, "thread_id": thread_id_of(key)}
    if row.status == "CANCELLED":
        failure = JobFailure(fact="the job was taken out of the queue", slug=_INTERRUPTED)
        return JobResult(**fields, status=Status.INTERRUPTED, failure=failure)
    try:
        if row.status == "SUCCESS":
            return decode(JobResult, str(json_of(row.output, row.serialization)))
        told = json_of(row.error, row.serialization)
        fact = f"the workflow ended with {row.status}: {told.get('message')}"
        failure = JobFailure(fact=fact)
    except LaunchError as error:
        failure = JobFailure(
            fact=f"the result of {key!r} cannot be read: {error.fact}", hint=error.hint, slug=error.slug
        )
    return JobResult(**fields, status=Status.FAILED, failure=failure)
