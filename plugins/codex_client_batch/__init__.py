"""``codex-framework batch``: runs an agent on every row of a file, many sessions at once, and continues where it was stopped."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from codex_framework.contract.errors import CodexError
from codex_framework.toolkit.lazy_command import help_group

if TYPE_CHECKING:
    from codex_client_batch.budget import Budget
    from codex_client_batch.progress import Progress
    from codex_client_batch.results import ResultsFile
    from codex_client_batch.rows import BadRow, Row
    from codex_client_batch.run import BatchRun
    from codex_framework.config import Config
    from codex_framework.contract.roles.launchers import Launcher, Workplace

__all__ = ["main"]


@help_group("Run")
@click.command("batch")
@click.argument("file", metavar="FILE")
@click.option("--agent", metavar="NAME", help="The agent of rows without one. Default: no agent.")
@click.option(
    "--launcher", "launcher_name", metavar="NAME", default="pool", show_default=True, help="Where sessions run."
)
@click.option("--max", "most", type=click.IntRange(min=1), metavar="N", help="How many sessions run at once.")
@click.option("--output", metavar="FILE", help="The results. Default: FILE with the ending .results.jsonl.")
@click.option("--report", metavar="FILE", help="The report page. Default: beside the results, with the ending .html.")
@click.option(
    "--retries",
    type=click.IntRange(min=0),
    default=2,
    show_default=True,
    help="How often a row is retried after a temporary failure.",
)
@click.option("--again", is_flag=True, help="Give rows that failed in an earlier run a new session.")
@click.option(
    "--budget", type=click.FloatRange(min=0, min_open=True), metavar="MONEY", help="What all sessions may cost."
)
@click.option("--budget-tokens", type=click.IntRange(min=1), metavar="N", help="How many tokens all sessions may use.")
@click.option("--check", is_flag=True, help="Check the rows, and run nothing.")
@click.option("-C", "--cd", "folder", metavar="DIR", help="The folder of sessions. Rows can name folders inside it.")
@click.option("-p", "--profile", metavar="PROFILE", help="Use a named set of settings.")
@click.option("-c", "--config", "overrides", multiple=True, metavar="KEY=VALUE", help="Set a configuration key.")
@click.pass_context
def main(
    context: click.Context,
    /,
    *,
    file: str,
    agent: str | None,
    launcher_name: str,
    most: int | None,
    output: str | None,
    report: str | None,
    retries: int,
    again: bool,
    budget: float | None,
    budget_tokens: int | None,
    check: bool,
    folder: str | None,
    profile: str | None,
    overrides: Sequence[str],
) -> None:
    """Run an agent on every row of a file.

    FILE has a JSON text or object in each line: "PROMPT", or {"prompt": PROMPT, "key": KEY, "agent": NAME, "cwd": DIR, "limits":
    {...}} and fields of your own, which are copied into the result. - reads standard input.

    Each result is a line of the results file. Run the same command again to continue after ^C, a crash or a spent budget: rows that
    were completed are skipped, and interrupted sessions continue.
    """
    from codex_client_batch.budget import Budget
    from codex_client_batch.rows import RowReader
    from codex_framework.contract.roles.launchers import Workplace

    cwd = (Path.cwd() / (folder or "")).resolve()
    if not cwd.is_dir():
        raise CodexError(f"{cwd} is not a folder", slug="batch", hint="Name an existing folder with --cd.")
    reader = RowReader(agent, cwd)
    if check:
        with _opened(file) as stream:
            context.exit(_check(reader.rows(stream)))
    target = _output(file, output)
    page = target.with_name(_without_endings(target.name) + ".html") if report is None else Path.cwd() / report
    files = [str(path) for path in context.find_object(tuple) or () if isinstance(path, Path)]
    workplace = Workplace(cwd=str(cwd), profile=profile, overrides=overrides, plugins=files)
    with _copied(file) as stream, contextlib.closing(_results(target, file)) as results:
        total = _row_count(stream)
        batch = _Batch(
            file, results, page, Budget(cost=budget, tokens=budget_tokens), total, retries=retries, again=again
        )
        try:
            asyncio.run(batch.run(workplace, launcher_name, most, reader.rows(stream)))
        except BaseException:
            batch.report(pages=False)  # they would take seconds after ^C; the next run writes them
            raise
        batch.report()
    context.exit(batch.status())


class _Batch:
    """A batch on its way through one run of the command.

    Attributes:
        current: The run. None before the launcher was opened.
    """

    def __init__(
        self,
        file: str,
        results: ResultsFile,
        page: Path,
        budget: Budget,
        total: int | None,
        *,
        retries: int,
        again: bool,
    ) -> None:
        from codex_client_batch.progress import Progress

        self._file = file
        self._results = results
        self._page = page
        self._budget = budget
        self._retries = retries
        self._again = again
        self._progress: Progress = Progress(total)
        self._is_reported = True
        self.current: BatchRun | None = None

    async def run(
        self, workplace: Workplace, launcher_name: str, most: int | None, rows: Iterator[Row | BadRow]
    ) -> None:
        """Run the rows. Raises CodexError if no launcher can be opened, or it was lost."""
        from codex_client_batch.report import reserve
        from codex_client_batch.run import BatchRun

        gc.freeze()  # objects from start-up live to the end; the command line has switched the collection off for it
        gc.enable()
        rows_file = [] if self._file == "-" else [Path.cwd() / self._file]
        deciding = [str(path) for path in (*rows_file, self._results.path, *reserve(self._page))]
        workplace = _protecting(workplace, _config(workplace), deciding)
        launcher = await _launcher(_config(workplace), workplace.plugins, launcher_name, deciding)
        opened = await launcher.open(workplace, max_sessions=most)
        run = self.current = BatchRun(
            opened,
            self._results,
            most=most or _MOST,
            retries=self._retries,
            budget=self._budget,
            again=self._again,
            on_change=lambda: self._progress.update(run),
        )
        try:
            await run.run(rows)
        finally:
            await opened.aclose()
            self._progress.end(run)

    def report(self, *, pages: bool = True) -> None:
        """Write the report page, and tell how the batch has ended. A page that cannot be written hides no other error.

        Args:
            pages: Whether to write the pages of sessions, too.
        """
        from codex_client_batch.report import write_report
        from codex_framework.toolkit.terminal_text import printable

        if self.current is None:
            return
        click.echo(f"results  {self._results.path}", err=True)
        try:
            write_report(self._page, self._results, self.current, pages=pages)
        except CodexError as error:
            self._is_reported = False
            click.echo(f"warning: {printable(error.fact)}. {error.hint}", err=True)
        else:
            click.echo(f"report   {self._page}", err=True)
        if self.current.stopped == "budget":
            click.echo("The budget is spent. To go on, run the command again with a larger one.", err=True)

    def status(self) -> int:
        """Return the exit status: 0 if every row has completed and the report was written."""
        run = self.current
        return int(
            run is None
            or not self._is_reported
            or bool(run.stopped)
            or any(count for status, count in run.counts.items() if status != "completed")
        )


_MOST = 64
"""Sessions that are started at once without --max. The launcher decides how many of them run."""


def _config(workplace: Workplace) -> Config:
    from codex_framework.config import load_config

    return load_config(cwd=workplace.cwd, environ=os.environ, profile=workplace.profile, overrides=workplace.overrides)


def _protecting(workplace: Workplace, config: Config, paths: Sequence[str]) -> Workplace:
    """Return a workplace whose sessions cannot write the files that decide what runs, and record what was done."""
    from codex_framework.config.editing.toml_format import value_text

    key = "framework.plugins.launchers.protected"
    own = config.get(key, [])
    if not isinstance(own, list):
        raise CodexError(f"`{key}` is not a list", slug="batch", hint='Write a list of paths, such as ["/work/notes"].')
    value = value_text([*own, *paths])
    return workplace.evolve(overrides=[*workplace.overrides, f"{key}={value}"])


async def _launcher(config: Config, plugins: Sequence[str], name: str, deciding: Sequence[str]) -> Launcher:
    """Return a launcher by its name. Raises CodexError if no plugin offers it, or protects the batch's files."""
    from codex_framework import Kernel
    from codex_framework.toolkit.suggestions import did_you_mean
    from codex_framework.toolkit.terminal_text import printable

    async with await Kernel.create(config, plugins=[Path(file) for file in plugins]) as kernel:
        for warning in sorted(set(kernel.registry.warnings)):
            click.echo(f"warning: {printable(warning)}", err=True)
        launchers: Mapping[str, Launcher] = kernel.registry.launchers
        if not set(deciding) <= set(kernel.registry.protected_paths):
            fact = "sessions could write the files of the batch: the plugin `launchers` is not loaded"
            raise CodexError(fact, slug="batch", hint="Enable it: it protects these files for every launcher.")
    if name not in launchers:
        known = ", ".join(sorted(launchers)) or "none"
        hint = did_you_mean(name, launchers) or f"The launchers of your plugins are: {known}."
        raise CodexError(f"no plugin offers a launcher {name!r}", slug="batch", hint=hint)
    return launchers[name]


