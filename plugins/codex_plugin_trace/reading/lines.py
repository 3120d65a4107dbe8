"""Reading of a file of JSON lines, as far as it can be read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import attrs

from codex_framework.contract.errors import CodexError
from codex_framework.toolkit.regular_files import open_regular
from codex_framework.toolkit.strict_json import check_depth

__all__ = ["Lines", "unreadable"]

_LONGEST = 64 * 1024 * 1024
"""Longest line in bytes; a longer one is skipped."""

_DEEPEST = 300
"""A line with data that are nested more deeply is skipped: they could not be shown."""


@attrs.define
class Lines:
    """The lines of a file.

    Attributes:
        damaged: The numbers of the lines that could not be read.
        repaired: The number of lines with bytes that are not UTF-8.
        is_cut: Whether the last line is incomplete, which is normal for a killed or running run.
    """

    path: Path
    damaged: list[int] = attrs.field(factory=list)
    repaired: int = 0
    is_cut: bool = False

    def read(self) -> Iterator[dict[str, Any]]:
        """Yield the objects of all lines that can be read.

        Raises:
            CodexError: The file cannot be opened or read.
        """
        try:
            with _open_file(self.path) as file:
                yield from self._records(file)
        except OSError as error:
            raise unreadable(self.path, error.strerror or str(error)) from error

    @property
    def warnings(self) -> list[str]:
        """The problems of the file, as sentences."""
        found = []
        if self.damaged:
            count = len(self.damaged)
            lines = f"{count} lines are" if count > 1 else "1 line is"
            found.append(f"{lines} damaged and not shown (the first is line {self.damaged[0]}).")
        if self.is_cut:
            found.append("The last line is incomplete: the run was killed, or is still running.")
        if self.repaired:
            lines = f"{self.repaired} lines contain" if self.repaired > 1 else "1 line contains"
            found.append(f"{lines} bytes that are not UTF-8. They are shown as �.")
        return found

    def _records(self, file: BinaryIO) -> Iterator[dict[str, Any]]:
        number = 0
        while line := file.readline(_LONGEST):
            number += 1
            is_whole = line.endswith(b"\n")
            if not is_whole and len(line) == _LONGEST:
                while (rest := file.readline(_LONGEST)) and not rest.endswith(b"\n"):
                    pass
                self.damaged.append(number)
                continue
            if not line.strip(b" \t\r\n\0"):
                continue
            record = self._record(line)
            if record is not None:
                yield record
            elif is_whole:
                self.damaged.append(number)
            else:
                self.is_cut = True

    def _record(self, line: bytes) -> dict[str, Any] | None:
        try:
            decoded = line.decode("utf-8")
        except UnicodeDecodeError:
            decoded = line.decode("utf-8", "replace")
            self.repaired += 1
        try:
            record = json.loads(decoded)
            check_depth(record, decoded, _DEEPEST)
        except (ValueError, RecursionError):
            return None
        return record if isinstance(record, dict) else None


def unreadable(path: Path, reason: str, hint: str = "Name a trace, or a recorded session.") -> CodexError:
    """Return the error for a file that cannot be shown."""
    return CodexError(f"cannot show {path}: {reason}", slug="trace-unreadable", hint=hint)


def _open_file(path: Path) -> BinaryIO:
    try:
        file = os.fdopen(open_regular(path), "rb")
    except IsADirectoryError as error:
        raise unreadable(path, "it is a folder") from error
    return _decompress(path, file) if path.name.endswith(".zst") else file


def _decompress(path: Path, file: BinaryIO) -> BinaryIO:
    from codex_framework.toolkit.compressed import ZstandardNeededError, decompressing

    try:
        return decompressing(file)
    except ZstandardNeededError:
        hint = f"Decompress it: zstd -d {path}, or install the package zstandard."
        raise unreadable(path, "it is compressed, and the package zstandard is not installed", hint) from None
