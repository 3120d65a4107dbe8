"""The instructions that people leave for agents in AGENTS.md files (spec: AGENTS.md discovery)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from codex_framework.errors import CodexError
from codex_framework.roles.context import ContextFacts, Fragment

__all__ = ["AgentsMd"]

_NAMES = ("AGENTS.override.md", "AGENTS.md")
_SEPARATOR = "\n\n--- project-doc ---\n\n"
_BUDGET = 32_768
"""Bytes of all project files together (config: ``project_doc_max_bytes``)."""

_START = "# AGENTS.md instructions for "
_END = "</INSTRUCTIONS>"


class AgentsMd:
    """The person's own file in ``$CODEX_HOME``, and the project's from its root down to the working folder.

    They are read anew for each turn (some ten system calls), so an edit counts from the next turn on.
    """

    name = "agents_md"

    def fragments(self, facts: ContextFacts) -> Iterator[Fragment]:
        """One fragment where there is any text.

        Raises:
            CodexError: After the fragment, for a new thread: some of the text was not sent as it stands in its file.
        """
        found = _Found()
        personal = _personal(facts.codex_home, found)
        project = "\n\n".join(_project(facts.cwd, facts.config, found))
        text = _SEPARATOR.join(part for part in (personal, project) if part)
        if text:
            text = f"{_START}{facts.cwd}\n\n<INSTRUCTIONS>\n{text}\n{_END}"
            yield Fragment(role="user", text=text, start=_START, end=_END, order=100)
        if found.problems and facts.first:
            raise CodexError("; ".join(found.problems), slug="agents-md", hint="The rest of the instructions is used.")


class _Found:
    """What is worth telling a person about the files."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def read(self, path: Path, limit: int = -1) -> bytes | None:
        """The first bytes of a file, or all; None where it is missing or cannot be read."""
        try:
            with path.open("rb") as file:
                return file.read(limit)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            self.problems.append(f"{path} cannot be read: {error.strerror or error}")
            return None

    def text(self, path: Path, data: bytes) -> str:
        """The bytes as text; what is not UTF-8 is replaced."""
        try:
            return data.decode()
        except UnicodeDecodeError:
            self.problems.append(f"{path} is not valid UTF-8; the invalid bytes were replaced")
            return data.decode(errors="replace")


def _personal(codex_home: Path, found: _Found) -> str:
    for name in _NAMES:
        data = found.read(codex_home / name)
        text = found.text(codex_home / name, data).strip() if data else ""
        if text:
            return text
    return ""


def _project(cwd: Path, config: Mapping[str, Any], found: _Found) -> Iterator[str]:
    budget = config.get("project_doc_max_bytes", _BUDGET)
    left = budget if isinstance(budget, int) else _BUDGET
    if left <= 0:
        return
    names = (*_NAMES, *_strings(config.get("project_doc_fallback_filenames")))
    for folder in _folders(cwd, config):
        path = next((folder / name for name in names if os.path.isfile(folder / name)), None)  # noqa: PTH113
        data = found.read(path, left + 1) if path is not None else None
        if path is None or not data:
            continue
        if left == 0:
            found.problems.append(f"{path} is left out: project_doc_max_bytes ({budget}) is used up")
            continue
        if len(data) > left:
            found.problems.append(f"{path} is cut off: project_doc_max_bytes is {budget}")
        text = found.text(path, _cut(data, left))
        left -= min(len(data), left)
        if text.strip():
            yield text


def _cut(data: bytes, limit: int) -> bytes:
    """At most ``limit`` bytes, without a torn character at the end."""
    if len(data) <= limit:
        return data
    end = limit
    while end > limit - 4 and end > 0 and data[end] & 0xC0 == 0x80:
        end -= 1
    return data[:end]


def _folders(cwd: Path, config: Mapping[str, Any]) -> Sequence[Path]:
    """From the project's root, the nearest folder upwards that holds a marker, to ``cwd``; ``cwd`` alone where there is none."""
    markers = config.get("project_root_markers")
    markers = [".git"] if markers is None else _strings(markers)
    here = Path(os.path.realpath(cwd))
    chain = [here, *here.parents]
    for index, folder in enumerate(chain):
        if any(_marks(f"{folder}/{marker}") for marker in markers):
            return chain[index::-1]
    return [here]


def _marks(path: str) -> bool:
    """Whether something marks a project's root.

    An empty ``.git`` does not: sandboxes put one where there is none, and git takes none for a repository.
    """
    if not path.endswith("/.git"):
        return os.path.lexists(path)
    try:
        with os.scandir(path) as entries:
            return next(entries, None) is not None
    except OSError:  # a file, or a folder that cannot be looked into
        return os.path.lexists(path)


def _strings(value: Any) -> list[str]:
    return [part for part in value if isinstance(part, str) and part] if isinstance(value, (list, tuple)) else []
