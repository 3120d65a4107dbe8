"""The facts of a turn for a reviewer, without a turn, and what stands in a prompt."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ApprovalPolicy, FileAccess, ModelInfo, ResponseItem, ReviewFacts
from codex_framework.protocol.policies import GranularApproval


@pytest.fixture
def facts() -> Callable[..., ReviewFacts]:
    """Make facts."""
    return _facts


@pytest.fixture
def section() -> Callable[[str, str], list[Any]]:
    """What stands between two markers of a prompt, line by line, as JSON. There must be one such section."""
    return _section


def _facts(
    history: Sequence[ResponseItem] = (),
    *,
    config: dict[str, Any] | None = None,
    delegate: Any = None,
    warn: Callable[[str], None] = lambda text: None,
    policy: ApprovalPolicy | GranularApproval = ApprovalPolicy.ON_REQUEST,
    state: dict[Any, Any] | None = None,
    turn_id: str = "turn",
    access: FileAccess | None = None,
) -> ReviewFacts:
    kept = {} if state is None else state
    return ReviewFacts(
        thread_id="thread",
        turn_id=turn_id,
        cwd=Path("/work"),
        approval_policy=policy,
        access=access or FileAccess.writing(Path("/work")),
        config={"approvals_reviewer": "auto_review"} if config is None else config,
        codex_home=Path("/home"),
        model=ModelInfo(slug="model"),
        history=history,
        delegate=delegate,
        state=lambda key, factory: kept.setdefault(key, factory()),
        warn=warn,
    )


def _section(text: str, name: str) -> list[Any]:
    (found,) = re.findall(f"^>>> {name} START\n(.*?)\n?>>> {name} END$", text, re.S | re.M)
    return [json.loads(line) for line in found.split("\n") if line]
