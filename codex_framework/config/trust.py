"""The user's decisions about projects: the tables ``[projects."<path>"]`` of ``$CODEX_HOME/config.toml``."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codex_framework.config.editing.files import Check, change_file
from codex_framework.config.editing.text import with_value, without_key
from codex_framework.contract.errors import ConfigError
from codex_framework.toolkit.projects import git_root, main_checkout, trust_keys, trust_level

__all__ = ["decide_trust", "revoke_trust", "trusted_folder"]


def trusted_folder(folder: Path) -> Path:
    """Return the folder that a decision about ``folder`` is stored for: its main checkout, else the folder itself, as in Codex."""
    return Path(os.path.realpath(main_checkout(git_root(folder) or folder)))


def decide_trust(file: Path, folder: Path, level: str, check: Check) -> bool:
    """Store a decision about a project. Entries for folders within it that would contradict are changed too.

    Args:
        file: The user's ``config.toml``.
        folder: A folder of the project.
        level: ``trusted`` or ``untrusted``.
        check: The check of the new content.

    Returns:
        Whether the file has changed.

    Raises:
        ConfigError: The file is invalid or cannot be written.
    """

    def set_level(text: str) -> str:
        text = with_value(text, _key(file, text, str(trusted_folder(folder))), level)
        for name in trust_keys(folder):
            projects = _projects(file, text)
            if trust_level(projects, folder) == level:
                break
            if name in projects:
                text = with_value(text, _key(file, text, name), level)
        return text

    return change_file(file, set_level, check)


def revoke_trust(file: Path, folder: Path, check: Check) -> list[str]:
    """Remove all decisions about a project.

    Args:
        file: The user's ``config.toml``.
        folder: A folder of the project.
        check: The check of the new content.

    Returns:
        The folders whose entries have been removed.

    Raises:
        ConfigError: The file is invalid or cannot be written.
    """
    removed: list[str] = []

    def remove_levels(text: str) -> str:
        removed.clear()
        for name in trust_keys(folder):
            entry = _projects(file, text).get(name)
            if isinstance(entry, Mapping) and "trust_level" in entry:
                removed.append(name)
                text = without_key(text, ("projects", name, "trust_level") if len(entry) > 1 else ("projects", name))
        return text

    change_file(file, remove_levels, check)
    return removed


def _projects(file: Path, text: str) -> Mapping[str, Any]:
    projects = tomllib.loads(text).get("projects", {})
    if not isinstance(projects, Mapping):
        raise _not_a_table(file, "projects")
    return projects


def _key(file: Path, text: str, name: str) -> tuple[str, str, str]:
    entry = _projects(file, text).get(name, {})
    if not isinstance(entry, Mapping):
        raise _not_a_table(file, f'projects."{name}"')
    return ("projects", name, "trust_level")


def _not_a_table(file: Path, key: str) -> ConfigError:
    return ConfigError(
        f"{file}: `{key}` is not a table",
        path=str(file),
        key=key,
        slug="config-type",
        hint="Fix it: codex-framework config edit",
    )
