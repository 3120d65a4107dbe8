"""The check of context sources: fragments must be complete, stable and recognisable."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from codex_framework.contract.errors import CodexError
from codex_framework.contract.permissions.file_access import FileAccess, NetworkMode
from codex_framework.contract.permissions.profile import permissions_of
from codex_framework.contract.protocol.policies import (
    ApprovalPolicy,
    DangerFullAccess,
    ReadOnly,
    SandboxPolicy,
    WorkspaceWrite,
)
from codex_framework.contract.roles.context import ContextSource, Fragment
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.models import ModelInfo
from codex_framework.testing.conformance.findings import Findings, Unmet
from codex_framework.threads.prompt_context import unrecordable

__all__ = ["check_context_source"]

_WITHIN_S = 2.0
"""Time limit in seconds. A source delays the first request, so it may read files but must not wait."""


def check_context_source(source: ContextSource, *, cwd: Path | None = None, codex_home: Path | None = None) -> None:
    """Check that a context source fulfils its role. It is called in several situations, twice in each.

    Args:
        source: The source.
        cwd: The turn's folder; by default an empty one.
        codex_home: ``$CODEX_HOME``; by default an empty one.

    Raises:
        ContractViolation: It does not; every violation is listed.
    """
    findings = Findings("context source", source)
    if findings.members(source, ContextSource):
        findings.named(source)
        with tempfile.TemporaryDirectory() as folder:
            for facts in _circumstances(cwd or Path(folder), codex_home or Path(folder)):
                _check_fragments(findings, source, facts)
    findings.raise_any()


def _circumstances(cwd: Path, codex_home: Path) -> list[TurnFacts]:
    policies: tuple[tuple[SandboxPolicy, FileAccess], ...] = (
        (ReadOnly(), FileAccess()),
        (WorkspaceWrite(), FileAccess.writing(cwd)),
        (DangerFullAccess(), FileAccess(full=True, network=NetworkMode.ON)),
    )
    return [
        TurnFacts(  # noqa: S604  # the user's shell is a fact, nothing is run
            thread_id="thread-1",
            cwd=folder,
            codex_home=codex_home,
            shell="/bin/sh",
            model=ModelInfo(slug="test-model"),
            approval_policy=approval,
            permissions=permissions_of(policy),
            access=access,
            config={},
            first=first,
        )
        for (policy, access), approval, first, folder in zip(
            policies,
            (ApprovalPolicy.ON_REQUEST, ApprovalPolicy.NEVER, ApprovalPolicy.UNTRUSTED),
            (True, False, True),
            (cwd, cwd, cwd / "no such folder"),
            strict=True,
        )
    ]


def _check_fragments(findings: Findings, source: ContextSource, facts: TurnFacts) -> None:
    try:
        given: list[Any] = _asked(findings, source, facts)
        again = _asked(findings, source, facts)
    except (CodexError, Unmet):
        return
    findings.require(
        given == again, "it returns other fragments when called twice in a row, so each turn would send them again"
    )
    for fragment in given:
        if not isinstance(fragment, Fragment):
            findings.note(f"it returns {type(fragment).__name__}, not a Fragment")
            continue
        which = f"the fragment that begins with {fragment.start!r}"
        findings.require(fragment.role in ("developer", "user"), f"{which} has the role {fragment.role!r}")
        findings.require(
            fragment.start, "a fragment has no start, so it could not be distinguished from the user's words"
        )
        problem = unrecordable(fragment.recorded)
        findings.require(not problem, f"{which}: {problem}")
        for name in ("text", "replacement", "revocation"):
            text = getattr(fragment, name)
            findings.require(
                not text or text.startswith(fragment.start), f"{which} has a {name} that does not begin with it"
            )
            findings.require(
                not text or text.endswith(fragment.end), f"{which} has a {name} that does not end with {fragment.end!r}"
            )


def _asked(findings: Findings, source: ContextSource, facts: TurnFacts) -> list[Fragment]:
    return findings.called(
        "fragments()", lambda: list(source.fragments(facts)), within_s=_WITHIN_S, allowed=(CodexError,)
    )
