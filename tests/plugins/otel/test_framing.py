"""What plugins measure that is not plain data."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any

from codex_framework import Measurement
from codex_plugin_otel.framing import LONGEST, encoded, frames

ATTRIBUTES = 5
"""The place of attributes in a row."""


def passed(**attributes: Any) -> Any:
    """Return attributes as the worker gets them, beside a value that forces them to be written as text."""
    odd = Measurement(kind="span", name="x", time_s=1.0, attributes={**attributes, "odd": object})
    ((row,),) = frames(BytesIO(encoded([odd])))
    return row[ATTRIBUTES]


def depth_of(value: Any) -> int:
    if isinstance(value, Mapping):
        value = list(value.values())
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


def test_plain_values_stay_beside_one_that_is_not() -> None:
    found = passed(text="t", number=5, truth=True, listed=[1, "a"], table={"a": 1})
    assert found == {"text": "t", "number": 5, "truth": True, "listed": [1, "a"], "table": {"a": 1}, "odd": str(object)}
    assert passed(text="x" * (LONGEST + 1))["text"] == "x" * LONGEST


def test_values_within_values_end_somewhere() -> None:
    table: dict[str, Any] = {}
    table["again"] = table
    listed: list[Any] = []
    listed.append(listed)
    found = passed(table=table, listed=listed)
    assert depth_of(found["table"]) < 10
    assert depth_of(found["listed"]) < 10


class Broken:
    def __str__(self) -> str:
        raise ValueError("no")


def test_a_value_that_cannot_be_written_is_named_by_its_type() -> None:
    assert passed(broken=Broken())["broken"] == "<Broken>"
