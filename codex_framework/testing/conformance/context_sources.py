"""The check of context sources: fragments must be complete, stable and recognisable."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from codex_framework.contract.errors import CodexError
from codex_framework.contract.permissions.file_access import FileAccess, NetworkMode
from codex_framework.contract.permissions.profile import permissions_of
from codex_framework.contract.protocol.environments import EnvironmentSelection
from codex_framework.contract.protocol.policies import (
    ApprovalPolicy,
    CollaborationMode,
    DangerFullAccess,
    ReadOnly,
    SandboxPolicy,
    WorkspaceWrite,
)
from codex_framework.contract.roles.context import ContextSource, Fragment
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.models import ModelInfo
from codex_framework.contract.roles.tool_specs import DeferredTool, FunctionSpec
from codex_framework.testing.conformance.findings import Findings, Unmet
from codex_framework.threads.prompt_context import unrecordable
from codex_framework.toolkit.roles import add_defaults

__all__ = ["check_context_source"]

_WITHIN_S = 2.0
"""Time limit in seconds. A source delays the first request, so it may read files but must not wait."""


def check_context_source(source: ContextSource, *, cwd: Path | None = None, codex_home: Path | None = None) -> None:
    """Check that a context source fulfils its role. It is called in several situations, twice in each.

    If it declares ``reads``, it is also called with other settings, another model, on another day and so on. If its fragments
    then differ, its declaration must say so.

    Args:
        source: The source.
        cwd: The turn's folder; by default an empty one.
        codex_home: ``$CODEX_HOME``; by default an empty one.

    Raises:
        ContractViolation: It does not; every violation is listed.
    """
    findings = Findings("context source", source)
    if findings.check_members(source, ContextSource):
        findings.require_name(source)
        with tempfile.TemporaryDirectory() as folder:
            for facts in _circumstances(cwd or Path(folder), codex_home or Path(folder)):
                _check_fragments(findings, source, facts)
            _check_reads(findings, source, _circumstances(cwd or Path(folder), codex_home or Path(folder))[1])
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
        given: list[Any] = _ask(findings, source, facts)
        again = _ask(findings, source, facts)
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


def _check_reads(findings: Findings, source: ContextSource, facts: TurnFacts) -> None:
    """Check that the source declares all on which its fragments depend."""
    source = add_defaults(source, ContextSource)
    reads: Any = source.reads
    if reads is None:
        return
    config, opened = _NotedConfig(), set[str]()
    folders = (str(facts.cwd), str(facts.codex_home))
    try:
        with _record_files(opened, folders):
            before = _ask(findings, source, facts.evolve(config=config))
        for word, changed in _changes(facts):
            if word not in reads and _ask(findings, source, changed.evolve(config=config)) != before:
                findings.note(f"it returns other fragments when the {word} change, but its `reads` lacks {word!r}")
        for zone in _FAR_ZONES if "date" not in reads else ():
            with _time_zone(zone):
                if _ask(findings, source, facts.evolve(config=config)) != before:
                    findings.note("it returns other fragments on another day, but its `reads` lacks 'date'")
        known = {os.path.realpath(path) for path in source.files(facts)} if "files" in reads else set[str]()
    except (CodexError, Unmet):
        return
    for path in sorted(opened):
        where = "its `files()` does not return it" if "files" in reads else "its `reads` lacks 'files'"
        findings.require(os.path.realpath(path) in known, f"it reads {path}, but {where}")
    findings.require(
        "settings" in reads or not config.was_read, "it reads the configuration, but its `reads` lacks 'settings'"
    )


def _changes(facts: TurnFacts) -> Iterator[tuple[str, TurnFacts]]:
    """Yield facts with one change each, under the word of ``ContextSource.reads`` to which it belongs."""
    for settings in (
        *_circumstances(facts.cwd, facts.codex_home or facts.cwd),
        facts.evolve(collaboration_mode=CollaborationMode(mode="plan")),
        facts.evolve(approvals_reviewer="auto_review"),
    ):
        yield "settings", settings.evolve(first=facts.first)
    small = ModelInfo(slug="another-model", context_window=1000)
    yield "model", facts.evolve(model=small)
    yield "previous_model", facts.evolve(previous_model=small)
    yield "environments", facts.evolve(environments=())
    there = EnvironmentSelection(environment_id="there", cwd="/there")
    yield "environments", facts.evolve(environments=(there,), environment_id="there")
    yield "environments", facts.evolve(previous_environments=("there",))
    yield "environments", facts.evolve(shell="/bin/another-shell")  # noqa: S604  # as above
    spec = FunctionSpec(name="another", description="Another tool.", parameters={"type": "object"})
    yield "thread", facts.evolve(thread_id="thread-2", agent="another", depth=1)
    yield "tools", facts.evolve(deferred_tools=(DeferredTool(spec=spec, plugin="another"),))


class _NotedConfig(dict[str, Any]):
    """An empty configuration that notes whether it was read."""

    was_read = False

    def get(self, key: str, default: Any = None) -> Any:  # noqa: ARG002  # it is empty
        self.was_read = True
        return default

    def __getitem__(self, key: str) -> Any:
        self.was_read = True
        raise KeyError(key)


_noted_files: list[tuple[set[str], tuple[str, ...]]] = []


@contextmanager
def _record_files(opened: set[str], folders: tuple[str, ...]) -> Iterator[None]:
    """Add to ``opened`` the files and folders below some folders that are opened in the block."""
    if _note_file not in _installed:
        _installed.append(_note_file)
        sys.addaudithook(_note_file)
    _noted_files.append((opened, folders))
    try:
        yield
    finally:
        _noted_files.pop()


def _note_file(event: str, arguments: tuple[Any, ...]) -> None:
    if _noted_files and event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], (str, os.PathLike)):
        path = os.path.abspath(os.fspath(arguments[0]))  # noqa: PTH100
        opened, folders = _noted_files[-1]
        if path.startswith(tuple(f"{folder}/" for folder in folders)):
            opened.add(path)


_installed: list[Any] = []
"""The hook of :func:`_record_files`, once it is installed. A hook cannot be removed."""

_FAR_ZONES = ("<+24>-24", "<-24>+24")
"""Time zones, one of which has another date than this machine's."""


@contextmanager
def _time_zone(zone: str) -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = zone
    time.tzset()
    try:
        yield
    finally:
        os.environ.pop("TZ")
        if before is not None:
            os.environ["TZ"] = before
        time.tzset()


def _ask(findings: Findings, source: ContextSource, facts: TurnFacts) -> list[Fragment]:
    return findings.call(
        "fragments()", lambda: list(source.fragments(facts)), within_s=_WITHIN_S, allowed=(CodexError,)
    )
