"""A host that a running command wants to reach: asked of the guardian, by sandbox and proxy as they are."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from typing import Any

import pytest

from codex_framework import ApprovalPolicy
from codex_framework.testing import call, say

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the sandbox of this test is Linux's"),
    pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl"),
]

CONFIG = """default_permissions = "net"
approvals_reviewer = "auto_review"
[permissions.net]
extends = ":workspace"
[permissions.net.network]
enabled = true
[permissions.net.network.domains]
"known.example" = "allow"
"""


def test_a_host_is_reviewed(make_kernel: Any, section: Any):
    script = "curl -sS http://new.invalid/; sleep 50; echo still there"
    replies = iter([call("exec_command", cmd=script), say("done")])

    def reply(request: Any) -> Any:
        reviewing = request.instructions.startswith("You decide approval requests")
        return say(json.dumps({"outcome": "deny"})) if reviewing else next(replies)

    async def main() -> Any:
        async with make_kernel([reply] * 3, config=CONFIG) as kernel:
            report = kernel.registry.sandboxes["landlock"].probe()
            if not report.available:
                pytest.skip(f"the sandbox does not work here: {report.reason}")
            return await asyncio.wait_for(kernel.run_turn("Fetch it.", approval_policy=ApprovalPolicy.ON_REQUEST), 60)

    turn = asyncio.run(main())
    assert "still there" not in turn.outputs[0]
    (review,) = (request for request in turn.requests if request.instructions.startswith("You decide approval"))
    (action,) = section(review.prompt.items[0].content[0].text, "APPROVAL REQUEST")
    assert (action["action"], action["host"], action["protocol"]) == ("reach_network", "new.invalid", "http")
    assert action["target"] == ["http://new.invalid:80"]