# Files


@contextlib.contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        stream = Path(file).open("rb")  # noqa: SIM115  # closed below
    except OSError as error:
        fact = f"cannot read {file}: {error.strerror or error}"
        raise CodexError(fact, slug="batch", hint="Name the file with the rows.") from error
    with stream:
        yield stream


@contextlib.contextmanager
def _copied(file: str) -> Iterator[BinaryIO]:
    """Open a copy of a file, which sessions cannot change. A pipe is read as it comes."""
    with _opened(file) as stream:
        if not stream.seekable():
            yield stream
            return
        with tempfile.TemporaryFile() as copy:
            try:
                shutil.copyfileobj(stream, copy)
                copy.seek(0)
            except OSError as error:
                fact = f"cannot copy {file}: {error.strerror or error}"
                raise CodexError(
                    fact, slug="batch", hint="Make room in the temporary folder, or name another file."
                ) from error
            yield copy


def _row_count(stream: BinaryIO) -> int | None:
    if not stream.seekable():
        return None
    count = sum(not line.isspace() for line in stream)
    stream.seek(0)
    return count


def _without_endings(name: str) -> str:
    return name.removesuffix(".jsonl").removesuffix(".json").removesuffix(".results")


def _output(file: str, output: str | None) -> Path:
    if output is not None:
        return Path.cwd() / output
    if file == "-":
        raise click.UsageError("Rows from standard input need --output FILE.")
    path = Path.cwd() / file
    return path.with_name(_without_endings(path.name) + ".results.jsonl")


def _results(path: Path, file: str) -> ResultsFile:
    from codex_client_batch.results import ResultsFile

    return ResultsFile(path, file)


def _check(rows: Iterator[Row | BadRow]) -> int:
    """Print what is wrong with rows, and return the exit status."""
    from codex_client_batch.rows import BadRow
    from codex_framework.toolkit.terminal_text import printable

    good = bad = 0
    for row in rows:
        if isinstance(row, BadRow):
            bad += 1
            click.echo(f"row {row.number}: {printable(row.fact)}")
        else:
            good += 1
    click.echo(f"{good} rows can be run, {bad} cannot.")
    return int(bad > 0)
