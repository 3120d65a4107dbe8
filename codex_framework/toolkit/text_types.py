"""Types of tool arguments without a native JSON form: dates, times, durations, UUIDs and decimal numbers.

Each is a string in a standard format. The modules of these types are imported when a tool uses one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from codex_framework.contract.value import Value, field
from codex_framework.toolkit.arguments import Argument, wrong_value

if TYPE_CHECKING:
    from datetime import timedelta
    from decimal import Decimal

__all__ = ["Text", "text_type", "to_text"]


class Text(Value):
    """A string in a certain format.

    Attributes:
        noun: The name of the format with its article.
        make: Converts the string. Raises ValueError or ArithmeticError if it does not have the format.
        write: Converts a value to its string.
        format: The schema besides ``"type": "string"``.
        numbers: Whether a JSON number is accepted as well.
    """

    noun: str
    make: Callable[[str], Any]
    write: Callable[[Any], str]
    format: Mapping[str, Any] = field(factory=dict)
    numbers: bool = False

    def row(self) -> Argument:
        """Return the row of an argument with this format."""
        return Argument("any", schema={"type": "string", **self.format}, convert=self)

    def __call__(self, value: Any) -> Any:
        """Convert a JSON value.

        Raises:
            ValueError: It does not have the format.
        """
        if self.numbers and isinstance(value, (int, float)) and not isinstance(value, bool):
            value = repr(value)  # the shortest text that stands for the number, so the one that was sent
        if isinstance(value, str):
            try:
                return self.make(value)
            except (ValueError, ArithmeticError):
                pass
        raise wrong_value(self.noun, value)


def text_type(kind: type) -> Text | None:
    """Return the format of a class of the standard library, or None if it has no text format."""
    maker = _TYPES.get((kind.__module__, kind.__qualname__))
    return None if maker is None else maker()


def to_text(value: object) -> str | None:
    """Return the text form of a value, or None if its type has no text form."""
    for kind in type(value).__mro__:
        if (found := text_type(kind)) is not None:
            return found.write(value)
    return None


def _datetime() -> Text:
    from datetime import datetime

    noun = "a date and time such as 2026-01-31T13:45:00Z"
    return Text(noun, datetime.fromisoformat, datetime.isoformat, {"format": "date-time"})


def _date() -> Text:
    from datetime import date

    return Text("a date such as 2026-01-31", date.fromisoformat, date.isoformat, {"format": "date"})


def _time() -> Text:
    from datetime import time

    return Text("a time such as 13:45:00", time.fromisoformat, time.isoformat, {"format": "time"})


def _timedelta() -> Text:
    return Text("a duration such as P1DT2H30M", _read_duration, _format_duration, {"format": "duration"})


def _uuid() -> Text:
    from uuid import UUID

    return Text("a UUID", UUID, str, {"format": "uuid"})


def _decimal() -> Text:
    noun = 'a decimal number in a string such as "1.50"'
    return Text(noun, _read_decimal, str, {"pattern": r"^-?[0-9]+(\.[0-9]+)?$"}, numbers=True)


_TYPES: Mapping[tuple[str, str], Callable[[], Text]] = {
    ("datetime", "datetime"): _datetime,
    ("datetime", "date"): _date,
    ("datetime", "time"): _time,
    ("datetime", "timedelta"): _timedelta,
    ("uuid", "UUID"): _uuid,
    ("decimal", "Decimal"): _decimal,
}
"""By module and name, so that recognising a class imports nothing."""


def _read_decimal(text: str) -> Decimal:
    from decimal import Decimal

    number = Decimal(text)
    if not number.is_finite():
        raise ValueError("not finite")
    return number


_NUMBER = r"(\d+(?:\.\d+)?)"
_DURATION = re.compile(
    rf"(?P<sign>[+-]?)P(?=.)(?:{_NUMBER}W)?(?:{_NUMBER}D)?(?:T(?=.)(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?"
)


def _read_duration(text: str) -> timedelta:
    """Read a duration of ISO 8601. Years and months have no fixed length and are refused."""
    from datetime import timedelta

    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError("no duration")
    sign, *parts = match.groups()
    weeks, days, hours, minutes, seconds = (float(part or 0) for part in parts)
    length = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    return -length if sign == "-" else length


def _format_duration(length: timedelta) -> str:
    if length.days < 0:
        return f"-{_format_duration(-length)}"
    days = f"{length.days}D" if length.days else ""
    if not (length.seconds or length.microseconds):
        return f"P{days or '0D'}"
    seconds = (
        f"{length.seconds}.{length.microseconds:06d}".rstrip("0").rstrip(".") if length.microseconds else length.seconds
    )
    return f"P{days}T{seconds}S"
