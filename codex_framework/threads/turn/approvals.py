"""Approvals in a turn: reviewers are asked first, then the clients of the thread. This includes approvals for tool calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from codex_framework.contract.errors import ToolError, ToolRefused
from codex_framework.contract.protocol.events import Approval, ApprovalRequest, ToolApprovalRequestEvent, WarningEvent
from codex_framework.contract.protocol.policies import ApprovalPolicy, Decision, GranularApproval, ReviewDecision
from codex_framework.contract.roles.calls import ToolCall
from codex_framework.contract.roles.reviewers import ApprovalReviewer
from codex_framework.contract.roles.threads import TurnContext
from codex_framework.plugins.offers import Offer
from codex_framework.plugins.registration import RegisteredTool
from codex_framework.threads.faults import Label, checked
from codex_framework.threads.patience import Late, contained, within
from codex_framework.threads.turn.turn_context import TurnContexts

__all__ = ["Approvals"]

REVIEW_PATIENCE_S = 90.0
"""Longest time a reviewer may take; no answer counts as "denied" (Codex: 90 s)."""


class Approvals:
    """Who is asked, in one turn.

    Args:
        contexts: The turn as plugins have it.
        interrupt: Interrupts the turn, for an answer that aborts.
    """

    def __init__(self, contexts: TurnContexts, interrupt: Callable[[], None]) -> None:
        self._contexts = contexts
        self._scope = contexts.scope
        self._interrupt = interrupt

    async def approve(self, registered: RegisteredTool, call: ToolCall) -> None:
        """Request the approval that a tool requires.

        Raises:
            ToolRefused: It is not allowed.
            ToolError: The tool says that the call cannot be made at all.
        """
        tool = registered.spec.name
        approval = self._wanted(registered, call)
        if approval is None:
            return
        cache = self._scope.conversation.tool_approvals
        keys = [] if approval.key is None else [(registered.plugin, tool, approval.key)]
        if cache.covers(keys):
            return
        policy = self._scope.settings.approval_policy
        if policy is ApprovalPolicy.NEVER or (isinstance(policy, GranularApproval) and not policy.sandbox_approval):
            raise ToolRefused(f"{tool} needs an approval, and the approval policy lets nobody be asked")
        request = ToolApprovalRequestEvent(
            call_id=call.call_id,
            turn_id=self._scope.turn_id,
            tool=tool,
            approval=approval,
            arguments=call.arguments,
            request_id=call.call_id,
        )
        decision = await self.ask(request)
        if not decision.approved:
            raise ToolRefused(decision.message or "rejected by user")
        cache.remember(keys, decision)
        if decision.decision is Decision.APPROVED_ALWAYS and approval.always and registered.allow_always is not None:
            await self._allow_always(registered, registered.allow_always, call)

    async def _allow_always(
        self, registered: RegisteredTool, save: Callable[[ToolCall, TurnContext], Awaitable[None]], call: ToolCall
    ) -> None:
        """Have a tool save the answer. It holds for this call in any case."""
        label = Label("tool", registered.spec.name, registered.plugin)
        try:
            await contained(save, call, self._contexts(registered.plugin))
        except Exception as error:  # a plugin may raise anything
            text = f"{label.failed('allow_always', error)}. The call is made, but it will be asked about again."
            self._scope.conversation.notices.tell(text)

    def _wanted(self, registered: RegisteredTool, call: ToolCall) -> Approval | None:
        assert registered.needs_approval is not None
        name, ask = registered.spec.name, registered.needs_approval
        label = Label("tool", name, registered.plugin)
        notices = self._scope.conversation.notices
        try:
            wanted = notices.timed(label, "needs_approval", ask, call, self._scope.facts)
            return None if wanted is None else checked(wanted, Approval, "it", ask)
        except ToolError:
            raise
        except Exception as error:  # a tool that cannot say whether it needs one is asked about
            notices.tell(label.failed("needs_approval", error))
            return Approval(question=f"May {name} be called? (It could not tell whether it needs an approval.)")

    async def ask(self, request: ApprovalRequest) -> ReviewDecision:
        """Get an answer: from the first reviewer that has one, else from the thread's clients."""
        for reviewer in self._scope.conversation.host.registry.reviewers:
            decision = await self._reviewed(reviewer, request)
            if decision is not None:
                return self._heeded(decision)
        answer = await self._scope.ask(request, shown=lambda: self._scope.approval_pending(_reason(request)))
        return self._heeded(checked(answer, ReviewDecision, "the answer"))

    async def _reviewed(self, reviewer: Offer[ApprovalReviewer], request: ApprovalRequest) -> ReviewDecision | None:
        label = Label("approval reviewer", reviewer.item.name, reviewer.plugin)
        review = reviewer.item.review
        try:
            decision = await within(REVIEW_PATIENCE_S, review, request, self._contexts(reviewer.plugin))
            return None if decision is None else checked(decision, ReviewDecision, "it", review)
        except Late:
            self._scope.emit(WarningEvent(f"{label.late('review', REVIEW_PATIENCE_S, review)}; denied"))
            return ReviewDecision(Decision.TIMED_OUT)
        except Exception as error:  # fails closed
            self._scope.emit(WarningEvent(f"{label.failed('review', error)}; denied"))
            return ReviewDecision(Decision.DENIED)

    def _heeded(self, decision: ReviewDecision) -> ReviewDecision:
        """An answer that aborts ends the turn as well."""
        if decision.decision is Decision.ABORT:
            if decision.message:
                self._scope.emit(WarningEvent(decision.message))
            asyncio.get_running_loop().call_soon(self._interrupt)
        return decision


def _reason(request: ApprovalRequest) -> str:
    if isinstance(request, ToolApprovalRequestEvent):
        return request.approval.question
    return str(getattr(request, "reason", None) or "")
