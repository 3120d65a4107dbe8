"""Reads the sessions of a ``$CODEX_HOME`` and sums their usage."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import attrs

from codex_framework.toolkit.compressed import ZstandardNeededError
from codex_plugin_usage.amounts import Amounts
from codex_plugin_usage.calls import Call
from codex_plugin_usage.dates import local_time
from codex_plugin_usage.folders import SessionFile, session_files
from codex_plugin_usage.heads import parent_of, thread_names, with_children
from codex_plugin_usage.ledger import UNKNOWN, Ledger
from codex_plugin_usage.lines import Skipped, relevant_lines
from codex_plugin_usage.prices import PriceOf, known_prices
from codex_plugin_usage.problems import Problems
from codex_plugin_usage.rows import Row, ToolRow

__all__ = ["By", "Report", "scan"]

By = Literal["thread", "model", "day", "project", "tool", "plugin"]

_FORMAT = 1
"""The version of the JSON. It grows when a field changes its meaning or goes away."""


@attrs.define
class Report:
    """The usage of sessions.

    Attributes:
        by: The meaning of a row.
        rows: By key, in no particular order. For ``tool`` and ``plugin`` they are :class:`ToolRow`.
        total: All tokens.
        price: The known prices.
        since, until: The period. None for an open end.
        sessions: The ids of the threads with usage in the period, or with calls if a row is a tool or a plugin.
        problems: The unreadable data.
    """

    by: By
    price: PriceOf
    since: datetime | None = None
    until: datetime | None = None
    rows: dict[str, Row | ToolRow] = attrs.field(factory=dict)
    total: Row = attrs.field(factory=lambda: Row("total"))
    sessions: set[str] = attrs.field(factory=set)
    problems: Problems = attrs.field(factory=Problems)

    def sorted_rows(self) -> list[Row | ToolRow]:
        """Return the rows: threads newest first, days in order, all others by their tokens."""
        if self.by == "day":
            return sorted(self.rows.values(), key=lambda row: row.key)
        return sorted(self.rows.values(), key=self._rank)

    def _rank(self, row: Row | ToolRow) -> tuple[float, str]:
        if isinstance(row, ToolRow):
            return -row.tokens, row.key
        return (-row.last_at if self.by == "thread" else -row.amounts.total), row.key

    def as_json(self) -> dict[str, Any]:
        """Return the report for programs. ``docs/plugins/usage.md`` describes the fields."""
        total = self.total.as_json(self.price)
        return {
            "format": _FORMAT,
            "by": self.by,
            "since": None if self.since is None else self.since.isoformat(),
            "until": None if self.until is None else self.until.isoformat(),
            "sessions": len(self.sessions),
            "rows": [row.as_json(self.price) for row in self.sorted_rows()],
            "total": {key: total[key] for key in ("responses", "tokens", "models", "cost", "unpriced")},
            "problems": self.problems.as_json(),
        }


def scan(
    codex_home: Path,
    *,
    by: By = "thread",
    since: datetime | None = None,
    until: datetime | None = None,
    sessions: Collection[SessionFile | str] | None = None,
    price: PriceOf | None = None,
    plugin_of: Callable[[str], str | None] | None = None,
) -> Report:
    """Read the sessions and sum their usage. Files are read line by line, one after the other.

    Args:
        codex_home: The folder with ``sessions`` and ``archived_sessions``.
        since, until: Only what happened in this period.
        sessions: Only these threads, by id or file, and the sub-agents that they started. By default, all.
        price: The prices of models, by provider id and model. None if no prices are known.
        plugin_of: Returns the plugin that offers a tool. None if no plugin is known.
    """
    report = Report(by, price or known_prices({}), since, until)
    files = _files(codex_home, report, sessions)
    names = thread_names(codex_home) if by == "thread" else {}
    for file in files:
        if since is not None and file.modified < since.timestamp():
            continue  # nothing was added to it since then
        _Reading(report, file, names, plugin_of or (lambda _: None)).run()
    return report


def _files(
    codex_home: Path, report: Report, sessions: Collection[SessionFile | str] | None
) -> Sequence[SessionFile] | Any:
    last_day = None if report.until is None else report.until.astimezone().date()
    found = session_files(codex_home, report.problems, until=last_day)
    if sessions is None:
        return found
    return with_children(found, sessions)


class _Reading:
    """The reading of one file into a report: the sink of its ledger."""

    def __init__(
        self, report: Report, file: SessionFile, names: Mapping[str, str], plugin_of: Callable[[str], str | None]
    ) -> None:
        self._report = report
        self._file = file
        self._names = names
        self._plugin_of = plugin_of
        self._ledger = Ledger(self, file.thread_id)
        self._since = None if report.since is None else report.since.timestamp()
        self._until = None if report.until is None else report.until.timestamp()

    def run(self) -> None:
        """Read the file. Unreadable lines are recorded in the report."""
        problems, skipped = self._report.problems, Skipped()
        try:
            calls = self._report.by in ("tool", "plugin")
            for line in relevant_lines(self._file.path, skipped, calls=calls):
                self._ledger.take(line)
        except ZstandardNeededError:
            problems.needs_zstandard()
        except OSError as error:
            problems.file(self._file.path, error.strerror or str(error))
        finally:
            self._ledger.close()
        if skipped.count:
            problems.lines(self._file.path, skipped.count)

    def spent(self, amounts: Amounts, at: float, model: tuple[str, str]) -> None:
        """Take the tokens of a response."""
        if not self._within(at):
            return
        report, thread = self._report, self._thread
        report.sessions.add(thread)
        report.total.add(amounts, at, model, thread)
        if report.by in ("tool", "plugin"):
            return
        row = report.rows.get(self._key(at, model))
        if not isinstance(row, Row):
            row = report.rows[self._key(at, model)] = Row(self._key(at, model), details=self._details(model))
        row.add(amounts, at, model, thread)

    def called(self, call: Call) -> None:
        """Take a finished call."""
        if not self._within(call.at):
            return
        report = self._report
        if report.by not in ("tool", "plugin"):
            return  # in a line of a form that is always read
        report.sessions.add(self._thread)
        plugin = self._plugin_of(call.tool)
        key = call.tool if report.by == "tool" else plugin or UNKNOWN
        row = report.rows.get(key)
        if not isinstance(row, ToolRow):
            row = report.rows[key] = ToolRow(key, plugin)
        row.add(call, self._thread)

    @property
    def _thread(self) -> str:
        return self._ledger.thread_id or self._file.path

    def _within(self, at: float) -> bool:
        return (self._since is None or at >= self._since) and (self._until is None or at <= self._until)

    def _key(self, at: float, model: tuple[str, str]) -> str:
        match self._report.by:
            case "model":
                return "/".join(model)
            case "day":
                when = local_time(at)
                return UNKNOWN if when is None else when.date().isoformat()
            case "project":
                return self._folder
            case _:
                return self._thread

    @property
    def _folder(self) -> str:
        folder = (self._ledger.head or {}).get("cwd")
        return folder if isinstance(folder, str) and folder else UNKNOWN

    def _details(self, model: tuple[str, str]) -> dict[str, Any]:
        if self._report.by == "model":
            return {"provider": model[0], "model": model[1]}
        if self._report.by != "thread":
            return {}
        head = self._ledger.head or {}
        forked = head.get("forked_from_id")
        return {
            "name": self._names.get(self._thread),
            "project": self._folder,
            "started": head.get("timestamp") if isinstance(head.get("timestamp"), str) else None,
            "parent": parent_of(head),
            "forked_from": forked if isinstance(forked, str) else None,
            "archived": self._file.archived,
            "path": self._file.path,
        }
