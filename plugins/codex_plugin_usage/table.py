"""The report as a table for people."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from codex_framework.toolkit.tables import fit, short_path, shortened, table_lines
from codex_framework.toolkit.terminal_text import printable
from codex_plugin_usage.dates import local_time
from codex_plugin_usage.rows import Row, ToolRow
from codex_plugin_usage.scan import Report

__all__ = ["lines_of"]

_LONGEST = 48
"""The most that a terminal shows of a name."""

_TEXTS = ("Session", "Name", "Last used", "Model", "Provider", "Tool", "Plugin", "Day", "Project")
"""The columns that do not contain numbers."""

_UNKNOWN = "unknown"


def lines_of(report: Report, limit: int) -> Iterator[str]:
    """Return the lines of the table, with notes that explain the numbers."""
    rows = report.sorted_rows()
    shown = rows[-limit:] if report.by == "day" else rows[:limit]
    if report.by in ("tool", "plugin"):
        header, table = _tool_table(report, shown)
    else:
        header, table = _token_table(report, shown)
    if not rows:
        yield _nothing(report)
    else:
        yield from table_lines(header, table, right=[title for title in header if title not in _TEXTS])
        if len(shown) < len(rows):
            yield f"... and {len(rows) - len(shown):,} more; --limit N shows more of them, --json all."
    yield from map(fit, [*_totals(report), *_notes(report, rows)])


def _token_table(report: Report, rows: Sequence[Row | ToolRow]) -> tuple[list[str], list[list[str]]]:
    names = {"thread": ["Session", "Name", "Last used", "Model"], "model": ["Model", "Provider"]}
    first = names.get(report.by, [report.by.capitalize()])
    header = [*first, "Responses", "Input", "Cached", "Output", "Reasoning", "Total", "Cost"]
    if report.by in ("day", "project", "model"):
        header.insert(len(first), "Sessions")
    return header, [_token_cells(report, row) for row in rows if isinstance(row, Row)]


def _token_cells(report: Report, row: Row) -> list[str]:
    amounts = row.amounts
    match report.by:
        case "thread":
            models = ", ".join(sorted({model for _, model in row.by_model}))
            first = [printable(row.key), _truncate_cell(_label(row.details)), _day(row.last_at), _truncate_cell(models)]
        case "model":
            first = [
                _truncate_cell(row.details["model"]),
                _truncate_cell(row.details["provider"]),
                f"{len(row.threads):,}",
            ]
        case _:
            first = [_truncate_cell(row.key), f"{len(row.threads):,}"]
    numbers = (row.responses, amounts.input, amounts.cached_input, amounts.output, amounts.reasoning, amounts.total)
    return [*first, *(f"{number:,}" for number in numbers), _money(*row.cost(report.price))]


def _label(details: Mapping[str, Any]) -> str:
    if details.get("name"):
        return str(details["name"])
    return f"(sub-agent of {str(details['parent'])[-12:]})" if details.get("parent") else ""


def _tool_table(report: Report, rows: Sequence[Row | ToolRow]) -> tuple[list[str], list[list[str]]]:
    first = ["Tool", "Plugin"] if report.by == "tool" else ["Plugin"]
    header = [*first, "Sessions", "Calls", "Failed", "Time", "Output tokens*", "Cost*"]
    table = []
    for row in rows:
        if isinstance(row, ToolRow):
            names = (
                [_truncate_cell(row.key), _truncate_cell(row.plugin or _UNKNOWN)]
                if report.by == "tool"
                else [_truncate_cell(row.key)]
            )
            numbers = [f"{len(row.threads):,}", f"{row.calls:,}", f"{row.failures:,}", _time(row.seconds)]
            table.append([*names, *numbers, f"{row.tokens:,}", _money(*row.cost(report.price))])
    return header, table


def _totals(report: Report) -> Iterator[str]:
    amounts = report.total.amounts
    yield (
        f"\n{len(report.sessions):,} sessions, {report.total.responses:,} responses: {amounts.total:,} tokens"
        f" = {amounts.input:,} input (of which {amounts.cached_input:,} cached)"
        f" + {amounts.output:,} output (of which {amounts.reasoning:,} reasoning)"
    )
    costs, unpriced = report.total.cost(report.price)
    if costs or unpriced:
        yield f"Cost: {_money(costs, unpriced)}"


def _notes(report: Report, rows: Sequence[Row | ToolRow]) -> Iterator[str]:
    unpriced = report.total.cost(report.price)[1]
    if unpriced:
        models = ", ".join(printable(model) for model in unpriced[:5]) + (", ..." if len(unpriced) > 5 else "")
        key = shlex.quote(f"framework.plugins.usage.prices.{json.dumps(unpriced[0])}")
        prices = "'{input = 0.00, output = 0.00}'"
        yield f"No price is known for {models}. Set the price of a million tokens:"
        yield f"  codex-framework config set {printable(key)} {prices}"
    if rows and report.by in ("tool", "plugin"):
        yield (
            "* Estimated: the bytes of the outputs divided by 4, read once and not from the cache. Later requests contain"
            " them again."
        )


def _nothing(report: Report) -> str:
    what = "tool calls" if report.by in ("tool", "plugin") else "usage"
    return f"No {what} found{' in this period' if report.since or report.until else ''}."


def _money(costs: Mapping[str, float], unpriced: Sequence[str]) -> str:
    """Return a cost. Tokens without a known price are reported, and not counted as 0."""
    known = " + ".join(f"{cost:,.4f} {printable(currency)}" for currency, cost in sorted(costs.items()))
    if not unpriced:
        return known or "-"
    return f"{known} + {_UNKNOWN}" if known else _UNKNOWN


def _time(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def _day(at: float) -> str:
    when = local_time(at)
    return _UNKNOWN if when is None else when.strftime("%Y-%m-%d %H:%M")


def _truncate_cell(text: str) -> str:
    return short_path(shortened(printable(text), _LONGEST), _LONGEST)
