"""The state of a session's sandbox, as MCP servers get it in ``_meta["codex/sandbox-state-meta"]``: its permissions and its folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from codex_framework.contract.errors import ConfigError
from codex_framework.contract.permissions.profile import Permissions
from codex_framework.contract.protocol.permissions import (
    AbsolutePath,
    AccessMode,
    FileEntry,
    ManagedPermissions,
    PermissionProfile,
    RestrictedFiles,
)
from codex_framework.contract.protocol.wire import WireError, read

__all__ = ["read_state"]

_OPTION = "--sandbox-state-json"


def read_state(text: str, readable: Sequence[str], *, disable_network: bool) -> tuple[Permissions, Path]:
    """Return the permissions and the working folder of a state.

    Args:
        text: The state as JSON. Other keys than ``permissionProfile`` and ``sandboxCwd`` are not needed.
        readable: Further folders that may be read.
        disable_network: Whether to take the network away.

    Raises:
        ConfigError: The state is invalid.
    """
    try:
        state = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _error(f"it is not JSON: {error}") from None
    if not isinstance(state, Mapping):
        raise _error("it is not an object")
    missing = [key for key in ("permissionProfile", "sandboxCwd") if key not in state]
    if missing:
        raise _error(f"missing field `{missing[0]}`")
    permissions = Permissions(profile=_profile(state["permissionProfile"]))
    files = permissions.profile.file_system if isinstance(permissions.profile, ManagedPermissions) else None
    if isinstance(files, RestrictedFiles):
        roots = (str(Path.cwd() / folder) for folder in readable)
        permissions = permissions.with_entries(FileEntry(AbsolutePath(root), AccessMode.READ) for root in roots)
    if disable_network:
        if not isinstance(permissions.profile, ManagedPermissions):
            raise _error("--sandbox-state-disable-network cannot be applied to a profile without limits")
        permissions = permissions.without_network()
    return permissions, _folder(state["sandboxCwd"])


def _profile(raw: Any) -> PermissionProfile:
    try:
        profile: PermissionProfile = read(PermissionProfile, raw)  # type: ignore[arg-type]  # a union
    except WireError as error:
        raise _error(f"`permissionProfile` is not a profile: {error}") from None
    return profile


def _folder(uri: Any) -> Path:
    parts = urlsplit(uri) if isinstance(uri, str) else None
    if parts is None or parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        raise _error("`sandboxCwd` is not a file:// URI of this machine")
    return Path(unquote(parts.path))


def _error(fact: str) -> ConfigError:
    hint = 'Pass the value of `_meta["codex/sandbox-state-meta"]` from a tool call, unchanged.'
    return ConfigError(f"invalid {_OPTION} value: {fact}", path=_OPTION, slug="sandbox-state", hint=hint)
