"""Approvals in a turn: reviewers are asked first, then the clients of the thread. This includes approvals for tool calls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from codex_framework.commands.approval import policy_actor
from codex_framework.contract.errors import ToolError, ToolRefused
from codex_framework.contract.protocol.events import Approval, ApprovalRequest, ToolApprovalRequestEvent, WarningEvent
from codex_framework.contract.protocol.events.requests import Closed
from codex_framework.contract.protocol.policies import ApprovalPolicy, Decision, GranularApproval, ReviewDecision
from codex_framework.contract.roles.calls import ToolCall
from codex_framework.contract.roles.observers import Notification
from codex_framework.contract.roles.provenance import Actor
from codex_framework.contract.roles.reviewers import ApprovalReviewer
from codex_framework.contract.roles.threads import TurnContext
from codex_framework.loader.offers import Offer
from codex_framework.loader.registration import RegisteredTool
from codex_framework.threads.faults import Label, check_type
from codex_framework.threads.plugin_calls import PluginTimeout, call_isolated, call_with_timeout, collect_causes
from codex_framework.threads.requests import subject_of
from codex_framework.threads.turn.turn_context import TurnContexts
from codex_framework.toolkit.validation import validate

__all__ = ["Approvals"]


class Approvals:
    """The approvals of one turn.

    Args:
        contexts: The contexts of the turn.
        interrupt: Interrupts the turn, for an answer that aborts.
    """

    def __init__(self, contexts: TurnContexts, interrupt: Callable[[], None]) -> None:
        self._contexts = contexts
        self._scope = contexts.scope
        self._interrupt = interrupt

    async def approve(self, registered: RegisteredTool, call: ToolCall) -> None:
        """Request the approval that a tool requires.

        Raises:
            ToolRefused: The call is not allowed.
            ToolError: The tool itself refuses the call.
        """
        tool = registered.spec.name
        approval = self._required_approval(registered, call)
        if approval is None:
            return
        cache = self._scope.conversation.tool_approvals
        keys = [] if approval.key is None else [(registered.plugin, tool, approval.key)]
        if cache.covers(keys):
            self._scope.reports.report_decision(call.call_id, "approved_for_session", "user")
            return
        policy = self._scope.settings.approval_policy
        if policy is ApprovalPolicy.NEVER or (isinstance(policy, GranularApproval) and not policy.sandbox_approval):
            self._scope.reports.report_decision(call.call_id, "denied")
            refusal = ToolRefused(f"{tool} needs an approval, but the approval policy does not allow asking")
            self._scope.reports.report_refusal(call.call_id, policy_actor(policy), str(refusal))
            raise refusal
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
        """Let a tool save the answer. If that fails, the answer still applies to this call."""
        label = Label("tool", registered.spec.name, registered.plugin)
        try:
            await call_isolated(save, call, self._contexts(registered.plugin))
        except Exception as error:  # a plugin may raise anything
            then = "The call is made, but the next one will need an approval again."
            text = label.describe_failure("allow_always", error, then=then, source=save)
            self._scope.conversation.notices.tell(text)

    def _required_approval(self, registered: RegisteredTool, call: ToolCall) -> Approval | None:
        assert registered.needs_approval is not None
        name, ask = registered.spec.name, registered.needs_approval
        label = Label("tool", name, registered.plugin)
        notices = self._scope.conversation.notices
        try:
            wanted = notices.call(label, "needs_approval", ask, call, self._scope.facts)
            return None if wanted is None else validate(wanted, Approval, "it", ask)
        except ToolError:
            raise
        except Exception as error:  # a failed check means that approval is needed
            notices.tell(label.describe_failure("needs_approval", error, then="The user is asked.", source=ask))
            return Approval(question=f"May {name} be called? (It failed to tell whether it needs an approval.)")

    async def ask(self, request: ApprovalRequest) -> ReviewDecision:
        """Return the answer of the first reviewer that has one, else the answer of the thread's clients."""
        began = time.monotonic()
        reports = self._scope.reports
        with reports.telemetry.measure("codex.approval", call_id=request.call_id, kind=request.type) as span:
            decision, by = await self._answer(request)
            source = "automated_reviewer" if by.role == "approval reviewer" else "user"
            said = decision_of(decision)
            span.set(decision=said, source=source)
        reports.report_answer(request.call_id, by, said, source, decision.message, time.monotonic() - began)
        if decision.decision is Decision.ABORT:
            if decision.message:
                self._scope.emit(WarningEvent(decision.message, slug="not-approved"))
            asyncio.get_running_loop().call_soon(self._interrupt)
        return decision

    async def _answer(self, request: ApprovalRequest) -> tuple[ReviewDecision, Actor]:
        """Return the answer, and who gave it."""
        for reviewer in self._scope.conversation.host.registry.reviewers:
            causes = collect_causes()
            decision = await self._review(reviewer, request)
            if decision is not None:
                name = reviewer.item.name
                by = Actor(role="approval reviewer", name=name, plugin=reviewer.plugin, causes=tuple(causes))
                return _explain(decision, name), by
        closed: list[Closed] = []
        answer = await self._scope.ask(
            request, shown=lambda: self._notify_pending(_question(request)), how=closed.append
        )
        by = Actor(role="user") if closed == [Closed.ANSWERED] else Actor(role="nobody", causes=tuple(closed))
        return check_type(answer, ReviewDecision, "the answer"), by

    async def _review(self, reviewer: Offer[ApprovalReviewer], request: ApprovalRequest) -> ReviewDecision | None:
        label = Label("approval reviewer", reviewer.item.name, reviewer.plugin)
        review, limit_s = reviewer.item.review, reviewer.item.time_limit_s
        try:
            decision = await call_with_timeout(limit_s, review, request, self._contexts(reviewer.plugin))
            return None if decision is None else validate(decision, ReviewDecision, "it", review)
        except PluginTimeout:
            self._scope.emit(
                WarningEvent(label.late("review", limit_s, review, then="The request is denied."), slug="plugin-failed")
            )
            return ReviewDecision(Decision.TIMED_OUT)
        except Exception as error:  # fails closed
            self._scope.emit(
                WarningEvent(
                    label.describe_failure("review", error, then="The request is denied.", source=review),
                    slug="plugin-failed",
                )
            )
            return ReviewDecision(Decision.DENIED, message=f"rejected: the approval reviewer {label.name!r} failed")

    def _notify_pending(self, question: str) -> None:
        """Flush the record, which shows what led to the question, and inform notifiers."""
        scope = self._scope
        scope.flush()
        scope.conversation.host.broadcast.notification(
            Notification(
                type="approval-requested",
                thread_id=scope.thread_id,
                turn_id=scope.turn_id,
                cwd=str(scope.settings.cwd),
                text=question,
                client=scope.conversation.meta.originator,
            )
        )


def _explain(decision: ReviewDecision, reviewer: str) -> ReviewDecision:
    """Return a reviewer's refusal with a message that names the reviewer, if it has no message."""
    if decision.approved or decision.decision is Decision.ABORT or decision.message is not None:
        return decision
    late = decision.decision is Decision.TIMED_OUT
    text = (
        f"the approval reviewer {reviewer!r} did not answer in time"
        if late
        else f"by the approval reviewer {reviewer!r}"
    )
    return decision.evolve(message=f"rejected: {text}" if late else f"rejected {text}")


def decision_of(decision: ReviewDecision) -> str:
    """Return a decision as telemetry names it (Codex's words)."""
    if decision.network_amendment is not None:
        allows = decision.network_amendment.get("action") == "allow"
        return "approved_with_network_policy_allow" if allows else "denied_with_network_policy_deny"
    return "approved_with_amendment" if decision.execpolicy_amendment is not None else decision.decision.value


def _question(request: ApprovalRequest) -> str:
    """Return the question in a sentence, for a user who is not watching."""
    if isinstance(request, ToolApprovalRequestEvent):
        return request.approval.question
    reason = getattr(request, "reason", None)
    return f"{subject_of(request)}: {reason}" if reason else subject_of(request)
