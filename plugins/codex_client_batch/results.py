"""The results file: the record of a batch, from which it continues after any end.

Each line is a JSON object. The first one describes the batch, and every other one is the result of a row. If a row has several, the
last one counts.
"""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from codex_client_batch.budget import Spent
from codex_client_batch.rows import bad_key
from codex_framework.contract.errors import CodexError
from codex_framework.contract.protocol.wire import WireError, encode_json, read, to_wire
from codex_framework.contract.roles.launchers import JobFailure, JobResult
from codex_framework.contract.roles.outcomes import Status
from codex_framework.contract.value import Value, field, fields_of
from codex_framework.contract.version import __version__
from codex_framework.toolkit.appending import append_whole
from codex_framework.toolkit.file_locks import try_lock
from codex_framework.toolkit.regular_files import open_regular
from codex_lib_launch.encoding import decode_value, thread_id_of

__all__ = ["Batch", "ResultsFile", "RowResult"]

_TRACE = re.compile("[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_HEAD = b'{"type":"batch",'
_HINT = "Name another file with --output."


class Batch(Value, kw_only=True):
    """The head of a results file.

    Attributes:
        id: Part of the keys of all jobs, so that the same file can be run again as another batch.
        file: The batch file, for people.
        started_at: Unix seconds.
        trace: The span that all sessions belong to, as a ``traceparent`` header.
    """

    id: str
    file: str
    started_at: float
    trace: str | None = None
    by: str = f"codex-framework {__version__}"


class RowResult(Value, kw_only=True):
    """The result of a row.

    Attributes:
        row: The number of the row's line in the batch file.
        key: The row's key.
        result: The job's result. None if the row could not become a job, or no launcher took it.
        failure: Why there is no output: the failure of the job, or of the row itself.
        digest: A hash of the row's prompt, agent and folder. Empty if it is not known.
        round: How often the row was tried with a new session, starting at 1.
        extra: The fields of the row that are not for the session.
        ended_at: Unix seconds.
    """

    row: int
    key: str
    result: JobResult | None = None
    failure: JobFailure | None = None
    round: int = 1
    digest: str = ""
    extra: Mapping[str, Any] = field(factory=dict)
    ended_at: float = 0.0

    @property
    def status(self) -> Status:
        """How the session ended. A row without a session has failed."""
        return Status.FAILED if self.result is None else self.result.status

    @property
    def is_final(self) -> bool:
        """Whether another attempt would return the same result. A larger budget lets a limited session go on."""
        can_continue = self.status in {Status.INTERRUPTED, Status.LIMITED}
        return not can_continue and not (self.failure is not None and self.failure.retryable)


class ResultsFile:
    """The results file of a running batch.

    Args:
        path: The file. It is created if it does not exist.
        source: The name of the batch file.

    Attributes:
        batch: The batch that it belongs to.
        results: The newest result of each row, by key.
        spent: What all sessions have spent.

    Raises:
        CodexError: It cannot be read or written, another program writes to it, or it is no results file.
    """

    def __init__(self, path: Path, source: str) -> None:
        self.path = path
        self.results: dict[str, RowResult] = {}
        self.spent = Spent()
        try:
            self._descriptor = open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError as error:
            raise self._error("opened", error) from error
        try:
            if not try_lock(self._descriptor):
                fact = f"another program writes to {path}"
                raise CodexError(fact, slug="batch", hint=f"Wait until it has ended. {_HINT}")
            self.batch = self._read(source)
        except OSError as error:
            self.close()
            raise self._error("read", error) from error
        except BaseException:
            self.close()
            raise

    def append(self, result: RowResult) -> None:
        """Write the result of a row. Raises CodexError; the session's own record still has the result."""
        self._append(_to_line(result))
        self._take(result)

    def close(self) -> None:
        """Release the file."""
        os.close(self._descriptor)

    def _take(self, result: RowResult) -> None:
        self.results[result.key] = result
        if result.result is not None:
            self.results.pop(bad_key(result.row), None)  # the row was mended
        if result.result is not None:
            self.spent.add(result.result)

    def _read(self, source: str) -> Batch:
        lines = self._lines()
        head = next(lines, None)
        if head is None:
            batch = Batch(id=uuid.uuid4().hex[:12], file=source, started_at=time.time(), trace=_trace())
            self._append({"type": "batch", **to_wire(batch)})
            return batch
        try:
            if head.get("type") != "batch":
                raise ValueError
            batch = read(Batch, head)
        except (CodexError, ValueError):
            fact = f"{self.path} exists and is not the results file of a batch"
            raise CodexError(fact, slug="batch", hint=_HINT) from None
        for line in lines:
            try:
                self._take(_from_line(line))
            except CodexError:  # of a newer version, or damaged: the launcher returns the result again
                continue
        return batch

    def _lines(self) -> Iterator[Mapping[str, Any]]:
        """Yield the objects of the file. A line that was cut off by a crash is removed."""
        whole = 0
        with os.fdopen(os.dup(self._descriptor), "rb") as stream:
            for number, line in enumerate(stream):
                if not line.endswith(b"\n") and (number or line.startswith(_HEAD)):
                    os.ftruncate(self._descriptor, whole)
                    return
                whole += len(line)
                try:
                    value = json.loads(line)
                except (ValueError, RecursionError):
                    value = None
                if isinstance(value, dict):
                    yield value
                elif number == 0:
                    yield {}

    def _append(self, value: Mapping[str, Any]) -> None:
        data = encode_json(value).encode("utf-8", "replace") + b"\n"
        try:
            append_whole(self._descriptor, data, os.fstat(self._descriptor).st_size)
        except OSError as error:
            raise self._error("written", error) from error

    def _error(self, what: str, error: OSError) -> CodexError:
        fact = f"the results file {self.path} cannot be {what}: {error.strerror or error}"
        return CodexError(fact, slug="batch", hint=_HINT)


def _trace() -> str:
    """Return the span that the environment names (``TRACEPARENT``), or a new one, as W3C Trace Context writes it."""
    given = os.environ.get("TRACEPARENT", "")
    return given if _TRACE.fullmatch(given) else f"00-{uuid.uuid4().hex}-{uuid.uuid4().hex[:16]}-01"


def _to_line(result: RowResult) -> dict[str, Any]:
    """Return a result as one flat object, for people and programs that read the file."""
    line = {
        "type": "result",
        "row": result.row,
        "key": result.key,
        "round": result.round,
        "digest": result.digest,
        "status": result.status.value,
    }
    if result.result is not None:
        job = to_wire(result.result)
        line |= {"job": job.pop("key"), **{name: value for name, value in job.items() if name != "status"}}
    if result.failure is not None:
        line["failure"] = to_wire(result.failure)
    return {**line, "ended_at": result.ended_at, "extra": to_wire(result.extra)}


def _from_line(line: Mapping[str, Any]) -> RowResult:
    """Read a result. Raises CodexError: sessions may have written into the file, so nothing in it is believed unseen."""
    fields = {
        name: line[name] for name in ("row", "key", "round", "digest", "failure", "ended_at", "extra") if name in line
    }
    if "job" not in line:
        return read(RowResult, fields)
    job = {name: line[name] for name in (each.name for each in fields_of(JobResult)) if name in line}
    result = decode_value(JobResult, {**job, "key": line["job"]})
    if result.thread_id != thread_id_of(result.key):
        raise WireError(f"the thread {result.thread_id!r} is not the thread of the job {result.key!r}")
    return read(RowResult, fields).evolve(result=result)
