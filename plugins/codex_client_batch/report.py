"""The report page of a batch: what was done, what failed and why, cost and time, with a link to the page of each session."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from codex_client_batch.progress import cost_text, duration_text
from codex_client_batch.results import ResultsFile, RowResult
from codex_client_batch.run import BatchRun
from codex_framework.contract.errors import CodexError
from codex_framework.contract.roles.outcomes import Status
from codex_framework.toolkit.replacement import NotPermittedError, replace_file
from codex_framework.toolkit.terminal_text import clean

__all__ = ["write_report"]

_LONGEST = 300
"""Characters of a message that are shown in the table. The results file has all of it."""

_MOST_PAGES = 200

_STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.5rem; }
dt { opacity: .7; }
dd { margin: 0; }
table { border-collapse: collapse; width: 100%; margin-top: 1rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem; border-bottom: 1px solid #8884; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.text { overflow-wrap: anywhere; white-space: pre-wrap; }
.failed, .limited { color: #c0392b; }
.interrupted { color: #b9770e; }
code { font-size: .9em; }
"""


_RUNNING = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Batch</title></head>
<body><p>The batch is running, or was killed: then run the command again. This page is written when it ends.</p></body></html>
"""


def reserve(page: Path) -> Sequence[Path]:
    """Create the page and the folder for pages of sessions, if they do not exist, and return both.

    Raises:
        CodexError: They cannot be created.
    """
    folder = _sessions_folder(page)
    try:
        if not page.is_file():
            replace_file(page, _RUNNING.encode(), mode=0o600, sync=False)
        folder.mkdir(exist_ok=True)
    except (NotPermittedError, OSError, ValueError) as error:
        raise _error(page, error) from error
    return page, folder


def write_report(page: Path, file: ResultsFile, run: BatchRun, *, pages: bool) -> None:
    """Write the page, and pages of the sessions that are recorded on this machine: at most 200, those without an output first.

    Args:
        pages: Whether to write the pages of sessions.

    Raises:
        CodexError: It cannot be written.
    """
    if pages:
        write_session_pages(page, [each.result.thread_id for each in _in_order(file) if each.result is not None])
    html = "\n".join(_document(page, file, run)).encode("utf-8", "replace")
    try:
        replace_file(page, html, mode=0o600, sync=False)
    except (NotPermittedError, OSError, ValueError) as error:
        raise _error(page, error) from error


def _error(page: Path, error: Exception) -> CodexError:
    reason = getattr(error, "strerror", None) or str(error)
    return CodexError(
        f"the report {page} cannot be written: {reason}", slug="batch", hint="Name another file with --report."
    )


def write_session_pages(page: Path, thread_ids: Sequence[str]) -> None:
    """Let ``codex-framework trace view`` write the pages of sessions. A session of another machine gets none."""
    wanted = [each for each in thread_ids if not session_page(page, each).exists()][:_MOST_PAGES]
    folder = _sessions_folder(page)
    command = [sys.executable, "-P", "-m", "codex_framework", "trace", "view", "--output", str(folder), *wanted]
    if wanted:
        with contextlib.suppress(OSError):  # no process can be started: the report has no links then
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    with contextlib.suppress(OSError):  # it has pages
        folder.rmdir()


def _in_order(file: ResultsFile) -> Sequence[RowResult]:
    """Return the results, those without an output first."""
    return sorted(file.results.values(), key=lambda each: (each.status is Status.COMPLETED, each.row))


def _document(page: Path, file: ResultsFile, run: BatchRun) -> Iterator[str]:
    results = _in_order(file)
    title = f"Batch {Path(file.batch.file).name}"
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    yield f"<title>{_text(title)}</title><style>{_STYLE}</style></head><body>"
    yield f"<h1>{_text(title)}</h1>"
    yield from _summary(file, run, results)
    yield from _failures(results)
    yield "<h2>Sessions</h2><table><thead><tr><th>Row</th><th>Key</th><th>Status</th><th>Result</th><th>Cost</th><th>Tokens</th>"
    yield "<th>Time</th><th>Session</th></tr></thead><tbody>"
    for result in results:
        yield _row(page, result)
    yield "</tbody></table></body></html>"


def _summary(file: ResultsFile, run: BatchRun, results: Sequence[RowResult]) -> Iterator[str]:
    counts = Counter(result.status for result in results)
    seconds = sum(result.result.seconds for result in results if result.result is not None)
    facts = {
        "Results": ", ".join(f"{counts[status]} {status}" for status in Status if counts[status]) or "none yet",
        "Left over": "rows, because the budget is spent" if run.stopped == "budget" else "",
        "Cost": cost_text(file.spent.cost) or "unknown: no prices of the models are known",
        "Tokens": f"{file.spent.tokens:,}",
        "Time of all sessions": duration_text(seconds),
        "Started": _moment(file.batch.started_at),
        "Last result": _moment(max((result.ended_at for result in results), default=0.0)),
        "Results file": str(file.path),
    }
    yield "<dl>"
    for name, value in facts.items():
        if value:
            yield f"<dt>{name}</dt><dd>{_text(value)}</dd>"
    yield "</dl>"


def _failures(results: Sequence[RowResult]) -> Iterator[str]:
    """Yield the reasons of failures with the number of their rows, the most frequent first."""
    reasons = Counter(result.failure.slug for result in results if result.failure is not None)
    if not reasons:
        return
    example = {result.failure.slug: result.failure for result in results if result.failure is not None}
    yield "<h2>Failures</h2><table><thead><tr><th>Rows</th><th>Reason</th><th>For example</th><th>What to do</th></tr></thead><tbody>"
    for slug, count in reasons.most_common():
        failure = example[slug]
        cells = f'<td class="number">{count}</td><td><code>{_text(slug)}</code></td>'
        yield f'<tr>{cells}<td class="text">{_text(failure.fact)}</td><td>{_text(failure.hint)}</td></tr>'
    yield "</tbody></table>"


def _row(page: Path, result: RowResult) -> str:
    job, failure = result.result, result.failure
    text = failure.fact if failure is not None else (job.message or "") if job is not None else ""
    numbers = ["", "", ""]
    session = ""
    if job is not None:
        numbers = [cost_text(dict(job.cost)), f"{job.usage.tokens.total_tokens:,}", duration_text(job.seconds)]
        session = _session(page, job.thread_id)
    cells = [
        f'<td class="number">{result.row}</td><td class="text">{_text(result.key)}</td>',
        f'<td class="{result.status}">{result.status}</td><td class="text">{_text(text)}</td>',
        *(f'<td class="number">{number}</td>' for number in numbers),
        f"<td>{session}</td>",
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _session(page: Path, thread_id: str) -> str:
    """Return a link to the page of a session if there is one, and its id."""
    target = session_page(page, thread_id)
    name = f"<code>{_text(thread_id)}</code>"
    return f'<a href="{escape(os.path.relpath(target, page.parent))}">{name}</a>' if target.is_file() else name


def session_page(page: Path, thread_id: str) -> Path:
    """Return the place of a session's page: in a folder beside the report."""
    return _sessions_folder(page) / f"{thread_id}.html"


def _sessions_folder(page: Path) -> Path:
    return page.with_suffix(".sessions")


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(seconds)) if seconds else ""


def _text(text: str) -> str:
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    return escape(clean(shown))
