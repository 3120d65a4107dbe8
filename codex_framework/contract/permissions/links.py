"""The home folder at the beginning of a path, and the symlinks on the way to it."""

from __future__ import annotations

import os

__all__ = ["LINKS_LIMIT", "RealPaths", "home_expanded", "links_on_the_way", "resolved"]

LINKS_LIMIT = 40
"""How many symlinks are followed for one path (the limit of Linux)."""


def home_expanded(path: str) -> str:
    """Return a path with the user's home folder in place of ``~``.

    ``~NAME`` is an ordinary name, as is ``~`` where the home folder is unknown. Nothing is raised, because models send such paths.
    """
    if path != "~" and not path.startswith("~/"):
        return path
    home = os.path.expanduser("~")  # noqa: PTH111  # the method of a path raises an error for an unknown home
    return home + path[1:] if home.startswith("/") else path


class RealPaths:
    """A resolver of real paths, like ``os.path.realpath``, that caches the parent folders during one call."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {"/": "/", "": "/"}

    def __call__(self, path: str) -> str:
        """Return the real path of an absolute path. In a circle of links, the first link is treated as a file."""
        return self._resolve(path, LINKS_LIMIT)

    def _resolve(self, path: str, links: int) -> str:
        found = self._known.get(path)
        if found is not None:
            return found
        above, _, name = path.rpartition("/")
        folder = self._resolve(above, links)
        if name in ("", "."):
            found = folder
        elif name == "..":
            found = os.path.dirname(folder)  # noqa: PTH120
        else:
            found = f"{folder.rstrip('/')}/{name}"
            try:
                target = os.readlink(found)  # noqa: PTH115
            except (OSError, ValueError):
                pass
            else:
                if links:
                    found = self._resolve(os.path.join(folder, target), links - 1)  # noqa: PTH118
        if links == LINKS_LIMIT:
            self._known[path] = found
        return found


def links_on_the_way(place: str) -> list[str]:
    """Return the symlinks on the way to a path, each below a real folder."""
    return resolved(place)[1]


def resolved(place: str) -> tuple[str, list[str]]:
    """Return the real path of an absolute path, and the symlinks on the way to it, each below a real folder.

    Unlike ``os.path.realpath``, this does not fail if the path changes at the same time. In a circle of links, the real path
    contains one of them.
    """
    at = "/"
    pending = place.split("/")[::-1]
    links: list[str] = []
    while pending:
        part = pending.pop()
        if part in ("", "."):
            continue
        if part == "..":
            at = os.path.dirname(at)  # noqa: PTH120
            continue
        path = f"{at.rstrip('/')}/{part}"
        try:
            target = os.readlink(path) if len(links) < LINKS_LIMIT else ""  # noqa: PTH115
        except (OSError, ValueError):
            target = ""
        if not target:
            at = path
            continue
        links.append(path)
        pending += target.split("/")[::-1]
        if target.startswith("/"):
            at = "/"
    return at, links
