"""What clients set reaches the kernel as it is meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codex_framework.contract.protocol.policies import (
    ApprovalPolicy,
    DangerFullAccess,
    ExternalSandbox,
    GranularApproval,
    ReadOnly,
    WorkspaceWrite,
)
from codex_plugin_app_server.errors import RpcError
from codex_plugin_app_server.settings import thread_config, thread_overrides, turn_overrides
from codex_plugin_app_server.settings_json import sandbox_json

POLICIES: list[tuple[dict[str, Any], object]] = [
    ({"type": "dangerFullAccess"}, DangerFullAccess()),
    ({"type": "readOnly", "networkAccess": False}, ReadOnly()),
    ({"type": "externalSandbox", "networkAccess": "enabled"}, ExternalSandbox("enabled")),
    (
        {
            "type": "workspaceWrite",
            "writableRoots": ["/a"],
            "networkAccess": True,
            "excludeTmpdirEnvVar": True,
            "excludeSlashTmp": False,
        },
        WorkspaceWrite(("/a",), True, True, False),
    ),
]


@pytest.mark.parametrize(("wire", "policy"), POLICIES)
def test_sandbox_policy_is_the_same_in_both_directions(wire: dict[str, Any], policy: object) -> None:
    assert turn_overrides({"sandboxPolicy": wire}).sandbox_policy == policy
    assert sandbox_json(policy) == wire


def test_approval_policy_is_that_of_the_client() -> None:
    granular = {"granular": {"sandbox_approval": True, "rules": False, "mcp_elicitations": False}}
    assert thread_overrides({"approvalPolicy": "never"}) == {"approval_policy": ApprovalPolicy.NEVER}
    assert turn_overrides({"approvalPolicy": "untrusted"}).approval_policy is ApprovalPolicy.UNTRUSTED
    expected = GranularApproval(sandbox_approval=True, rules=False, mcp_elicitations=False)
    assert turn_overrides({"approvalPolicy": granular}).approval_policy == expected


def test_what_a_client_leaves_out_is_not_changed(tmp_path: Path) -> None:
    assert turn_overrides({}) == turn_overrides({"model": None, "cwd": None, "sandboxPolicy": None})
    assert thread_config({"sandbox": "read-only", "config": {"model_verbosity": "low", "x": None}}) == {
        "sandbox_mode": "read-only",
        "model_verbosity": "low",
    }
    assert thread_overrides({"cwd": str(tmp_path)}) == {"cwd": tmp_path}
    with pytest.raises(RpcError, match="not a directory"):
        thread_overrides({"cwd": str(tmp_path / "missing")})
