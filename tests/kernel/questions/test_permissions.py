"""What people are asked about additional permissions of a command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codex_framework import (
    NetworkMode,
)
from codex_framework.contract.permissions.profile import additional_from_wire
from codex_framework.contract.protocol.policies import ApprovalPolicy, GranularApproval, ReviewDecision

from .conftest import NO, OUTSIDE_TMP, WORKSPACE, YES, Played, Shell

FEATURE = WORKSPACE + "features.exec_permission_approvals = true\n"


def wanting(folder: Path, *, network: bool = False, **files: Any) -> Shell:
    raw: dict[str, Any] = {"file_system": files or {"write": [str(folder)]}}
    if network:
        raw["network"] = {"enabled": True}
    return Shell("true", escalate="with_additional_permissions", additional=additional_from_wire(raw))


def test_additional_permissions_widen_the_sandbox_for_the_one_call(played: Played, tmp_path: Path) -> None:
    more = tmp_path / "more"
    more.mkdir()
    assert played.play(wanting(more, network=True), config=FEATURE) == ["0 "]
    (access,) = (access for access in played.box.accesses if access.may_write(more / "x"))
    assert not access.may_write(more / ".git" / "x")
    assert access.network is NetworkMode.ON
    (event,) = played.asked
    assert event.additional_permissions == {
        "network": {"enabled": True},
        "file_system": {"entries": [{"path": {"type": "path", "path": str(more)}, "access": "write"}]},
    }
    assert played.play(Shell("true"), config=FEATURE) == ["0 "]
    assert not played.box.accesses[-1].may_write(more / "x")


def test_additional_permissions_are_refused_where_nobody_may_be_asked(played: Played, tmp_path: Path) -> None:
    for policy, word in ((ApprovalPolicy.NEVER, "Never"), (GranularApproval(False, True, True), "Granular")):
        (refusal,) = played.play(wanting(tmp_path), policy=policy, config=FEATURE)
        assert refusal == f"approval policy is {word}: additional permissions cannot be requested; work without them"
    (refusal,) = played.play(wanting(tmp_path))
    assert "enable `features.exec_permission_approvals`" in refusal
    (refusal,) = played.play(Shell("true", escalate="with_additional_permissions"), config=FEATURE)
    assert refusal.startswith("missing `additional_permissions`")
    assert played.asked == []


@pytest.mark.parametrize("path", ["~nobody-of-this-name/x", "loop/x", "a" * 5000])
def test_additional_permissions_for_a_path_that_cannot_exist_are_a_question_like_any_other(
    played: Played, path: str
) -> None:
    (played.workspace / "loop").symlink_to("loop")
    assert played.play(wanting(played.workspace, read=[path]), config=FEATURE) == ["0 "]
    assert len(played.asked) == 1


def test_who_approves_additional_permissions_has_not_approved_to_lift_the_sandbox(
    played: Played, tmp_path: Path
) -> None:
    script = 'test -z "$CONFINED" || { echo Permission denied >&2; exit 1; }; echo free'
    additional = additional_from_wire({"file_system": {"write": [str(tmp_path)]}})
    fails = Shell("sh", "-c", script, escalate="with_additional_permissions", additional=additional)
    policy = GranularApproval(True, True, True)

    def refused_the_second(event: Any) -> ReviewDecision:
        return NO if event.reason == "command failed; retry without sandbox?" else YES

    assert played.play(fails, refused_the_second, policy=policy, config=FEATURE) == ["1 Permission denied\n"]
    assert len(played.asked) == 2
    assert played.play(fails, policy=policy, config=FEATURE) == ["0 free\n"]
    assert len(played.asked) == 4


def test_additional_permissions_do_not_lift_a_denial(played: Played, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    (secret / "deeper").mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to(secret)
    config = f"""default_permissions = "p"
{OUTSIDE_TMP}
features.exec_permission_approvals = true
[permissions.p]
extends = ":workspace"
[permissions.p.filesystem]
"{secret}" = "deny"
"""
    away = tmp_path / "away"
    (secret / "way out").symlink_to(away)
    for path in (secret, secret / "deeper", link / "deeper", secret / "way out"):
        (refusal,) = played.play(wanting(path), config=config)
        assert refusal.startswith("additional permissions refused: ")
        assert refusal.endswith("is denied by the permission profile")
    assert played.asked == []
    assert played.play(wanting(tmp_path), config=config) == ["0 "]
    access = played.box.accesses[-1]
    assert access.may_write(tmp_path / "x")
    assert not access.may_read(secret / "deeper" / "x")
