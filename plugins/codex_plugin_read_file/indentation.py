"""Finds the block around a line of a file, by indentation."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

__all__ = ["Around", "block"]

_TAB = 4
"""Columns of a tab, and of one level of indentation (Codex: 4)."""

_COMMENTS = ("#", "//", "--")


@attrs.frozen(kw_only=True)
class Around:
    """The options for the block around a line.

    Attributes:
        max_levels: The number of levels of enclosing blocks. 0 means all.
        include_siblings: Whether to show other blocks of the outermost level too.
        include_header: Whether to show comments right above the outermost block.
    """

    max_levels: int = 0
    include_siblings: bool = False
    include_header: bool = True


def block(lines: Sequence[str], anchor: int, around: Around, limit: int) -> range:
    """Return the indices of the lines to show, without empty lines at both ends.

    Args:
        anchor: The index of the line that is always shown.
        limit: Maximum number of lines. Both directions get the same share as long as both have lines.
    """
    indents = _indents(lines)
    floor = 0 if around.max_levels == 0 else max(indents[anchor] - around.max_levels * _TAB, 0)
    first = _upwards(lines, indents, anchor, floor, around)
    last = _downwards(indents, anchor, floor, around)
    first, last = _clamp_range(first, anchor, last, limit)
    while first < anchor and not lines[first].strip():
        first += 1
    while last > anchor and not lines[last].strip():
        last -= 1
    return range(first, last + 1)


def _indents(lines: Sequence[str]) -> list[int]:
    """Return the columns before the first character of each line. An empty line counts like the line above."""
    indents: list[int] = []
    for line in lines:
        bare = line.lstrip(" \t")
        if bare.strip():
            indents.append(sum(_TAB if mark == "\t" else 1 for mark in line[: len(line) - len(bare)]))
        else:
            indents.append(indents[-1] if indents else 0)
    return indents


def _upwards(lines: Sequence[str], indents: Sequence[int], anchor: int, floor: int, around: Around) -> int:
    """Return the first line to show."""
    at = anchor
    headed = indents[anchor] == floor
    while at > 0 and indents[at - 1] >= floor:
        above = at - 1
        if indents[above] == floor and not around.include_siblings:
            comment = lines[above].strip().startswith(_COMMENTS)
            if headed and not (comment and around.include_header):
                break
            headed = headed or not comment
        at = above
    return at


def _downwards(indents: Sequence[int], anchor: int, floor: int, around: Around) -> int:
    """Return the last line to show, which includes the line that closes the outermost block: the first one of its level."""
    at = anchor
    while at + 1 < len(indents) and indents[at + 1] >= floor:
        at += 1
        if indents[at] == floor and not around.include_siblings:
            break
    return at


def _clamp_range(first: int, anchor: int, last: int, limit: int) -> tuple[int, int]:
    if last - first < limit:
        return first, last
    above, below = anchor - first, last - anchor
    half = limit // 2
    up = min(above, max(half, limit - 1 - below))
    return anchor - up, anchor + limit - 1 - up
