"""The check of interceptors."""

from __future__ import annotations

import time
from collections.abc import Awaitable
from functools import partial
from typing import Any

from codex_framework.contract.errors import CodexError, described
from codex_framework.contract.protocol.events import ErrorEvent
from codex_framework.contract.protocol.items import Message, OutputText, user_message
from codex_framework.contract.roles.calls import ToolCall, ToolOutput
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.interceptors import Interceptor, UserInput
from codex_framework.contract.roles.models import ModelRequest, ProviderInfo
from codex_framework.contract.roles.outcomes import Compaction
from codex_framework.contract.roles.plugins import Offer
from codex_framework.loader.value_checks import value_problems
from codex_framework.testing.conformance.client_wrappers import check_wrapping
from codex_framework.testing.conformance.findings import Findings, Unmet, run_check
from codex_framework.testing.conformance.stage import HELLO, SOON_S, Stage, interrupted
from codex_framework.testing.facts import turn_facts
from codex_framework.testing.replies import say
from codex_framework.testing.requests import model_request
from codex_framework.testing.threads import ScriptedThread
from codex_framework.threads.interceptor_table import Guard, InterceptorTable
from codex_framework.toolkit.json_patch import apply_json_patch
from codex_framework.toolkit.value_diff import diff_values, documents_of

__all__ = ["check_interceptor"]


_KINDS: dict[type, str] = {
    UserInput: "input",
    ModelRequest: "request",
    ToolCall: "call",
    ToolOutput: "output",
    Message: "item",
}
"""The words of the record for the values that interceptors get."""

_TEXTS = ("", "usual", "\x1b[31m\u202e\u2028`$(id)\n{}", *("x" * length for length in (2_000, 20_000, 200_000)))
_SLOW_S = 0.25
"""CPU time for one of the texts. If the time grows with the square of the length, the longest text takes minutes."""


def check_interceptor(
    interceptor: Interceptor, *, config: str = "", installed: bool = False, provider: ProviderInfo | None = None
) -> None:
    """Check that an interceptor fulfils its role: typical and unusual values for each method, turns, two concurrent kernels.

    It may refuse and stop with the errors of the contract. Any other exception is a violation.

    Args:
        interceptor: The interceptor.
        config, installed: As for :func:`check_component`.
        provider: The table of a provider whose client it wraps. By default, the table has only a name.

    Raises:
        ContractViolation: It does not; every violation is listed.
    """
    findings = Findings("interceptor", interceptor)
    for problem in value_problems("codex_interceptors", interceptor):
        findings.note(problem)
    if findings.check_members(interceptor, Interceptor):
        stage = Stage(findings, lambda: {"interceptors": [interceptor]}, config=config, installed=installed)
        table = provider or ProviderInfo(id="checked", name="checked")
        run_check(
            findings, lambda: _check_wrappings(findings, InterceptorTable([Offer("checked", interceptor)]), table)
        )
        run_check(findings, lambda: _check_interceptor(findings, stage, interceptor))
    findings.raise_any()


def _check_predicates(findings: Findings, interceptor: Interceptor, table: InterceptorTable, facts: TurnFacts) -> None:
    if hasattr(interceptor, "applies"):
        applies: object = findings.call("applies()", lambda: interceptor.applies(facts), within_s=SOON_S)
        findings.require(isinstance(applies, bool), f"applies() returns {applies!r}, not True or False")
    hello = UserInput(items=(user_message("Hello!"),))
    for predicate in filter(None, table.takes):
        takes: object = findings.call("takes()", partial(predicate.call, hello, facts), within_s=SOON_S)
        findings.require(isinstance(takes, bool), f"takes() returns {takes!r}, not True or False")


async def _check_wrappings(findings: Findings, table: InterceptorTable, provider: ProviderInfo) -> None:
    for guard in table.client:
        await check_wrapping(findings, guard, provider)


async def _check_interceptor(findings: Findings, stage: Stage, interceptor: Interceptor) -> None:
    table = InterceptorTable([Offer("checked", interceptor)])
    facts = turn_facts()
    _check_predicates(findings, interceptor, table, facts)
    for guard in table.redact:
        for text in _TEXTS:
            began = time.thread_time()
            result: object = findings.call("redact()", partial(guard.call, text, facts), within_s=1.0)
            findings.require(isinstance(result, str), f"redact() returns {type(result).__name__}, not a string")
            if _is_slow(findings, "redact()", began, text):
                return
    slow = False

    async def odd(thread: ScriptedThread) -> None:
        nonlocal slow
        slow = await _check_values(findings, table, _Turn(thread))

    async def turns(thread: ScriptedThread) -> None:
        for text in ("Go!", _TEXTS[2], "x" * 100_000):
            await thread.turn(text)
        for event in thread.events:
            if isinstance(event, ErrorEvent):
                findings.require("failed: " not in event.message, event.message)

    replies = [say("One."), say(_TEXTS[2]), say("Three.")] + [HELLO] * 30
    await stage.play("with odd values", odd)
    if slow:
        return
    await stage.play("in turns", turns, replies=replies)
    await stage.play("in an interrupted turn", interrupted, replies=replies)
    await stage.play("in two kernels at once", turns, replies=replies, kernels=2)


