"""Checks of a tool's methods before a call: views, changed arguments, approvals and previews."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

from codex_framework.contract.errors import ToolError
from codex_framework.contract.protocol.events import Approval, EventMsg
from codex_framework.contract.roles.calls import CallView, ToolCall
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.loader.registration import RegisteredTool
from codex_framework.testing.conformance.findings import Findings, Unmet

__all__ = ["check_before_call"]

_WITHIN_S = 0.5
"""Time limit for each of these methods in seconds, because they are called on the event loop."""

_NONSENSE: Mapping[str, Any] = {"no such argument": ["no such thing"]}


def check_before_call(
    findings: Findings, tool: RegisteredTool, what: str, call: ToolCall, facts: TurnFacts, *, works: bool
) -> None:
    """Check the methods of a tool before one call.

    Args:
        what: A description of the call, for messages.
        works: Whether the arguments of the call are valid.
    """
    for check in (_check_view, _check_approval, _check_preview):
        try:
            check(findings, tool, what, call, facts)
        except Unmet:
            continue
    if works and tool.with_arguments is not None:
        try:
            _check_change(findings, tool, what, call)
        except Unmet:
            return


def _check_view(findings: Findings, tool: RegisteredTool, what: str, call: ToolCall, facts: TurnFacts) -> None:
    del facts
    _view(findings, tool, what, call)


def _view(findings: Findings, tool: RegisteredTool, what: str, call: ToolCall) -> CallView | None:
    view = tool.view
    if view is None:
        return None
    found: Any = findings.call(f"view() of {what}", lambda: view(call), within_s=_WITHIN_S)
    if found is None:
        return None
    if not isinstance(found, CallView):
        findings.note(f"view() of {what} returns {type(found).__name__}, not a CallView or None")
        raise Unmet
    named = isinstance(found.name, str) and found.name
    findings.require(named, f"view() of {what} returns the name {found.name!r}, not a word")
    if not isinstance(found.arguments, Mapping) or not _is_json(dict(found.arguments)):
        findings.note(f"view() of {what} returns arguments that are not a JSON object")
        raise Unmet
    return found


def _check_change(findings: Findings, tool: RegisteredTool, what: str, call: ToolCall) -> None:
    """Give a call the arguments that its view shows, which changes nothing, and invalid ones."""
    if tool.view is None:
        findings.note("it has with_arguments() but no view(), which says in what form the arguments are given")
        return
    shown = _view(findings, tool, what, call)
    if shown is None:
        return
    try:
        same = _change(findings, tool, what, call, shown.arguments)
    except ToolError as error:
        findings.note(f"with_arguments() of {what} refuses the arguments that view() shows: {error}")
        return
    if _view(findings, tool, what, same) != shown:
        findings.note(
            f"with_arguments() of {what}, given the arguments that view() shows, returns a call with other arguments"
        )
    try:
        _change(findings, tool, what, call, _NONSENSE)
    except ToolError:
        return


def _change(
    findings: Findings, tool: RegisteredTool, what: str, call: ToolCall, arguments: Mapping[str, Any]
) -> ToolCall:
    change = tool.with_arguments
    assert change is not None
    what = f"with_arguments() of {what}"
    found: Any = findings.call(what, lambda: change(call, arguments), within_s=_WITHIN_S, allowed=(ToolError,))
    if not isinstance(found, ToolCall):
        findings.note(f"{what} returns {type(found).__name__}, not a ToolCall")
        raise Unmet
    if found.evolve(arguments=call.arguments) != call:
        findings.note(f"{what} changes more than the arguments of the call")
    return found


def _check_approval(findings: Findings, tool: RegisteredTool, what: str, call: ToolCall, facts: TurnFacts) -> None:
    needs_approval = tool.needs_approval
    if needs_approval is None:
        return
    what = f"needs_approval() of {what}"
    try:
        found: Any = findings.call(what, lambda: needs_approval(call, facts), within_s=_WITHIN_S, allowed=(ToolError,))
    except ToolError as error:
        findings.require(str(error).strip(), f"{what} raises a ToolError without text: the model reads nothing")
        return
    if found is None:
        return
    if not isinstance(found, Approval):
        findings.note(f"{what} returns {type(found).__name__}, not an Approval or None")
        return
    asks = isinstance(found.question, str) and found.question.strip()
    findings.require(asks, f"{what} has no question, so the user would not know what it is about")
    findings.require(found.key is None or isinstance(found.key, str), f"{what} has the key {found.key!r}, not a string")
    findings.require(_is_json(found.details), f"{what} has details that are not plain JSON data")
    findings.require(
        not found.always or tool.allow_always is not None,
        f"{what} offers to allow it always, and there is no allow_always() that would save the answer",
    )


def _check_preview(findings: Findings, tool: RegisteredTool, what: str, call: ToolCall, facts: TurnFacts) -> None:
    del facts
    preview = tool.preview
    if preview is None:
        return
    what, text = f"preview() of {what}", call.arguments
    for size in sorted({0, 1, len(text) // 2, len(text)}):
        ask = functools.partial(preview, call.call_id, text[:size])
        found: Any = findings.call(what, ask, within_s=_WITHIN_S)
        fits = found is None or isinstance(found, EventMsg)
        findings.require(fits, f"{what} returns {type(found).__name__}, not an EventMsg or None")


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False, default=dict)
    except (TypeError, ValueError, RecursionError):
        return False
    return True
