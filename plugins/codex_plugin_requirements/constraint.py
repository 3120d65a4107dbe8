"""The constraint that enforces the administrator's requirements."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from codex_framework import Constraint, Settings, ThreadContext, ThreadError
from codex_framework.contract.permissions.links import home_expanded
from codex_framework.contract.permissions.profile import Permissions, permissions_of
from codex_framework.contract.protocol.permissions import (
    AbsolutePath,
    AccessMode,
    DisabledPermissions,
    ExternalPermissions,
    FilePath,
    RestrictedFiles,
    Special,
    SpecialPath,
)
from codex_framework.contract.protocol.policies import ApprovalPolicy, ReadOnly
from codex_framework.toolkit.off_limits import deny
from codex_plugin_requirements.reading import Requirements, read_requirements
from codex_plugin_requirements.texts import invalid, replaced

__all__ = ["RequirementsConstraint"]

_ROOT = SpecialPath(Special.ROOT)

_SYSTEM = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/sbin", "/sys"),
    *("/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec"),
    *("/usr/local/bin", "/usr/local/sbin", "/usr/local/lib", "/var/spool/cron"),
    *("/Applications", "/Library", "/System", "/private/etc"),
)
"""Folders of the system. No folder at, above or below one is a workspace."""

_SHARED = (
    *("/home", "/media", "/mnt", "/nix", "/opt", "/root", "/run", "/snap", "/srv", "/usr", "/usr/local", "/usr/share"),
    *("/var", "/var/lib", "/var/spool", "/Users", "/Volumes", "/private", "/private/var"),
)
"""Folders that contain workspaces besides other things. No folder at or above one is a workspace."""


class RequirementsConstraint(Constraint):
    """Refuses and replaces settings that the administrator does not allow, and denies access to unreadable paths.

    Args:
        path: The file, which is read once.
    """

    name = "requirements"

    def __init__(self, path: str) -> None:
        self._path = path

    def configure(self, config: Mapping[str, Any], warn: Callable[[str], None]) -> Mapping[str, Any]:
        """Return the settings that must have other values."""
        from codex_plugin_requirements.demands import demanded

        return demanded(self._required, config, warn)

    def settle(self, settings: Settings, warn: Callable[[str], None]) -> Settings:
        """Replace forbidden values with the first allowed value, as Codex does. For sandbox modes, that is ``read-only``.

        Raises:
            ThreadError: Commands would run in a sandbox that nobody can lift, although none was wanted.
        """
        required = self._required
        if (allowed := required.approvals) is not None and (word := _approval(settings)) not in allowed:
            warn(self._replaced("approval_policy", "approval_policy", word, allowed, allowed[0]))
            settings = settings.evolve(approval_policy=ApprovalPolicy(allowed[0]))
        if (allowed := required.sandboxes) is not None and (word := _sandbox(settings)) not in allowed:
            if word == "danger-full-access" and settings.approval_policy is ApprovalPolicy.NEVER:
                raise _no_sandbox()
            warn(self._replaced("permission_profile", "sandbox_mode", word, allowed, "read-only"))
            reading = permissions_of(ReadOnly()).evolve(options=settings.permissions.options)
            settings = settings.evolve(permissions=reading)
        word = settings.approvals_reviewer or ""
        if (allowed := required.reviewers) is not None and word and _reviewer(word) not in allowed:
            warn(self._replaced("approvals_reviewer", "approvals_reviewer", _reviewer(word), allowed, allowed[0]))
            settings = settings.evolve(approvals_reviewer=allowed[0])
        return settings

    def check(self, settings: Settings, thread: ThreadContext | None) -> None:  # noqa: ARG002  # the role's arguments
        """Refuse settings with a value that is not allowed."""
        required = self._required
        reviewer = settings.approvals_reviewer
        for key, allowed, word in (
            ("approval_policy", required.approvals, _approval(settings)),
            ("sandbox_mode", required.sandboxes, _sandbox(settings)),
            ("approvals_reviewer", required.reviewers, None if reviewer is None else _reviewer(reviewer)),
        ):
            if allowed is not None and word is not None and word not in allowed:
                hint = f"Allowed: {', '.join(allowed)}."
                raise ThreadError(invalid(key, word, allowed, self._path), slug="requirements", hint=hint)

    def narrow(self, permissions: Permissions, thread: ThreadContext) -> Permissions:
        """Deny access to unreadable paths. If commands were unconfined, confine them with a sandbox."""
        if not self._required.denied:
            return permissions
        from codex_plugin_requirements.denying import denying

        return denying(permissions, self._required.denied, thread.settings.cwd)

    def _replaced(self, name: str, key: str, word: str, allowed: Collection[str], instead: str) -> str:
        return replaced(name, instead, invalid(key, word, allowed, self._path))

    @cached_property
    def _required(self) -> Requirements:
        from codex_plugin_requirements.denying import Within

        required = read_requirements(self._path)
        deny(self._path, Within(required.denied).has_real)
        return required


def _approval(settings: Settings) -> str:
    policy = settings.approval_policy
    if not isinstance(policy, ApprovalPolicy):
        return "granular"
    return "on-request" if policy is ApprovalPolicy.ON_FAILURE else policy.value


def _reviewer(word: str) -> str:
    return "auto_review" if word == "guardian_subagent" else word


def _sandbox(settings: Settings) -> str:
    """Return the sandbox mode that corresponds to permissions: a profile with any write access is ``workspace-write``.

    Write access to a whole system folder is not confined to a workspace.
    """
    permissions = settings.permissions
    profile = permissions.profile
    if isinstance(profile, DisabledPermissions):
        return "danger-full-access"
    if isinstance(profile, ExternalPermissions):
        return "external-sandbox"
    if not isinstance(profile.file_system, RestrictedFiles):
        return "danger-full-access"
    written = {entry.path for entry in permissions.entries if entry.access is AccessMode.WRITE}
    if _ROOT in written or any(
        map(_holds_system, _folders(written, (str(settings.cwd), *permissions.workspace_roots)))
    ):
        return "danger-full-access"
    return "workspace-write" if written else "read-only"


def _folders(paths: Iterable[FilePath], roots: tuple[str, ...]) -> Iterator[str]:
    for path in paths:
        if isinstance(path, AbsolutePath):
            yield os.path.realpath(home_expanded(path.path))
        elif isinstance(path, SpecialPath) and path.kind is Special.WORKSPACE_ROOTS:
            yield from (os.path.realpath(os.path.join(home_expanded(root), path.subpath or "")) for root in roots)  # noqa: PTH118


def _holds_system(folder: str) -> bool:
    """Return whether a folder contains what other users or the system run, so that writing it is as good as full access."""
    place = f"{folder.rstrip('/')}/"
    if any(f"{system}/".startswith(place) for system in (*_SYSTEM, *_SHARED)):
        return True
    shared_memory = place.startswith("/dev/shm/")  # noqa: S108  # it is asked about, not used
    return not shared_memory and place.startswith(tuple(f"{system}/" for system in _SYSTEM))


def _no_sandbox() -> ThreadError:
    fact = (
        '`approval_policy = "never"` cannot be used because requirements do not allow `sandbox_mode = "danger-full-access"`:'
        " commands would be confined to reading, and nobody could be asked for more"
    )
    hint = "Choose another approval policy, such as `on-request`, or an allowed sandbox mode."
    return ThreadError(fact, slug="requirements", hint=hint)
