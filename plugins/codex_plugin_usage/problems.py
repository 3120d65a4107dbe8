"""Unreadable data. It is counted, and a few places are named."""

from __future__ import annotations

from typing import Any

import attrs

__all__ = ["Problems"]

_NAMED = 20
"""The number of places that are named, so that thousands of broken files do not fill the memory."""


@attrs.define
class Problems:
    """The unreadable data.

    Attributes:
        skipped_lines: The number of lines that are not valid.
        damaged_files: The number of files with such lines.
        unreadable: The number of files and folders that could not be read.
        compressed: The number of compressed files that could not be read because ``zstandard`` is not installed.
        places: The first of these, as sentences.
    """

    skipped_lines: int = 0
    damaged_files: int = 0
    unreadable: int = 0
    compressed: int = 0
    places: list[str] = attrs.field(factory=list)

    def folder(self, path: str, error: OSError) -> None:
        """Note a folder that cannot be listed."""
        self.unreadable += 1
        self._name(f"cannot read the folder {path}: {error.strerror or error}")

    def file(self, path: str, reason: str) -> None:
        """Note a file that cannot be read, or not to its end."""
        self.unreadable += 1
        self._name(f"cannot read {path}: {reason}")

    def lines(self, path: str, count: int) -> None:
        """Note lines of a file that were skipped."""
        self.skipped_lines += count
        self.damaged_files += 1
        self._name(f"skipped {count} unreadable line{'' if count == 1 else 's'} of {path}")

    def needs_zstandard(self) -> None:
        """Note a compressed file that was not read."""
        self.compressed += 1

    def sentences(self) -> list[str]:
        """Return all of it, as sentences for the user."""
        told = list(self.places)
        more = self.unreadable + self.damaged_files - len(self.places)
        if more > 0:
            told.append(f"{more} more files or folders have such problems")
        if self.compressed:
            files = (
                "1 compressed session was" if self.compressed == 1 else f"{self.compressed} compressed sessions were"
            )
            told.append(f"{files} not read; to include them: pip install zstandard")
        return told

    def as_json(self) -> dict[str, Any]:
        """Return the counts and the named places."""
        return attrs.asdict(self)

    def _name(self, place: str) -> None:
        if len(self.places) < _NAMED:
            self.places.append(place)
