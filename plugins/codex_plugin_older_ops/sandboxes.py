"""Sandbox policies in the forms of all versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codex_framework.contract.errors import ThreadError
from codex_framework.contract.protocol.policies import DangerFullAccess, ReadOnly, SandboxPolicy, WorkspaceWrite
from codex_framework.contract.protocol.wire import WireError, read

__all__ = ["policy_of"]

_FOLDER = "disk-write-folder"
_WRITES = ("disk-write-cwd", "disk-write-platform-user-temp-folder", "disk-write-platform-global-temp-folder")
_KNOWN = ("disk-full-read-access", "disk-full-write-access", "network-full-access", *_WRITES)


def policy_of(given: object) -> SandboxPolicy | None:
    """Return a sandbox policy from its wire form: of today, with ``mode``, or as a list of permissions. None stays None.

    Raises:
        ThreadError: It is none of these.
    """
    match given:
        case None:
            return None
        case {"permissions": list(permissions)} | list(permissions):
            return _from_list(permissions)
        case {"mode": str(mode), **rest} if "type" not in rest:
            return _read({"type": mode} | {str(name): value for name, value in rest.items()})
        case str(mode):
            return _read({"type": mode})
        case Mapping():
            return _read(dict(given))
    if isinstance(given, (DangerFullAccess, ReadOnly, WorkspaceWrite)):
        return given
    raise _wrong(given)


def _read(raw: dict[str, Any]) -> SandboxPolicy:
    try:
        policy: SandboxPolicy = read(SandboxPolicy, raw)  # type: ignore[arg-type]
    except WireError as error:
        raise _wrong(raw) from error
    return policy


def _from_list(permissions: list[Any]) -> SandboxPolicy:
    """Return the policy that permits what the list does, and nothing that it does not.

    Writing to the whole disk without the network has no policy of today: the network stays blocked, and writing is limited to the
    workspace.
    """
    words: set[str] = set()
    roots: list[str] = []
    for permission in permissions:
        match permission:
            case str(word) if word.startswith(f"{_FOLDER}="):
                roots.append(word.partition("=")[2])
            case {"disk-write-folder": {"folder": str(folder)}}:
                roots.append(folder)
            case str(word) if word in _KNOWN:
                words.add(word)
            case _:
                raise _wrong(permission)
    network = "network-full-access" in words
    if "disk-full-write-access" in words and network:
        return DangerFullAccess()
    if "disk-full-write-access" in words or roots or words.intersection(_WRITES):
        return WorkspaceWrite(
            writable_roots=tuple(roots),
            network_access=network,
            exclude_tmpdir_env_var="disk-write-platform-user-temp-folder" not in words,
            exclude_slash_tmp="disk-write-platform-global-temp-folder" not in words,
        )
    return ReadOnly(network_access=network)


def _wrong(given: object) -> ThreadError:
    return ThreadError(
        f"the sandbox policy cannot be read: {given!r}"[:300],
        slug="bad-request",
        hint='Send {"type": "read-only"}, {"type": "workspace-write", ...} or {"type": "danger-full-access"}.',
    )
