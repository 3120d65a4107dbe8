"""Reads the bounds of a period as people write them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta

from codex_framework.contract.errors import CodexError

__all__ = ["local_time", "moment"]

_SPANS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def moment(text: str, option: str, *, now: datetime | None = None, end: bool = False) -> datetime:
    """Return the time that a text means: ``7d`` (ago), ``today``, ``yesterday``, ``2026-11-20`` or ``2026-11-20T18:00``.

    Args:
        option: The name of the option, for the error.
        now: The current time. By default, the clock's.
        end: Whether a day means its end.

    Raises:
        CodexError: The text has another form.
    """
    now = datetime.now().astimezone() if now is None else now
    word = text.strip().lower()
    try:
        if match := re.fullmatch(r"(\d{1,6})([mhdw])", word):
            return now - timedelta(**{_SPANS[match[2]]: int(match[1])})
        if word in ("today", "yesterday"):
            return _day(now.date() - timedelta(days=word == "yesterday"), end=end)
        if re.fullmatch(r"\d{4}-\d\d-\d\d", word):
            return _day(date.fromisoformat(word), end=end)
        found = datetime.fromisoformat(text.strip())
        if re.match(r"\d{4}-\d\d-\d\d[T ]", text.strip()):
            return found.astimezone()
    except (ValueError, OverflowError, OSError):
        pass
    raise CodexError(
        f"{option} {text!r} is not a date",
        slug="usage-date",
        hint="Write a day (2026-11-20), a day and a time (2026-11-20T18:00), a span (90m, 12h, 7d, 2w), today or yesterday.",
    )


def local_time(at: float) -> datetime | None:
    """Return the local time of unix seconds, or None if they are unknown (0), or out of range."""
    try:
        return datetime.fromtimestamp(at).astimezone() if at > 0 else None
    except (ValueError, OverflowError, OSError):
        return None


def _day(day: date, *, end: bool) -> datetime:
    """Return the first moment of a local day, or the last."""
    if end and day == date.max:
        return datetime.max.replace(tzinfo=UTC)
    if not end:
        return datetime.combine(day, time()).astimezone()
    return datetime.combine(day + timedelta(days=1), time()).astimezone() - timedelta(microseconds=1)
