"""A turn for a reviewer, without a turn, and what stands in a prompt."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ApprovalPolicy, FileAccess, ResponseItem
from codex_framework.contract.protocol.policies import GranularApproval, WorkspaceWrite
from codex_framework.testing import LoneTurn, turn_facts


@pytest.fixture
def turn() -> Callable[..., LoneTurn]:
    """Make a turn."""
    return _turn


@pytest.fixture
def section() -> Callable[[str, str], list[Any]]:
    """What stands between two markers of a prompt, line by line, as JSON. There must be one such section."""
    return _section


def _turn(
    history: Sequence[ResponseItem] = (),
    *,
    config: dict[str, Any] | None = None,
    reply: Any = None,
    policy: ApprovalPolicy | GranularApproval = ApprovalPolicy.ON_REQUEST,
    turn_id: str = "turn",
    access: FileAccess | None = None,
) -> LoneTurn:
    facts = turn_facts(
        turn_id=turn_id,
        cwd=Path("/work"),
        approval_policy=policy,
        sandbox_policy=WorkspaceWrite(),
        access=access or FileAccess.writing(Path("/work")),
        config={"approvals_reviewer": "auto_review"} if config is None else config,
        codex_home=Path("/home"),
    )
    return LoneTurn(facts, history=history, reply=reply)


def _section(text: str, name: str) -> list[Any]:
    (found,) = re.findall(f"^>>> {name} START\n(.*?)\n?>>> {name} END$", text, re.S | re.M)
    return [json.loads(line) for line in found.split("\n") if line]
