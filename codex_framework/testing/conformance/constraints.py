"""The check of constraints: settings are refused with a text, and permissions are only narrowed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from codex_framework.commands.access import file_access
from codex_framework.config.keys import merge
from codex_framework.contract.errors import CodexError
from codex_framework.contract.permissions.profile import Permissions, builtin_permissions, permissions_of
from codex_framework.contract.protocol.permissions import AbsolutePath, AccessMode, FileEntry
from codex_framework.contract.protocol.policies import ApprovalPolicy, ExternalSandbox, ReadOnly, WorkspaceWrite
from codex_framework.contract.roles.constraints import Constraint
from codex_framework.contract.roles.settings import Settings
from codex_framework.contract.roles.threads import ThreadContext
from codex_framework.testing.conformance.findings import Findings, run_check
from codex_framework.testing.conformance.stage import Stage
from codex_framework.testing.threads import ScriptedThread
from codex_framework.toolkit.roles import add_defaults, overrides

__all__ = ["check_constraint"]

_WITHIN_S = 1.0
"""Time limit in seconds. A constraint is called on the event loop before each call, so it must not wait."""


def check_constraint(constraint: Constraint) -> None:
    """Check that a constraint fulfils its role, in a real thread: it is asked about settings and permissions of all kinds.

    Args:
        constraint: The constraint. It must cope with a thread that has no component of its plugin.

    Raises:
        ContractViolation: It does not; every violation is listed.
    """
    findings = Findings("constraint", constraint)
    if findings.check_members(constraint, Constraint):
        findings.require_name(constraint)
        known = ("configure", "settle", "check", "narrow")
        methods = [name for name in known if overrides(constraint, Constraint, name)]
        findings.require(methods, "it overrides none of configure(), settle(), check() and narrow()")
        whole: Constraint = add_defaults(constraint, Constraint)

        async def act(thread: ScriptedThread) -> None:
            context = thread.inside("checked")
            _check_configuring(findings, whole, context)
            _check_settling(findings, whole, thread.client.settings)
            _check_settings(findings, whole, thread.client.settings, context)
            _check_narrowing(findings, whole, context)

        stage = Stage(findings, dict)
        run_check(findings, partial(stage.play, "in a thread", act))
    findings.raise_any()


def _check_configuring(findings: Findings, constraint: Constraint, context: ThreadContext) -> None:
    before = config = context.config
    for _ in range(2):  # the second time with what it has demanded
        configure: Callable[[], Any] = partial(constraint.configure, config, list[str]().append)
        demanded, again = (findings.call("configure()", configure, within_s=_WITHIN_S) for _ in range(2))
        findings.require(demanded == again, "configure() returns something else when called twice in a row")
        if not isinstance(demanded, Mapping):
            findings.note(f"configure() returns {type(demanded).__name__}, not a table")
            return
        before, config = config, merge(config, demanded)
    findings.require(before == config, "configure() demands something else of a configuration that has what it demands")


def _check_settling(findings: Findings, constraint: Constraint, settings: Settings) -> None:
    for permissions in _permissions(settings):
        for policy in ApprovalPolicy:
            what = f"settle() for {policy} and {permissions.sandbox_policy.type}"
            before: Any = settings.evolve(permissions=permissions, approval_policy=policy)
            wanted: Any = before
            with contextlib.suppress(CodexError):
                for _ in range(2):  # the second time with its own result
                    settle: Callable[[], Any] = partial(constraint.settle, wanted, list[str]().append)
                    before, wanted = wanted, findings.call(what, settle, within_s=_WITHIN_S, allowed=(CodexError,))
                    if not isinstance(wanted, Settings):
                        findings.note(f"{what} returns {type(wanted).__name__}, not Settings")
                        return
                findings.require(before == wanted, f"{what} replaces settings that it returned itself")


def _check_settings(findings: Findings, constraint: Constraint, settings: Settings, context: ThreadContext) -> None:
    for permissions in _permissions(settings):
        for policy in ApprovalPolicy:
            wanted = settings.evolve(permissions=permissions, approval_policy=policy)
            for thread in (None, context):
                what = f"check() for {policy} and {permissions.sandbox_policy.type}"
                call: Callable[[], object] = partial(constraint.check, wanted, thread)
                with contextlib.suppress(CodexError):
                    findings.call(what, call, within_s=_WITHIN_S, allowed=(CodexError,))


def _check_narrowing(findings: Findings, constraint: Constraint, context: ThreadContext) -> None:
    cwd = context.settings.cwd
    for permissions in _permissions(context.settings):
        what = f"narrow() of {permissions.sandbox_policy.type}"
        narrow: Callable[[], Any] = partial(constraint.narrow, permissions, context)
        narrower = findings.call(what, narrow, within_s=_WITHIN_S)
        again = findings.call(what, narrow, within_s=_WITHIN_S)
        findings.require(narrower == again, f"{what} returns something else when called twice in a row")
        if not isinstance(narrower, Permissions):
            findings.note(f"{what} returns {type(narrower).__name__}, not Permissions")
            continue
        before, after = (file_access(each, cwd, {}) for each in (permissions, narrower))
        findings.require(after.within(before), f"{what} returns permissions that permit more")


def _permissions(settings: Settings) -> list[Permissions]:
    more = FileEntry(AbsolutePath("/granted"), AccessMode.WRITE)
    named = builtin_permissions(":workspace-no-secrets")
    assert named is not None
    return [
        settings.permissions,
        permissions_of(ReadOnly()),
        permissions_of(WorkspaceWrite(network_access=True)).with_entries([more]),
        permissions_of(ExternalSandbox("enabled")),
        named.evolve(workspace_roots=("/roots",)),
    ]
