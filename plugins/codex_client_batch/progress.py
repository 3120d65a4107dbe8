"""What a person sees while a batch runs: on a terminal a line that is drawn again, elsewhere a line now and then."""

from __future__ import annotations

import shutil
import sys
import time

import click

from codex_client_batch.run import BatchRun
from codex_framework.contract.roles.outcomes import Status
from codex_framework.toolkit.terminal_text import is_colour_wanted

__all__ = ["Progress", "cost_text", "duration_text"]

_REDRAW_S = 0.1
_REPORT_S = 30.0
_BAR = 20
_WIDE = 60
"""Columns of a terminal that has room for a bar."""


def cost_text(cost: dict[str, float]) -> str:
    """Return amounts of money by currency: ``1.25 USD``. Empty if nothing is known."""
    return " + ".join(f"{amount:.2f} {currency}" for currency, amount in sorted(cost.items()) if amount)


def duration_text(seconds: float) -> str:
    """Return a duration with its two largest units: ``2h 05m``, ``3m 07s``, ``8s``."""
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    if hours:
        return f"{hours}h {minutes:02}m"
    return f"{minutes}m {rest:02}s" if minutes else f"{rest}s"


class Progress:
    """Shows the state of a batch on stderr.

    Args:
        total: The number of rows. None if it is not known.
    """

    def __init__(self, total: int | None) -> None:
        self._total = total
        self._redraws = sys.stderr.isatty() and is_colour_wanted()
        self._began = time.monotonic()
        self._shown = self._began if not self._redraws else 0.0

    def update(self, run: BatchRun) -> None:
        """Show the state, unless it was shown a moment ago."""
        now = time.monotonic()
        if now - self._shown >= (_REDRAW_S if self._redraws else _REPORT_S):
            self._shown = now
            self._show(run)

    def end(self, run: BatchRun) -> None:
        """Show the last state."""
        self._show(run)
        if self._redraws:
            click.echo(err=True)

    def _show(self, run: BatchRun) -> None:
        if not self._redraws:
            click.echo(self._text(run), err=True)
            return
        width = shutil.get_terminal_size().columns - 1
        text = self._text(run)
        if self._total and width >= _WIDE:
            full = _BAR * run.counts.total() // self._total
            text = f"[{'#' * full}{'-' * (_BAR - full)}]  {text}"
        click.echo(f"\r{text[:width].ljust(width)}", nl=False, err=True)

    def _text(self, run: BatchRun) -> str:
        ended = run.counts.total()
        parts = [f"{ended}" if self._total is None else f"{ended}/{self._total}"]
        if run.running:
            parts.append(f"{run.running - run.waiting} running")
        if run.waiting:
            parts.append(f"{run.waiting} waiting to retry")
        parts += [f"{run.counts[each]} {each}" for each in (Status.FAILED, Status.LIMITED) if run.counts[each]]
        if cost := cost_text(run.spent.cost):
            parts.append(cost)
        new = ended - run.skipped
        if self._total and new and run.running:
            left = (time.monotonic() - self._began) / new * (self._total - ended)
            parts.append(f"about {duration_text(left)} left")
        return "  ".join(parts)
