"""Text for terminals: tables, and values without secrets and control characters."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

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
"""What is shown instead of a secret (Codex's)."""


def paragraph(text: str) -> str:
    """Return a text of several lines, in which other control characters are escaped."""
    return "\n".join(printable(line) for line in text.split("\n"))


def text_for_stdout(text: str) -> str:
    """Return a text of several lines for stdout. On a terminal, control characters are escaped; elsewhere it is unchanged."""
    if not sys.stdout.isatty():
        return text
    return "\n".join("\t".join(printable(part) for part in line.split("\t")) for line in text.split("\n"))


def block_text(block: Mapping[str, Any]) -> str:
    """Return a block of content for people: a text as it is, and one line for any other kind."""
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
    """Return values as one text. ``-`` stands for none."""
    return printable(separator.join(values)) or "-"


def masked(names: Iterable[str]) -> str:
    """Return names with their values masked."""
    return listed(f"{name}={MASK}" for name in names)


def masked_url(url: str) -> str:
    """Return a URL in which a login and the values of the query are masked."""
    url = re.sub(r"(?<=://)[^/?#]*@", f"{MASK}@", url)
    return printable(re.sub(r"(?<=[?&])([^=&#]*=)[^&#]*", rf"\1{MASK}", url))


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table. On a terminal that is too narrow for it, print a paragraph for each row."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    if columns is not None and sum(widths) + 2 * (len(widths) - 1) > columns:
        _print_paragraphs(header, rows)
        return
    for row in (header, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def _print_paragraphs(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    for number, row in enumerate(rows):
        if number:
            click.echo()
        click.echo(row[0])
        for name, cell in zip(header[1:], row[1:], strict=True):
            if cell != "-":
                click.echo(f"  {name}: {cell}")


def masked_map(values: Mapping[str, str]) -> dict[str, str]:
    """Return a table with its values masked."""
    return dict.fromkeys(values, MASK)
