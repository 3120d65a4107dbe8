"""The parts of a plan: paths whose rule differs from their surroundings. This module is pure and avoids expensive imports."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from codex_lib_confinement.paths import is_below

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
    "parts",
    "wanted",
]

WRITABLE, READ_ONLY, DENIED = "writable", "read-only", "denied"
"""The kinds of paths: all access, only reading and executing, or no access. A kind applies to everything below the path."""

DEV, PROC, TMP = "/dev", "/proc", "/tmp"  # noqa: S108
"""Folders that a sandbox replaces with its own. ``/tmp`` is replaced only on request."""


class Part(NamedTuple):
    """A path with a separate mount.

    Attributes:
        path: The path.
        kind: ``writable``, ``read-only`` or ``denied``.
        pinned: Whether its surroundings are of the same kind. Its mount then only prevents moving it, which protects its content.
    """

    path: str
    kind: str
    pinned: bool = False


def parts(plan: Mapping[str, Any]) -> list[Part]:
    """Return the parts in a plan's data, outer ones first. ``/`` is not included; its kind is ``plan["root"]``."""
    return [Part(*part) for part in plan["parts"]]


def above(path: str) -> Iterator[str]:
    """Yield the parents of an absolute path, the nearest first; ``/`` is the last."""
    while path != "/":
        path = os.path.dirname(path)
        yield path


def enclosing(changed: Mapping[str, Any], path: str) -> str:
    """Return the nearest parent of ``path`` that is in ``changed``, or ``/``."""
    return next((folder for folder in above(path) if folder in changed), "/")


def wanted(plan: Mapping[str, Any]) -> list[str]:
    """Return the paths that must exist outside of the sandbox, outer ones first.

    Commands must not be able to create these paths, so something must exist there to mount over.
    """
    listed = parts(plan)
    kinds = {"/": plan["root"], **{part.path: part.kind for part in listed if not part.pinned}}
    paths = []
    for part in listed:
        outer = enclosing(kinds, part.path)
        is_private = (plan["private_tmp"] and outer == TMP) or (is_below(part.path, DEV) and not is_below(outer, DEV))
        if kinds[outer] == WRITABLE and (part.pinned or part.kind != WRITABLE) and not is_private:
            paths.append(part.path)
    return paths
