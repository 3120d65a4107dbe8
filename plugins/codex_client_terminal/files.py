"""File names for completion."""

from __future__ import annotations

import os

from codex_lib_file_search.search import FileSearch

__all__ = ["FileNames"]

_STEP_S = 0.01


class FileNames:
    """The names of the files in a folder, which are found in small steps, so that keys are not delayed.

    Attributes:
        folder: The folder.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._search = FileSearch([folder], os.environ)
        self._query: str | None = None

    def search(self, query: str) -> bool:
        """Search for a moment. Return whether everything has been found."""
        if query != self._query:
            self._query = query
            self._search.start(query)
        return self._search.step(_STEP_S)

    @property
    def found(self) -> list[str]:
        """The best matches, without git's own files. Paths that would need escapes are left out."""
        best = (f"{each.path}/" if each.is_folder else each.path for each in self._search.best())
        return [path for path in best if path.isprintable() and " " not in path and not path.startswith(".git/")]
