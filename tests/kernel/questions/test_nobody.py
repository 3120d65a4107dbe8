"""What becomes of questions that nobody can answer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from codex_framework import (
    CommandVerdict,
    Verdict,
)
from codex_framework.contract.protocol.events.command import (
    ExecApprovalRequestEvent,
)
from codex_framework.contract.protocol.items import FunctionCallOutput
from codex_framework.contract.protocol.ops import ExecApproval
from codex_framework.contract.protocol.policies import ApprovalPolicy
from codex_framework.testing.replies import call, say

from .conftest import ASKS, WORKSPACE, YES, Box, Keeper, Patch, Shell

PRECAUTION = CommandVerdict(verdict=Verdict.ASK, precaution=True)
NOBODY = "rejected: this needs an approval, and no user can be asked for it"


@pytest.mark.parametrize(
    ("verdicts", "policy", "output"),
    [
        ([PRECAUTION], ApprovalPolicy.ON_REQUEST, "0 ran\n"),
        ([PRECAUTION], ApprovalPolicy.ON_FAILURE, "0 ran\n"),
        ([PRECAUTION], ApprovalPolicy.UNTRUSTED, NOBODY),
        ([PRECAUTION, ASKS], ApprovalPolicy.ON_REQUEST, NOBODY),
        ([ASKS, PRECAUTION], ApprovalPolicy.ON_REQUEST, NOBODY),
        ([PRECAUTION, CommandVerdict(verdict=Verdict.ALLOW)], ApprovalPolicy.ON_REQUEST, "0 ran\n"),
    ],
)
def test_only_a_question_that_was_a_precaution_needs_no_answer_if_nobody_is_there(
    make_kernel: Any, verdicts: list[CommandVerdict], policy: ApprovalPolicy, output: str
) -> None:
    from codex_framework.contract.protocol.events.thread import WarningEvent
    from codex_framework.testing import Offer

    async def main() -> tuple[list[Any], list[str]]:
        policies = [Keeper(verdict) for verdict in verdicts]
        for number, keeper in enumerate(policies):
            keeper.name = f"keeper-{number}"
        offer = Offer(tools=[Shell("echo", "ran")], sandboxes=[Box()], policies=policies)
        made = make_kernel([call("sh"), say("done")], plugins=[offer], config=WORKSPACE, entry_points=())
        async with made as kernel:
            thread = await kernel.start_thread(approval_policy=policy)
            result = await thread.run("go")
            outputs = [item.output for item in thread.history.items if isinstance(item, FunctionCallOutput)]
            return outputs, [event.message for event in result.events if isinstance(event, WarningEvent)]

    outputs, warnings = asyncio.run(asyncio.wait_for(main(), 60))
    assert outputs == [output]
    assert len([text for text in warnings if "nobody" in text]) == (output == NOBODY)


def test_what_nobody_has_approved_is_not_run_again_without_the_sandbox(make_kernel: Any) -> None:
    from codex_framework.testing import Offer

    fails = Shell("sh", "-c", 'test -z "$CONFINED" || { echo Permission denied >&2; exit 1; }; echo free')

    async def main() -> list[Any]:
        offer = Offer(tools=[fails], sandboxes=[Box()], policies=[Keeper(PRECAUTION)])
        made = make_kernel([call("sh"), say("done")], plugins=[offer], config=WORKSPACE, entry_points=())
        async with made as kernel:
            thread = await kernel.start_thread(approval_policy=ApprovalPolicy.ON_FAILURE)
            await thread.run("go")
            return [item.output for item in thread.history.items if isinstance(item, FunctionCallOutput)]

    assert "free" not in asyncio.run(asyncio.wait_for(main(), 60))[0]


def test_a_run_that_nobody_listens_to_is_denied_what_it_asks(make_kernel: Any, tmp_path: Path) -> None:
    from codex_framework.contract.protocol.events.thread import WarningEvent
    from codex_framework.testing import Offer

    async def main() -> tuple[list[Any], list[str]]:
        offer = Offer(
            tools=[Shell("echo", "ran", escalate="require_escalated"), Patch(tmp_path / "x")], sandboxes=[Box()]
        )
        made = make_kernel([call("sh"), call("patch"), say("done")], plugins=[offer], config=WORKSPACE, entry_points=())
        async with made as kernel:
            thread = await kernel.start_thread(approval_policy=ApprovalPolicy.ON_REQUEST)
            result = await thread.run("go")
            outputs = [item.output for item in thread.history.items if isinstance(item, FunctionCallOutput)]
            return outputs, [event.message for event in result.events if isinstance(event, WarningEvent)]

    outputs, warnings = asyncio.run(asyncio.wait_for(main(), 60))
    assert outputs == ["rejected: this needs an approval, and no user can be asked for it"] * 2
    assert [text for text in warnings if "nobody" in text] == [
        "nobody can answer, so the answer is no: the command echo ran",
        f"nobody can answer, so the answer is no: a patch of {tmp_path}/x",
    ]


def test_a_listener_can_answer_what_a_run_asks(make_kernel: Any) -> None:
    from codex_framework.testing import Offer

    async def main() -> list[Any]:
        offer = Offer(tools=[Shell("echo", "ran", escalate="require_escalated")], sandboxes=[Box()])
        made = make_kernel([call("sh"), say("done")], plugins=[offer], config=WORKSPACE, entry_points=())
        async with made as kernel:
            thread = await kernel.start_thread(approval_policy=ApprovalPolicy.ON_REQUEST)

            async def answer() -> None:
                async for event in listening:
                    if isinstance(event.msg, ExecApprovalRequestEvent):
                        await thread.submit(ExecApproval(event.msg.call_id, YES))
                        return

            listening = thread.events()
            answering = asyncio.ensure_future(answer())
            await thread.run("go")
            await answering
            return [item.output for item in thread.history.items if isinstance(item, FunctionCallOutput)]

    assert asyncio.run(asyncio.wait_for(main(), 60)) == ["0 ran\n"]
