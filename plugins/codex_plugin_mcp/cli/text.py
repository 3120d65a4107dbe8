"""Text for terminals: tables, and values without secrets and control characters."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from codex_framework.toolkit.tables import table_lines
from codex_framework.toolkit.terminal_text import printable

__all__ = [
    "MASK",
    "block_text",
    "listed",
    "masked",
    "masked_map",
    "masked_url",
    "paragraph",
    "print_table",
    "text_for_stdout",
]

MASK = "*****"
"""The replacement for a secret (Codex's)."""


def paragraph(text: str) -> str:
    """Return a text of several lines, in which other control characters are escaped."""
    return "\n".join(printable(line) for line in text.split("\n"))


def text_for_stdout(text: str) -> str:
    """Return a text of several lines for stdout. On a terminal, control characters are escaped; elsewhere it is unchanged."""
    if not sys.stdout.isatty():
        return text
    return "\n".join("\t".join(printable(part) for part in line.split("\t")) for line in text.split("\n"))


def block_text(block: Mapping[str, Any]) -> str:
    """Return a block of content for people: a text unchanged, and one line for any other kind."""
    kind = printable(str(block.get("type")))
    if kind == "text":
        return text_for_stdout(str(block.get("text", "")))
    resource = block.get("resource") if isinstance(block.get("resource"), Mapping) else block
    assert isinstance(resource, Mapping)
    if isinstance(resource.get("text"), str):
        return text_for_stdout(resource["text"])
    data = resource.get("data", resource.get("blob"))
    size = f", {len(data) * 3 // 4} bytes" if isinstance(data, str) else ""
    name = printable(" ".join(str(resource[key]) for key in ("uri", "mimeType") if key in resource))
    return f"[{kind}: {name}{size}]"


def listed(values: Iterable[str], separator: str = ", ") -> str:
    """Return values as one text. ``-`` if there are no values."""
    return printable(separator.join(values)) or "-"


def masked(names: Iterable[str]) -> str:
    """Return names with their values masked."""
    return listed(f"{name}={MASK}" for name in names)


def masked_url(url: str) -> str:
    """Return a URL in which a login and the values of the query are masked."""
    url = re.sub(r"(?<=://)[^/?#]*@", f"{MASK}@", url)
    return printable(re.sub(r"(?<=[?&])([^=&#]*=)[^&#]*", rf"\1{MASK}", url))


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table."""
    click.echo("\n".join(table_lines(header, rows)))


def masked_map(values: Mapping[str, str]) -> dict[str, str]:
    """Return a table with its values masked."""
    return dict.fromkeys(values, MASK)
