"""Paths in configuration: relative to the file they stand in, with ``~`` for the home folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["PATH_KEYS", "with_absolute_paths"]

PATH_KEYS = (
    "model_instructions_file",
    "experimental_instructions_file",
    "experimental_compact_prompt_file",
    "model_catalog_json",
    "sqlite_home",
    "log_dir",
)
"""Top-level keys whose value is a path."""

_ROOTS = ("sandbox_workspace_write", "writable_roots")


def with_absolute_paths(table: Mapping[str, Any], folder: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    """The table with its paths made absolute, taken from ``folder``. Mistyped values are left for the check.

    The same is done in ``[profiles.<name>]``.
    """
    result = dict(table)
    for key in PATH_KEYS:
        if isinstance(value := result.get(key), str):
            result[key] = _absolute(value, folder, environ)
    section = result.get(_ROOTS[0])
    if isinstance(section, Mapping) and isinstance(roots := section.get(_ROOTS[1]), list):
        paths = [_absolute(root, folder, environ) if isinstance(root, str) else root for root in roots]
        result[_ROOTS[0]] = {**section, _ROOTS[1]: paths}
    if isinstance(named := result.get("permissions"), Mapping):
        result["permissions"] = {name: _with_home(profile, environ) for name, profile in named.items()}
    profiles = result.get("profiles")
    if isinstance(profiles, Mapping):
        result["profiles"] = {
            name: with_absolute_paths(profile, folder, environ) if isinstance(profile, Mapping) else profile
            for name, profile in profiles.items()
        }
    return result


def _with_home(profile: Any, environ: Mapping[str, str]) -> Any:
    """A permission profile whose workspace roots name the home; relative ones wait for the working folder, as in Codex."""
    roots = profile.get("workspace_roots") if isinstance(profile, Mapping) else None
    home = environ.get("HOME")
    if not home or not isinstance(roots, Mapping):
        return profile
    made = {home + path[1:] if path == "~" or path.startswith("~/") else path: wanted for path, wanted in roots.items()}
    return {**profile, "workspace_roots": made}


def _absolute(path: str, folder: Path, environ: Mapping[str, str]) -> str:
    home = environ.get("HOME")
    if home and (path == "~" or path.startswith("~/")):
        path = home + path[1:]
    return os.path.normpath(folder / path) if path else path
