"""Paths in the configuration, which are relative to the folder of their file; ``~`` is the home folder.

Apart from ``layers``: what a path is relative to does not depend on which layer wins.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codex_framework.config.schema import KEYS, child_pattern, table_patterns

__all__ = ["with_absolute_paths"]


def with_absolute_paths(
    table: Mapping[str, Any], folder: Path, environ: Mapping[str, str], pattern: str = ""
) -> dict[str, Any]:
    """Return the table with absolute paths, resolved against ``folder``, also in ``[profiles.<name>]``.

    Values of the wrong type are left unchanged; the check reports them.

    Args:
        pattern: The place of the table in the schema.
    """
    return {name: _resolve_value(value, child_pattern(pattern, name), folder, environ) for name, value in table.items()}


def _resolve_value(value: Any, pattern: str | None, folder: Path, environ: Mapping[str, str]) -> Any:
    if pattern is None:
        return value
    kind = KEYS[pattern].type if pattern in KEYS else "table"
    if isinstance(value, str) and kind in ("path", "folder"):
        return _absolute(value or ("." if kind == "folder" else ""), folder, environ)
    if isinstance(value, list) and kind == "list[path]":
        return [_absolute(path, folder, environ) if isinstance(path, str) else path for path in value]
    if not isinstance(value, Mapping):
        return value
    if kind == "profile":
        return with_absolute_paths(value, folder, environ)
    if pattern == "permissions.*":
        return _with_home(value, environ)
    return with_absolute_paths(value, folder, environ, pattern) if pattern in table_patterns() else value


def _with_home(profile: Mapping[str, Any], environ: Mapping[str, str]) -> Any:
    """Replace ``~`` in the workspace roots of a permission profile.

    Relative roots stay relative, because they start from the working folder, as in Codex.
    """
    roots = profile.get("workspace_roots")
    home = environ.get("HOME")
    if not home or not isinstance(roots, Mapping):
        return profile
    expanded = {
        home + path[1:] if path == "~" or path.startswith("~/") else path: enabled for path, enabled in roots.items()
    }
    return {**profile, "workspace_roots": expanded}


def _absolute(path: str, folder: Path, environ: Mapping[str, str]) -> str:
    home = environ.get("HOME")
    if home and (path == "~" or path.startswith("~/")):
        path = home + path[1:]
    return os.path.normpath(folder / path) if path else path
