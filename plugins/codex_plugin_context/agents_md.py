"""Instructions for agents in AGENTS.md files (spec: AGENTS.md discovery)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from codex_framework.contract.errors import CodexError
from codex_framework.contract.roles.context import ContextSource, Fragment
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.toolkit.projects import project_root

__all__ = ["AgentsMd"]

_NAMES = ("AGENTS.override.md", "AGENTS.md")
_SEPARATOR = "\n\n--- project-doc ---\n\n"
_BUDGET = 32_768
"""Total size of all project files in bytes (config: ``project_doc_max_bytes``)."""

_START = "# AGENTS.md instructions for "
_END = "</INSTRUCTIONS>"


class AgentsMd(ContextSource):
    """The user's file in ``$CODEX_HOME`` and the project's files, from the project root down to the working folder.

    The files are read again for each turn (about ten system calls), so an edit takes effect in the next turn.
    """

    name = "agents_md"

    def fragments(self, facts: TurnFacts) -> Iterator[Fragment]:
        """Yield one fragment with the text of all files, or nothing if they contain no text.

        Raises:
            CodexError: Some of the text was cut off, replaced or unreadable. Raised after the fragment, and only in a
                thread's first turn.
        """
        reader = _Reader()
        personal = "" if facts.codex_home is None else _personal(facts.codex_home, reader)
        project = "\n\n".join(_project(facts.cwd, facts.config, reader))
        text = _SEPARATOR.join(part for part in (personal, project) if part)
        if text:
            text = f"{_START}{facts.cwd}\n\n<INSTRUCTIONS>\n{text}\n{_END}"
            yield Fragment(role="user", text=text, start=_START, end=_END, order=100)
        if reader.problems and facts.first:
            raise CodexError("; ".join(reader.problems), slug="agents-md", hint="The rest of the instructions is used.")


class _Reader:
    """A reader of files that collects the problems to report to the user."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def read(self, path: Path, limit: int = -1) -> bytes | None:
        """Return the first ``limit`` bytes of a file, or all of it if ``limit`` is -1.

        None means that the file does not exist or cannot be read. An unreadable file is added to ``problems``.
        """
        try:
            with path.open("rb") as file:
                return file.read(limit)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            self.problems.append(f"{path} cannot be read: {error.strerror or error}")
            return None

    def text(self, path: Path, data: bytes) -> str:
        """Decode ``data`` as UTF-8; invalid bytes are replaced and reported."""
        try:
            return data.decode()
        except UnicodeDecodeError:
            self.problems.append(f"{path} is not valid UTF-8; the invalid bytes were replaced")
            return data.decode(errors="replace")


def _personal(codex_home: Path, reader: _Reader) -> str:
    for name in _NAMES:
        data = reader.read(codex_home / name)
        text = reader.text(codex_home / name, data).strip() if data else ""
        if text:
            return text
    return ""


def _project(cwd: Path, config: Mapping[str, Any], reader: _Reader) -> Iterator[str]:
    budget = config.get("project_doc_max_bytes", _BUDGET)
    left = budget if isinstance(budget, int) else _BUDGET
    if left <= 0:
        return
    names = (*_NAMES, *_strings(config.get("project_doc_fallback_filenames")))
    for folder in _folders(cwd, config):
        path = next((folder / name for name in names if os.path.isfile(folder / name)), None)  # noqa: PTH113
        data = reader.read(path, left + 1) if path is not None else None
        if path is None or not data:
            continue
        if left == 0:
            reader.problems.append(f"{path} is left out: project_doc_max_bytes ({budget}) is used up")
            continue
        if len(data) > left:
            reader.problems.append(f"{path} is cut off: project_doc_max_bytes is {budget}")
        text = reader.text(path, _cut(data, left))
        left -= min(len(data), left)
        if text.strip():
            yield text


def _cut(data: bytes, limit: int) -> bytes:
    """Return at most ``limit`` bytes of ``data``, cut at a character boundary."""
    if len(data) <= limit:
        return data
    end = limit
    while end > limit - 4 and end > 0 and data[end] & 0xC0 == 0x80:
        end -= 1
    return data[:end]


def _folders(cwd: Path, config: Mapping[str, Any]) -> Sequence[Path]:
    """Return the folders from the project root down to ``cwd``.

    The project root is the nearest folder, going up from ``cwd``, that contains a marker. Without one, only ``cwd`` is returned.
    """
    markers = config.get("project_root_markers")
    markers = [".git"] if markers is None else _strings(markers)
    here = Path(os.path.realpath(cwd))
    chain = [here, *here.parents]
    return chain[chain.index(project_root(here, markers)) :: -1]


def _strings(value: Any) -> list[str]:
    return [part for part in value if isinstance(part, str) and part] if isinstance(value, (list, tuple)) else []
