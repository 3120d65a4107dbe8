"""Paths in the configuration, which are relative to the folder of their file; ``~`` is the home folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codex_framework.config.keys import lookup, merge, nested

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

_LISTS = (("sandbox_workspace_write", "writable_roots"), ("framework", "plugins", "paths"))
"""Keys whose value is a list of paths."""


def with_absolute_paths(table: Mapping[str, Any], folder: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the table with absolute paths, resolved against ``folder``, also in ``[profiles.<name>]``.

    Values of the wrong type are left unchanged; the check reports them.
    """
    result = dict(table)
    for name in PATH_KEYS:
        if isinstance(value := result.get(name), str):
            result[name] = _absolute(value, folder, environ)
    for key in _LISTS:
        if isinstance(given := lookup(result, key), list):
            paths = [_absolute(path, folder, environ) if isinstance(path, str) else path for path in given]
            result = merge(result, nested(key, paths))
    if isinstance(permission_profiles := result.get("permissions"), Mapping):
        result["permissions"] = {name: _with_home(profile, environ) for name, profile in permission_profiles.items()}
    if isinstance(providers := result.get("model_providers"), Mapping):
        result["model_providers"] = {id_: _with_token_folder(each, folder, environ) for id_, each in providers.items()}
    profiles = result.get("profiles")
    if isinstance(profiles, Mapping):
        result["profiles"] = {
            name: with_absolute_paths(profile, folder, environ) if isinstance(profile, Mapping) else profile
            for name, profile in profiles.items()
        }
    return result


def _with_home(profile: Any, environ: Mapping[str, str]) -> Any:
    """Replace ``~`` in the workspace roots of a permission profile.

    Relative roots stay relative, because they start from the working folder, as in Codex.
    """
    roots = profile.get("workspace_roots") if isinstance(profile, Mapping) else None
    home = environ.get("HOME")
    if not home or not isinstance(roots, Mapping):
        return profile
    expanded = {
        home + path[1:] if path == "~" or path.startswith("~/") else path: enabled for path, enabled in roots.items()
    }
    return {**profile, "workspace_roots": expanded}


def _with_token_folder(provider: Any, folder: Path, environ: Mapping[str, str]) -> Any:
    """Make the folder absolute in which a provider's token program runs, so that it is never a folder of the workspace by accident."""
    auth = provider.get("auth") if isinstance(provider, Mapping) else None
    if not isinstance(auth, Mapping) or not isinstance(cwd := auth.get("cwd"), str):
        return provider
    return {**provider, "auth": {**auth, "cwd": _absolute(cwd or ".", folder, environ)}}


def _absolute(path: str, folder: Path, environ: Mapping[str, str]) -> str:
    home = environ.get("HOME")
    if home and (path == "~" or path.startswith("~/")):
        path = home + path[1:]
    return os.path.normpath(folder / path) if path else path
