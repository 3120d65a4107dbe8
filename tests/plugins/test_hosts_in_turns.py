"""Hosts in whole turns: the sandbox, the proxy, the rules that are kept, and a person who is asked."""

from __future__ import annotations

import asyncio
import http.server
import shutil
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from codex_framework.contract.protocol.events.command import ExecApprovalRequestEvent
from codex_framework.contract.protocol.items import FunctionCallOutput
from codex_framework.contract.protocol.ops import ExecApproval
from codex_framework.contract.protocol.policies import ApprovalPolicy, Decision, ReviewDecision
from codex_framework.testing.replies import call, say

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the sandbox of this test is Linux's"),
    pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl"),
]

CONFIG = """default_permissions = "net"
[permissions.net]
extends = ":workspace"
[permissions.net.network]
enabled = true
allow_local_binding = true
[permissions.net.network.domains]
"known.example" = "allow"
"""


class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "6")
        self.end_headers()
        self.wfile.write(b"hello\n")

    def log_message(self, *_: Any) -> None:
        """Quietly."""


@pytest.fixture
def server() -> Iterator[str]:
    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hello)
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    yield f"127.0.0.1:{httpd.server_port}"
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def played(
    make_kernel: Any, script: str, answer: ReviewDecision | None, *, turns: int = 1
) -> tuple[list[str], list[Any]]:
    """Outputs of ``script``, run once a turn, and what was asked."""
    asked = []

    async def main() -> list[str]:
        replies = [reply for _ in range(turns) for reply in (call("exec_command", cmd=script), say("done"))]
        policy = ApprovalPolicy.NEVER if answer is None else ApprovalPolicy.ON_REQUEST
        async with make_kernel(replies, config=CONFIG) as kernel:
            report = kernel.registry.sandboxes["landlock"].probe()
            if not report.available:
                pytest.skip(f"the sandbox does not work here: {report.reason}")
            thread = await kernel.start_thread(approval_policy=policy)
            for _ in range(turns):
                async for event in thread.stream("go"):
                    if isinstance(event, ExecApprovalRequestEvent):
                        asked.append(event)
                        assert answer is not None
                        await thread.submit(ExecApproval(event.approval_id or event.call_id, answer))
            return [item.output for item in thread.history.items if isinstance(item, FunctionCallOutput)]

    outputs = asyncio.run(asyncio.wait_for(main(), 60))
    return [output.split("Output:\n", 1)[1] for output in outputs], asked


def fetch(server: str) -> str:
    return f"curl -sS --noproxy '' http://{server}/"


def test_an_approved_host_is_reached_by_way_of_the_proxy_only(make_kernel: Any, server: str) -> None:
    script = f"{fetch(server)}; curl -sS --noproxy '*' http://{server}/ 2>&1 | cut -c1-24"
    outputs, asked = played(make_kernel, script, ReviewDecision(Decision.APPROVED))
    assert outputs == ["hello\ncurl: (7) Failed to conn\n"]
    (event,) = asked
    assert event.network_approval_context == {"host": "127.0.0.1", "protocol": "http"}
    assert event.command == ("network-access", f"http://{server}")


def test_where_nobody_may_be_asked_the_proxy_says_what_would_allow_it(make_kernel: Any, server: str) -> None:
    ((output,), asked) = played(make_kernel, fetch(server), None)
    assert asked == []
    assert "127.0.0.1" in output
    assert "domains" in output


def test_a_refused_host_ends_the_command(make_kernel: Any, server: str) -> None:
    outputs, _ = played(make_kernel, f"{fetch(server)}; sleep 50; echo still there", ReviewDecision(Decision.DENIED))
    assert "still there" not in outputs[0]


def test_an_answer_for_the_session_is_not_asked_for_again(make_kernel: Any, server: str) -> None:
    outputs, asked = played(make_kernel, fetch(server), ReviewDecision(Decision.APPROVED_FOR_SESSION), turns=3)
    assert outputs == ["hello\n"] * 3
    assert len(asked) == 1


@pytest.mark.parametrize("action", ["allow", "deny"])
def test_a_rule_that_was_accepted_is_written_and_holds_for_the_next_session(
    make_kernel: Any, server: str, action: str
) -> None:
    decision = Decision.APPROVED if action == "allow" else Decision.DENIED
    rule = ReviewDecision(decision, network_amendment={"host": "127.0.0.1", "action": action})
    _, asked = played(make_kernel, fetch(server), rule)
    assert len(asked) == 1
    rules = (make_kernel.codex_home / "rules" / "default.rules").read_text()
    assert f'network_rule(host="127.0.0.1", protocol="http", decision="{action}"' in rules
    (output,), asked = played(make_kernel, fetch(server), None)
    assert asked == []
    assert (output == "hello\n") == (action == "allow")
