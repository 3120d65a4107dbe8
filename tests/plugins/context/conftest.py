from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ModelInfo, TurnFacts
from codex_framework.commands.access import file_access
from codex_framework.contract.permissions.profile import Permissions, permissions_of
from codex_framework.contract.protocol.policies import ApprovalPolicy, DangerFullAccess, GranularApproval, SandboxPolicy
from codex_framework.testing import turn_facts


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def codex_home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def facts(work: Path, codex_home: Path) -> Callable[..., TurnFacts]:
    """Facts of a turn; keywords are settings of the configuration."""

    def make(
        *,
        sandbox: SandboxPolicy | None = None,
        permissions: Permissions | None = None,
        approval: ApprovalPolicy | GranularApproval = ApprovalPolicy.NEVER,
        cwd: Path = work,
        shell: str = "/bin/bash",
        first: bool = True,
        **config: Any,
    ) -> TurnFacts:
        permissions = permissions or permissions_of(sandbox if sandbox is not None else DangerFullAccess())
        return turn_facts(
            thread_id="thread",
            cwd=cwd,
            codex_home=codex_home,
            shell=shell,
            model=ModelInfo(slug="m"),
            approval_policy=approval,
            permissions=permissions,
            access=file_access(permissions, cwd, {}),
            config=config,
            first=first,
        )

    return make
