"""Folders with rules, and a policy that reads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ApprovalPolicy, CommandRequest, CommandVerdict
from codex_framework.contract.protocol.policies import WorkspaceWrite
from codex_framework.testing import turn_facts
from codex_plugin_execpolicy.layers import RuleLayers
from codex_plugin_execpolicy.policy import ExecPolicy


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    (folder / "rules").mkdir(parents=True)
    return folder


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def layers(tmp_path: Path) -> RuleLayers:
    return RuleLayers(str(tmp_path / "etc"))


@pytest.fixture
def judge(home: Path, work: Path, layers: RuleLayers) -> Callable[..., CommandVerdict | None]:
    """The policy's verdict on a command line, or on a script for ``bash -lc``."""
    policy = ExecPolicy(layers)

    def judged(
        command: str | list[str], approval: Any = ApprovalPolicy.ON_REQUEST, **fields: Any
    ) -> CommandVerdict | None:
        argv = ("bash", "-lc", command) if isinstance(command, str) else tuple(command)
        facts = turn_facts(
            approval_policy=approval,
            sandbox_policy=fields.pop("sandbox", WorkspaceWrite()),
            cwd=fields.pop("cwd", work),
            config=fields.pop("config", {}),
            codex_home=home,
        )
        return policy.judge(CommandRequest(argv=argv, **fields), facts)

    return judged
