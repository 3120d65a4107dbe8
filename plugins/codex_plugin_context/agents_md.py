"""Instructions for agents in AGENTS.md files (spec: AGENTS.md discovery)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from codex_framework.contract.errors import CodexError
from codex_framework.contract.roles.context import ContextSource, Fragment
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.toolkit.files import Files, NotPermittedError
from codex_framework.toolkit.projects import project_folders, root_markers, trust_level

__all__ = ["AgentsMd"]

_NAMES = ("AGENTS.override.md", "AGENTS.md")
_SEPARATOR = "\n\n--- project-doc ---\n\n"
_BUDGET = 32_768
"""Total size of all project files in bytes (config: ``project_doc_max_bytes``)."""

_START = "# AGENTS.md instructions"
_END = "</INSTRUCTIONS>"
_REPLACES = "These AGENTS.md instructions replace all previously provided AGENTS.md instructions."
_REVOKED = f"{_START}\n\n<INSTRUCTIONS>\nThe previously provided AGENTS.md instructions no longer apply.\n{_END}"


class AgentsMd(ContextSource):
    """The user's file in ``$CODEX_HOME`` and the project's files, from the project root down to the working folder.

    An edit takes effect in the next turn. The files of a project that the user distrusts are not read.
    """

    name = "agents_md"
    reads = frozenset({"settings", "environments", "files"})

    def fragments(self, facts: TurnFacts) -> Iterator[Fragment]:
        """Yield one fragment with the text of all files. Without any text, it revokes earlier instructions.

        Raises:
            CodexError: Some of the text was cut off, replaced or unreadable. Raised after the fragment, and only in a
                thread's first turn.
        """
        problems: list[str] = []
        personal = "" if facts.codex_home is None else _personal(str(facts.codex_home), _Reader(Files(), problems))
        project = "" if facts.environments == () else "\n\n".join(_project(facts, problems))
        text = _SEPARATOR.join(part for part in (personal, project) if part)
        if text or not problems:
            yield _fragment(None if facts.environments == () else facts.cwd, text)
        if problems and facts.first:
            raise CodexError("; ".join(problems), slug="agents-md", hint="The rest of the instructions is used.")

    def files(self, facts: TurnFacts) -> Iterator[str]:
        """Yield the places of all files, and what marks the root of the project."""
        if facts.codex_home is not None:
            yield from (f"{facts.codex_home}/{name}" for name in _NAMES)
        if facts.environments != ():
            folders = _folders(facts.cwd, facts.config)
            names = _project_names(facts.config)
            yield from (f"{folder}/{name}" for folder in folders for name in names)
            yield from root_markers(folders[-1], _markers(facts.config))


def _fragment(cwd: Path | None, text: str) -> Fragment:
    head = f"{_START}{'' if cwd is None else f' for {cwd}'}\n\n<INSTRUCTIONS>\n"
    return Fragment(
        role="user",
        text=f"{head}{text}\n{_END}" if text else "",
        start=_START,
        end=_END,
        order=100,
        replacement=f"{head}{_REPLACES}\n\n{text}\n{_END}" if text else "",
        revocation=_REVOKED,
    )


class _Reader:
    """A reader of files that collects the problems to report to the user."""

    def __init__(self, files: Files, problems: list[str]) -> None:
        self._files = files
        self.problems = problems

    def read(self, path: str, limit: int = -1) -> bytes | None:
        """Return the first ``limit`` bytes of a file, or all of it if ``limit`` is -1.

        None if the file does not exist or cannot be read. An unreadable file is added to ``problems``.
        """
        try:
            return self._files.read(path, limit)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except NotPermittedError:
            self.problems.append(f"{path} is not used: its target may not be read as instructions")
            return None
        except OSError as error:
            self.problems.append(f"{path} cannot be read: {error.strerror or error}")
            return None

    def text(self, path: str, data: bytes) -> str:
        """Decode ``data`` as UTF-8; invalid bytes are replaced and reported."""
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError:
            self.problems.append(f"{path} is not valid UTF-8; the invalid bytes were replaced")
            return data.decode("utf-8-sig", "replace")


def _personal(codex_home: str, reader: _Reader) -> str:
    for name in _NAMES:
        path = f"{codex_home}/{name}"
        data = reader.read(path) if _exists(path) else None
        text = reader.text(path, data).strip() if data else ""
        if text:
            return text
    return ""


def _exists(path: str) -> bool:
    """Return whether a file should be opened. Most do not exist, which is found out much faster than by opening them safely."""
    try:
        os.stat(path)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # opening it reports the reason
        return True
    return True


class _Instructions:
    """Permissions to read instructions of a project.

    The text is sent to the model automatically. So a path whose target is outside of the project (or in ``$CODEX_HOME``) is
    followed only if the target is a Markdown file, and not a file with keys or the like. Names from the configuration do not
    count here, because they may come from a file of the project, like the symlink.

    Args:
        facts: The turn.
        root: The project.
    """

    def __init__(self, facts: TurnFacts, root: str) -> None:
        self._access = facts.access
        self._codex_home = facts.codex_home
        self._root = root

    def permits_reading(self, path: str, links: Iterable[str] = ()) -> bool:
        """Return whether a real path may be read that was reached by ``links``."""
        if not self._access.permits_reading(path, links):
            return False
        if path.endswith(".md"):
            return True
        if not _is_below(path, self._root):
            return False
        return self._codex_home is None or not _is_below(path, os.path.realpath(self._codex_home))

    def permits_writing(self, path: str, links: Iterable[str] = ()) -> bool:  # noqa: ARG002  # nothing is written
        """Return False."""
        return False


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder.rstrip('/')}/")


def _project(facts: TurnFacts, problems: list[str]) -> Iterator[str]:
    config = facts.config
    budget = config.get("project_doc_max_bytes", _BUDGET)
    left = budget if isinstance(budget, int) else _BUDGET
    if left <= 0 or trust_level(config.get("projects") or {}, facts.cwd) == "untrusted":  # as in Codex
        return
    names = _project_names(config)
    folders = _folders(facts.cwd, config)
    reader = _Reader(Files(_Instructions(facts, folders[0])), problems)
    for folder in folders:
        path = next((path for path in [os.path.join(folder, name) for name in names] if os.path.isfile(path)), None)  # noqa: PTH113, PTH118
        data = reader.read(path, left + 1) if path is not None else None
        if path is None or not data:
            continue
        if left == 0:
            reader.problems.append(f"{path} is skipped: project_doc_max_bytes ({budget}) is used up")
            continue
        if len(data) > left:
            reader.problems.append(f"{path} is truncated: project_doc_max_bytes is {budget}")
        text = reader.text(path, _truncate_bytes(data, left))
        left -= min(len(data), left)
        if text.strip():
            yield text


def _truncate_bytes(data: bytes, limit: int) -> bytes:
    """Return at most ``limit`` bytes of ``data``, cut at a character boundary."""
    if len(data) <= limit:
        return data
    end = limit
    while end > limit - 4 and end > 0 and data[end] & 0xC0 == 0x80:
        end -= 1
    return data[:end]


def _folders(cwd: Path, config: Mapping[str, Any]) -> Sequence[str]:
    """Return the folders from the project root down to ``cwd``.

    The project root is the nearest folder, going up from ``cwd``, that contains a marker. Without one, only ``cwd`` is returned.
    """
    return project_folders(os.path.realpath(cwd), _markers(config))[::-1]


def _markers(config: Mapping[str, Any]) -> Sequence[str]:
    markers = config.get("project_root_markers")
    return [".git"] if markers is None else _strings(markers)


def _project_names(config: Mapping[str, Any]) -> Sequence[str]:
    return (*_NAMES, *_strings(config.get("project_doc_fallback_filenames")))


def _strings(value: Any) -> list[str]:
    return [part for part in value if isinstance(part, str) and part] if isinstance(value, (list, tuple)) else []
