"""The permissions of a turn as the exec-server takes them, which then enforces them with Codex's own sandbox."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from codex_framework import FileAccess, SandboxError
from codex_framework.contract.permissions.file_access import MINIMAL_PATHS, NetworkMode, Protection
from codex_framework.contract.protocol.permissions import AccessMode

__all__ = ["path_of", "sandbox_of", "uri_of"]

_WORDS = {AccessMode.READ: "read", AccessMode.WRITE: "write", AccessMode.DENY: "none"}

_ENFORCED = frozenset(
    (Protection.WRITING, Protection.METADATA, Protection.PROTECTED_NAMES, Protection.READING, Protection.NETWORK)
)
"""The protections that Codex's sandbox enforces remotely. Nothing else is guaranteed."""


def uri_of(path: str) -> str:
    """Return the ``file:`` URI of a path."""
    return f"file://{quote(os.fsencode(path))}"


def path_of(uri: object) -> str | None:
    """Return the path of a ``file:`` URI. None if it is invalid, or not for a POSIX system."""
    if not isinstance(uri, str) or not uri.startswith("file:///"):
        return None
    path = os.fsdecode(unquote_to_bytes(uri.removeprefix("file://")))
    return None if "\0" in path else path


def sandbox_of(access: FileAccess, cwd: str) -> Mapping[str, Any] | None:
    """Return the parameter ``sandbox`` of calls. By default, there are no limits.

    Raises:
        SandboxError: The access contains limits that an exec-server cannot enforce.
    """
    if not access.confines:
        return None
    _check(access)
    return {
        "permissions": _profile(access),
        "cwd": uri_of(cwd),
        "workspaceRoots": [uri_of(cwd)],
        "windowsSandboxLevel": "disabled",
        "windowsSandboxPrivateDesktop": False,
        "useLegacyLandlock": False,
    }


def _check(access: FileAccess) -> None:
    what = ""
    if access.network not in (NetworkMode.ON, NetworkMode.OFF):
        what = f"the network mode `{access.network.value}`"
    elif access.limits.file_bytes is not None:
        what = "a limit on the size of files"
    elif access.limits.memory_bytes is not None:
        what = "a limit on memory"
    elif missing := access.floor - _ENFORCED:
        what = f"the protection `{min(missing)}` of `sandbox_floor`"
    if what:
        raise SandboxError(
            f"the environment cannot enforce {what}",
            slug="environment",
            hint="Work on this machine, or in an environment with other permissions.",
        )


def _profile(access: FileAccess) -> Mapping[str, Any]:
    network = "enabled" if access.network is NetworkMode.ON else "restricted"
    if access.full:
        return {"type": "managed", "file_system": {"type": "unrestricted"}, "network": network}
    files: dict[str, Any] = {"type": "restricted", "entries": list(_entries(access))}
    if access.denied_globs and access.glob_depth is not None:
        files["glob_scan_max_depth"] = access.glob_depth
    return {"type": "managed", "file_system": files, "network": network}


def _entries(access: FileAccess) -> Iterator[Mapping[str, Any]]:
    if access.otherwise is not AccessMode.DENY:
        yield _entry({"type": "special", "value": {"kind": "root"}}, access.otherwise)
    readable = {str(rule.path) for rule in access.rules if rule.access is AccessMode.READ}
    minimal = set(MINIMAL_PATHS) if readable.issuperset(MINIMAL_PATHS) else set()
    if minimal:  # as a whole it contains the symlinks between its parts, too
        yield _entry({"type": "special", "value": {"kind": "minimal"}}, AccessMode.READ)
    for rule in access.rules:
        path = str(rule.path)
        if path == "/":
            yield _entry({"type": "special", "value": {"kind": "root"}}, rule.access)
        elif path not in minimal or rule.access is not AccessMode.READ:
            yield _entry({"type": "path", "path": uri_of(path)}, rule.access)
    for pattern in access.denied_globs:
        yield _entry({"type": "glob_pattern", "pattern": pattern}, AccessMode.DENY)


def _entry(path: Mapping[str, Any], mode: AccessMode) -> Mapping[str, Any]:
    return {"path": path, "access": _WORDS[mode]}
