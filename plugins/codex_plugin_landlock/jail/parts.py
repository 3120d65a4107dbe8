"""The places of a plan where something else may be done than around them. Pure, and free of imports that cost time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

__all__ = [
    "DENIED",
    "DEV",
    "PROC",
    "READ_ONLY",
    "TMP",
    "WRITABLE",
    "Part",
    "above",
    "enclosing",
    "is_below",
    "parts",
    "wanted",
]

WRITABLE, READ_ONLY, DENIED = "writable", "read-only", "denied"
"""What may be done with a path and what is below it: everything; reading and executing; nothing."""

DEV, PROC, TMP = "/dev", "/proc", "/tmp"  # noqa: S108
"""Folders that a sandbox has of its own, the last one only if asked to."""


class Part(NamedTuple):
    """A path that gets a mount of its own.

    Attributes:
        kind: ``writable``, ``read-only`` or ``denied``.
        pinned: Its surroundings are of the same kind: it has a mount only so that it cannot be moved, for the sake of what is in it.
    """

    path: str
    kind: str
    pinned: bool = False


def parts(plan: Mapping[str, Any]) -> list[Part]:
    """The parts of a plan's data, outer ones first. ``/`` is not among them; its kind is ``plan["root"]``."""
    return [Part(*part) for part in plan["parts"]]


def above(path: str) -> Iterator[str]:
    """The folders above an absolute path, the nearest first; ``/`` is the last."""
    while path != "/":
        path = os.path.dirname(path)
        yield path


def is_below(path: str, folder: str) -> bool:
    """Whether ``path`` lies strictly below ``folder``."""
    return path != folder and path.startswith(folder if folder.endswith("/") else f"{folder}/")


def enclosing(changed: Mapping[str, Any], path: str) -> str:
    """The nearest folder above ``path`` that is in ``changed``, or ``/``."""
    return next((folder for folder in above(path) if folder in changed), "/")


def wanted(plan: Mapping[str, Any]) -> list[str]:
    """Paths that have to exist outside, outer ones first: they may not be made, so there must be something to mount over."""
    listed = parts(plan)
    kinds = {"/": plan["root"], **{part.path: part.kind for part in listed if not part.pinned}}
    found = []
    for part in listed:
        around = enclosing(kinds, part.path)
        own = (plan["private_tmp"] and around == TMP) or (is_below(part.path, DEV) and not is_below(around, DEV))
        if kinds[around] == WRITABLE and (part.pinned or part.kind != WRITABLE) and not own:
            found.append(part.path)
    return found
