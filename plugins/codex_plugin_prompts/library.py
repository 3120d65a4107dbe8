"""The prompts in ``$CODEX_HOME/prompts``. They are read when they are used, so a change takes effect immediately."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from codex_framework.toolkit.files import Files, NotPermittedError
from codex_plugin_prompts.events import CustomPrompt

__all__ = ["FOLDER", "MAX_SIZE", "Library", "PromptFileError", "find_prompt", "read_prompts"]

FOLDER = "prompts"

MAX_SIZE = 1 << 20
"""Maximum size of a file in bytes: the limit of a user's input."""

MAX_FILES = 10_000
"""Maximum number of entries of the folder that are read."""

_ENDING = ".md"
_FENCE = "---"
_HINTS = ("argument-hint", "argument_hint")


class PromptFileError(Exception):
    """A file cannot be used. Its text says why, for the user."""


class Library(NamedTuple):
    """All prompts.

    Attributes:
        prompts: By name.
        problems: Files that cannot be used, as sentences.
    """

    prompts: Sequence[CustomPrompt]
    problems: Sequence[str]


def read_prompts(codex_home: Path) -> Library:
    """Read all prompts. Files with another ending and folders are skipped; symlinks are followed."""
    prompts, problems = [], []
    names, problem = _names(codex_home)
    if problem:
        problems.append(problem)
    for name in names:
        path = str(codex_home / FOLDER / name)
        try:
            prompts.append(_read(path))
        except PromptFileError as error:
            problems.append(f"{path}: {error}")
    return Library(prompts, problems)


def find_prompt(codex_home: Path, name: str) -> CustomPrompt | None:
    """Return a prompt by name, if any.

    Raises:
        PromptFileError: Its file cannot be used.
    """
    names, _ = _names(codex_home)
    found = next((each for each in names if os.path.splitext(each)[0] == name), None)  # noqa: PTH122
    if found is None:
        return None
    path = str(codex_home / FOLDER / found)
    try:
        return _read(path)
    except PromptFileError as error:
        raise PromptFileError(f"{path}: {error}") from error


def _names(codex_home: Path) -> tuple[list[str], str]:
    """Return the names of the files, sorted, and the problem with the folder, if any."""
    folder = codex_home / FOLDER
    names: list[str] = []
    problem = ""
    try:
        with os.scandir(folder) as entries:
            for number, entry in enumerate(entries):
                if number == MAX_FILES:
                    problem = f"{folder}: only {MAX_FILES} of its files are read"
                    break
                if entry.name.lower().endswith(_ENDING) and len(entry.name) > len(_ENDING) and not _is_folder(entry):
                    names.append(entry.name)
    except FileNotFoundError:
        pass
    except OSError as error:
        problem = f"{folder}: the folder cannot be read: {error.strerror or error}"
    return sorted(names), problem


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a symlink that leads to itself, which is reported when it is read
        return False


def _read(path: str) -> CustomPrompt:
    try:
        data = Files().read(path, MAX_SIZE + 1)
    except NotPermittedError:
        raise PromptFileError("it may not be read") from None
    except (OSError, ValueError) as error:
        raise PromptFileError(f"it cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > MAX_SIZE:
        raise PromptFileError(f"it has more than {MAX_SIZE >> 20} MiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PromptFileError(f"it is not UTF-8: the byte at position {error.start} does not fit") from error
    fields, content = _split(text)
    name = os.path.splitext(os.path.basename(path))[0]  # noqa: PTH119, PTH122
    hint = next((fields[key] for key in _HINTS if fields.get(key)), None)
    return CustomPrompt(
        name=name, path=path, content=content, description=fields.get("description") or None, argument_hint=hint
    )


def _split(text: str) -> tuple[dict[str, str], str]:
    """Return the fields of the frontmatter and the rest of the text. Without both fences, all is the rest."""
    lines = text.splitlines(keepends=True)
    if not lines or lines[0].strip() != _FENCE:
        return {}, text
    fields: dict[str, str] = {}
    for number, line in enumerate(lines[1:], 1):
        stripped = line.strip()
        if stripped == _FENCE:
            return fields, "".join(lines[number + 1 :])
        key, colon, value = stripped.partition(":")
        if colon and not stripped.startswith("#"):
            fields[key.strip().lower()] = _unquote(value.strip())
    return {}, text


def _unquote(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
