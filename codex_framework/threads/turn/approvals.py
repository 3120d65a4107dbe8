"""Approvals in a turn: reviewers first, then the clients of the thread; and what tools ask to be allowed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from codex_framework.contract.errors import ToolError, ToolRefused
from codex_framework.contract.protocol.events import Approval, ApprovalRequest, ToolApprovalRequestEvent, WarningEvent
from codex_framework.contract.protocol.policies import ApprovalPolicy, Decision, GranularApproval, ReviewDecision
from codex_framework.contract.roles.calls import ToolCall
from codex_framework.contract.roles.reviewers import ApprovalReviewer
from codex_framework.plugins.offers import Offer
from codex_framework.plugins.registration import RegisteredTool
from codex_framework.threads.faults import checked, described, place_of
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
        """Ask for what a tool wants to be allowed.

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
            try:
                await registered.allow_always(call, self._contexts(registered.plugin))
            except Exception as error:  # a person has allowed this call, so it is made all the same
                fact = f"tool {tool!r}: the approval could not be saved, so it holds once: {described(error)}"
                self._scope.conversation.parts.warn(f"{fact}{place_of(error)}")

    def _wanted(self, registered: RegisteredTool, call: ToolCall) -> Approval | None:
        assert registered.needs_approval is not None
        try:
            wanted = registered.needs_approval(call, self._scope.facts)
            return None if wanted is None else checked(wanted, Approval, f"tool {registered.spec.name!r}")
        except ToolError:
            raise
        except Exception as error:  # a tool that cannot say whether it needs one is asked about
            name = registered.spec.name
            self._scope.conversation.parts.warn(f"tool {name!r}: needs_approval() failed: {described(error)}")
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
        name = reviewer.item.name
        try:
            async with asyncio.timeout(REVIEW_PATIENCE_S):
                decision = await reviewer.item.review(request, self._contexts(reviewer.plugin))
            return None if decision is None else checked(decision, ReviewDecision, f"reviewer {name!r}")
        except TimeoutError:
            self._scope.emit(WarningEvent(f"approval reviewer {name!r} did not answer in time; denied"))
            return ReviewDecision(Decision.TIMED_OUT)
        except Exception as error:  # deciders fail closed
            self._scope.emit(WarningEvent(f"approval reviewer {name!r} failed: {described(error)}; denied"))
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