def _is_slow(findings: Findings, what: str, began: float, text: str) -> bool:
    """Return whether a text took so long that longer ones would take minutes, which is noted."""
    took = time.thread_time() - began
    if took <= _SLOW_S or text is _TEXTS[-1]:
        return False
    findings.note(f"{what} takes {took:.1f} s for {len(text):,} characters; longer texts are not tried")
    return True


class _Turn:
    """The context for an interceptor, with the thread of a scene."""

    samples = 1
    continuations = 0

    def __init__(self, thread: ScriptedThread) -> None:
        self.facts = turn_facts()
        self.thread = thread.inside("checked")
        self.history = thread.history
        self.service = self.thread.service
        self.state = self.thread.state
        self.span = self.thread.span

    def emit(self, event: Any) -> None:
        """Drop the event."""

    def because(self, cause: str) -> None:
        """Forget the cause."""

    def view(self, call: ToolCall) -> None:
        """Return no view."""


async def _check_values(findings: Findings, table: InterceptorTable, turn: _Turn) -> bool:
    """Call each method with typical and unusual values. Return whether it is too slow for longer ones."""
    for text in _TEXTS:
        began = time.thread_time()
        call, output = ToolCall("call-1", "nothing", text), ToolOutput(text)
        item, given = Message("assistant", (OutputText(text),)), UserInput(items=(user_message(text),))
        for guard in table.input:
            await _check_answer(findings, "input()", guard.call(given, turn), given)
        for guard in table.before_tool:
            await _check_answer(findings, "before_tool()", guard.call(call, turn), call)
        for guard in table.after_tool:
            await _check_answer(findings, "after_tool()", guard.call(call, output, turn), output)
        for guard in table.after_item:
            await _check_answer(findings, "after_item()", guard.call(item, turn), item)
        for guard in table.view_message:
            _check_view(findings, guard, text[:2000], turn)
        if _is_slow(findings, "the interceptor", began, text):
            return True
    request = model_request("hello")
    for guard in table.request:
        await _check_answer(findings, "request()", guard.call(request, turn), request)
    for guard in table.after_compact:
        compaction = Compaction(items=[user_message("short")], message="short")
        await _check_answer(findings, "after_compact()", guard.call(compaction, "manual", turn))
    return False


def _check_view(findings: Findings, guard: Guard, text: str, turn: _Turn) -> None:
    """Check that a view of a message returns text, and the same text however the message is cut."""
    found = []
    for size in (max(len(text), 1), 1):
        try:
            view = guard.call(turn)
            if view is None:
                return
            shown = [view.feed(text[place : place + size]) for place in range(0, len(text), size)]
            shown.append(view.end())
        except Exception as error:
            findings.note(f"view_message() raises {described(error)}")
            return
        wrong = next((piece for piece in shown if not isinstance(piece, str)), None)
        if wrong is not None or None in shown:
            findings.note(f"its message view returns {type(wrong).__name__}, not text")
            return
        found.append("".join(shown))
    findings.require(found[0] == found[1], "its message view shows other text when the message is cut differently")


async def _check_answer(findings: Findings, what: str, work: Awaitable[Any], before: Any = None) -> None:
    """Check the result of a method: a value of the class that it was given, whose change can be recorded."""
    try:
        result = await findings.wait_for(what, work, within_s=5.0, allowed=(CodexError,))
    except (CodexError, Unmet):
        return
    if before is None or result is before:
        return
    kind = type(before)
    findings.require(isinstance(result, kind), f"{what} returns {type(result).__name__}, not {kind.__name__}")
    if isinstance(result, kind):
        _check_recordable(findings, what, before, result)


def _check_recordable(findings: Findings, what: str, before: Any, after: Any) -> None:
    """Check that an interceptor's change can be recorded."""
    kind = _KINDS[type(before)]
    try:
        patch = diff_values(kind, before, after).patch
        first, second = documents_of(kind, before, after)
    except (AttributeError, TypeError, ValueError, RecursionError) as error:
        findings.note(f"{what} returns a {type(after).__name__} that cannot be recorded as JSON: {described(error)}")
        return
    findings.require(
        apply_json_patch(first, patch) == second,
        f"{what} returns a {type(after).__name__} whose patch does not give it",
    )
