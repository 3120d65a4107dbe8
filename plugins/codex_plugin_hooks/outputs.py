"""The decisions from a hook's exit code and output."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from codex_framework import Value
from codex_framework.contract.value import field
from codex_plugin_hooks.events import HookEntry, Status
from codex_plugin_hooks.names import EVENTS, HookEvent
from codex_plugin_hooks.running import Ran

__all__ = ["Verdict", "verdict"]

_UNIVERSAL: dict[str, type] = {"continue": bool, "stopReason": str, "suppressOutput": bool, "systemMessage": str}
_SPECIFIC: dict[str, dict[str, type]] = {
    "PreToolUse": {
        "permissionDecision": str,
        "permissionDecisionReason": str,
        "updatedInput": object,
        "additionalContext": str,
    },
    "PermissionRequest": {"decision": Mapping},
    "PostToolUse": {"additionalContext": str, "updatedMCPToolOutput": object},
    "SessionStart": {"additionalContext": str},
    "SubagentStart": {"additionalContext": str},
    "UserPromptSubmit": {"additionalContext": str},
}
"""The fields of ``hookSpecificOutput`` at each event that has one, besides ``hookEventName``."""

_DECIDING = ("PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop", "SubagentStop")
"""Events whose hooks may return ``decision`` and ``reason``."""

_PERMISSION: dict[str, type] = {
    "behavior": str,
    "message": str,
    "updatedInput": object,
    "updatedPermissions": object,
    "interrupt": bool,
}
_ADDS_CONTEXT = ("SessionStart", "SubagentStart", "UserPromptSubmit")
"""Events at which output that is not JSON is context for the model."""

_DECIDES_NOTHING = ("PreModelRequest", "PostModelRequest", "SessionEnd")
"""Events whose hooks' output is ignored."""

_REASONS = {
    "PreToolUse": "a blocking reason",
    "PermissionRequest": "a denial reason",
    "PostToolUse": "feedback",
    "UserPromptSubmit": "a blocking reason",
    "Stop": "a continuation prompt",
    "SubagentStop": "a continuation prompt",
}
"""Events at which exit code 2 blocks, and what stderr then contains."""

_LABELS = {
    "PreCompact": "PreCompact hook",
    "PostCompact": "PostCompact hook",
    "Stop": "stop hook",
    "SubagentStop": "subagent stop hook",
    "SessionStart": "session start",
    "SubagentStart": "subagent start",
    "UserPromptSubmit": "user prompt submit",
    "Interrupt": "interrupt hook",
}
"""Names in the message about invalid output (Codex's words), where they differ from the event's label."""


class Verdict(Value, kw_only=True):
    """The result of one run.

    Attributes:
        entries: Lines for clients.
        context: Texts for the model.
        reason: Why it blocks. None if it does not.
        stops: Whether it ends the turn, or prevents the compaction.
        stop_reason: The reason, for the user.
        allows: Whether it approves a request for approval.
        updated: New arguments of a call.
    """

    status: Status = "completed"
    entries: tuple[HookEntry, ...] = ()
    context: tuple[str, ...] = ()
    reason: str | None = None
    stops: bool = False
    stop_reason: str | None = None
    allows: bool = False
    updated: Any = field(default=None)

    @property
    def has_effect(self) -> bool:
        """Whether the run decides, changes or adds something."""
        return bool(self.context or self.stops or self.allows or self.reason is not None or self.updated is not None)


def verdict(event: HookEvent, ran: Ran) -> Verdict:
    """Return the decision of a run. A failed run decides nothing."""
    if ran.error:
        return _failure_verdict(ran.error)
    if ran.exit_code == 2 and event.name in _REASONS:
        return _exit_2(event, ran)
    if ran.exit_code != 0:
        return _failure_verdict(ran.failure)
    text = ran.stdout.removeprefix("\ufeff").strip()
    if not text or event.name in _DECIDES_NOTHING:
        return Verdict()
    if text.startswith(("{", "[")) or event.name in ("Stop", "SubagentStop"):
        return _from_json(event, text, cut=ran.cut)
    if event.name == "Interrupt":
        return _failure_verdict("Interrupt hook returned non-JSON stdout")
    return _with_context(Verdict(), text) if event.name in _ADDS_CONTEXT else Verdict()


def _exit_2(event: HookEvent, ran: Ran) -> Verdict:
    reason = ran.stderr.strip()
    if not reason:
        return _failure_verdict(
            f"{event.name} hook exited with code 2 but did not write {_REASONS[event.name]} to stderr"
        )
    return _block_verdict(Verdict(), reason)


def _from_json(event: HookEvent, text: str, *, cut: bool) -> Verdict:
    label = _LABELS.get(event.name, event.label)
    try:
        if cut:
            raise _Invalid("there is more than 1 MiB of it")
        given = _read(event, text)
    except _Invalid as error:
        return _failure_verdict(f"hook returned invalid {label} JSON output: {error}")
    message = given.get("systemMessage")
    start = Verdict(entries=() if message is None else (HookEntry("warning", message),))
    return _DECIDERS[event.name](event, given, start)


class _Invalid(Exception):  # noqa: N818  # never leaves this module
    """The output does not have the form of its event's."""


def _read(event: HookEvent, text: str) -> Mapping[str, Any]:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _Invalid(f"it is not JSON ({error})") from None
    if not isinstance(given, Mapping):
        raise _Invalid("it is not an object")
    fields: dict[str, type] = {"systemMessage": str} if event.name == "Interrupt" else dict(_UNIVERSAL)
    if event.name in _DECIDING:
        fields |= {"decision": str, "reason": str}
    if event.name in _SPECIFIC:
        fields["hookSpecificOutput"] = Mapping
    _check(given, fields, "")
    specific = given.get("hookSpecificOutput")
    if specific is not None:
        _check(specific, {"hookEventName": str, **_SPECIFIC[event.name]}, "hookSpecificOutput.")
        if specific.get("hookEventName") not in EVENTS:
            raise _Invalid("hookSpecificOutput.hookEventName must be the name of the event")
    _check_words(event, given, specific or {})
    return given


def _check(given: Mapping[str, Any], fields: Mapping[str, type], place: str) -> None:
    for name, value in given.items():
        if name not in fields:
            raise _Invalid(f"unknown field `{place}{name}`")
        if value is not None and not isinstance(value, fields[name]):
            raise _Invalid(f"`{place}{name}` has the wrong type")


def _check_words(event: HookEvent, given: Mapping[str, Any], specific: Mapping[str, Any]) -> None:
    words = ("approve", "block") if event.name == "PreToolUse" else ("block",)
    if given.get("decision") not in (None, *words):
        raise _Invalid(f"`decision` is {given['decision']!r}, not {' or '.join(words)}")
    if specific.get("permissionDecision") not in (None, "allow", "deny", "ask"):
        raise _Invalid(f"`permissionDecision` is {specific['permissionDecision']!r}, not allow, deny or ask")
    decision = specific.get("decision")
    if decision is not None:
        _check(decision, _PERMISSION, "decision.")
        if decision.get("behavior") not in ("allow", "deny"):
            raise _Invalid("`decision.behavior` must be allow or deny")


def _pre_tool_use(event: HookEvent, given: Mapping[str, Any], found: Verdict) -> Verdict:
    specific = given.get("hookSpecificOutput") or {}
    fault = _unsupported_field(event, given, ("continue", "stopReason", "suppressOutput"))
    is_specific = any(specific.get(name) is not None for name in _CHOICES)
    fault = fault or (_choice_fault(specific) if is_specific else _legacy_fault(given))
    if fault:
        return _failure_verdict(fault, found)
    found = _with_context(found, specific.get("additionalContext"))
    denies = specific.get("permissionDecision") == "deny" if is_specific else given.get("decision") == "block"
    if denies:
        reason: str = specific["permissionDecisionReason"] if is_specific else given["reason"]
        return _block_verdict(found, reason.strip())
    return found.evolve(updated=specific.get("updatedInput")) if is_specific else found


_CHOICES = ("permissionDecision", "permissionDecisionReason", "updatedInput")


def _choice_fault(specific: Mapping[str, Any]) -> str:
    """Return the problem of a choice in ``hookSpecificOutput``, in Codex's words."""
    decision, changes = specific.get("permissionDecision"), specific.get("updatedInput") is not None
    reason = specific.get("permissionDecisionReason")
    if changes and decision != "allow":
        return "PreToolUse hook returned updatedInput without permissionDecision:allow"
    if decision == "ask" or (decision == "allow" and not changes):
        return f"PreToolUse hook returned unsupported permissionDecision:{decision}"
    if decision == "deny" and not (reason or "").strip():
        return "PreToolUse hook returned permissionDecision:deny without a non-empty permissionDecisionReason"
    if decision is None and reason is not None:
        return "PreToolUse hook returned permissionDecisionReason without permissionDecision"
    return ""


def _legacy_fault(given: Mapping[str, Any]) -> str:
    decision, reason = given.get("decision"), given.get("reason")
    if decision == "approve":
        return "PreToolUse hook returned unsupported decision:approve"
    if decision == "block" and not (reason or "").strip():
        return _no_reason("PreToolUse")
    if decision is None and reason is not None:
        return "PreToolUse hook returned reason without decision"
    return ""


def _permission_request(event: HookEvent, given: Mapping[str, Any], found: Verdict) -> Verdict:
    decision = (given.get("hookSpecificOutput") or {}).get("decision") or {}
    fault = _unsupported_field(event, given, ("continue", "stopReason", "suppressOutput"))
    fault = fault or _unsupported_field(event, decision, ("updatedInput", "updatedPermissions", "interrupt"))
    if fault:
        return _failure_verdict(fault, found)
    if decision.get("behavior") == "deny":
        return _block_verdict(
            found, (decision.get("message") or "").strip() or "PermissionRequest hook denied approval"
        )
    return found.evolve(allows=decision.get("behavior") == "allow")


def _post_tool_use(event: HookEvent, given: Mapping[str, Any], found: Verdict) -> Verdict:
    specific = given.get("hookSpecificOutput") or {}
    fault = _unsupported_field(event, given, ("suppressOutput",)) or _unsupported_field(
        event, specific, ("updatedMCPToolOutput",)
    )
    decision, reason = given.get("decision"), given.get("reason")
    stops = given.get("continue") is False
    if not fault and decision == "block" and not (reason or "").strip():
        fault = _no_reason(event.name)
    if not fault and decision is None and reason is not None and not stops:
        fault = "PostToolUse hook returned reason without decision"
    if not fault:
        found = _with_context(found, specific.get("additionalContext"))
    if stops:
        text = given.get("stopReason") or "PostToolUse hook stopped execution"
        return _stop_verdict(found, given, text).evolve(reason=(reason or "").strip() or text)
    if fault:
        return _failure_verdict(fault, found)
    return _block_verdict(found, given["reason"]) if decision == "block" else found


def _prompt(event: HookEvent, given: Mapping[str, Any], found: Verdict) -> Verdict:
    fault = _block_fault(event, given)
    if not fault:
        found = _with_context(found, (given.get("hookSpecificOutput") or {}).get("additionalContext"))
    if given.get("continue") is False:
        return _stop_verdict(found, given)
    if fault:
        return _failure_verdict(fault, found)
    return _block_verdict(found, given["reason"]) if given.get("decision") == "block" else found


def _start(event: HookEvent, given: Mapping[str, Any], found: Verdict) -> Verdict:
    found = _with_context(found, (given.get("hookSpecificOutput") or {}).get("additionalContext"))
    stops = event.name == "SessionStart" and given.get("continue") is False
    return _stop_verdict(found, given) if stops else found


def _stop(event: HookEvent, given: Mapping[str, Any], found: Verdict) -> Verdict:
    if given.get("continue") is False:
        return _stop_verdict(found, given)
    fault = _block_fault(event, given)
    if fault:
        return _failure_verdict(fault, found)
    return _block_verdict(found, given["reason"].strip()) if given.get("decision") == "block" else found


def _compact(event: HookEvent, given: Mapping[str, Any], found: Verdict) -> Verdict:
    if given.get("continue") is not False:
        return found
    return _stop_verdict(found, given, given.get("stopReason") or f"{event.name} hook stopped execution")


_DECIDERS: dict[str, Callable[[HookEvent, Mapping[str, Any], Verdict], Verdict]] = {
    "PreToolUse": _pre_tool_use,
    "PermissionRequest": _permission_request,
    "PostToolUse": _post_tool_use,
    "PreCompact": _compact,
    "PostCompact": _compact,
    "SessionStart": _start,
    "SubagentStart": _start,
    "UserPromptSubmit": _prompt,
    "Stop": _stop,
    "SubagentStop": _stop,
    "Interrupt": lambda _, __, found: found,
}


def _unsupported_field(event: HookEvent, given: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """Return a sentence about the first of some fields that is set, although the event does not support it."""
    for name in names:
        value = given.get(name)
        if name == "continue":
            if value is False:
                return f"{event.name} hook returned unsupported continue:false"
        elif name in ("suppressOutput", "interrupt"):
            if value is True:
                return f"{event.name} hook returned unsupported {name}{':true' if name == 'interrupt' else ''}"
        elif value is not None:
            return f"{event.name} hook returned unsupported {name}"
    return ""


def _block_fault(event: HookEvent, given: Mapping[str, Any]) -> str:
    lacks = given.get("decision") == "block" and not (given.get("reason") or "").strip()
    return _no_reason(event.name) if lacks else ""


def _no_reason(event: str) -> str:
    return f"{event} hook returned decision:block without a non-empty reason"


def _with_context(found: Verdict, text: str | None) -> Verdict:
    if text is None:
        return found
    return found.evolve(context=(*found.context, text), entries=(*found.entries, HookEntry("context", text)))


def _block_verdict(found: Verdict, reason: str) -> Verdict:
    return found.evolve(status="blocked", reason=reason, entries=(*found.entries, HookEntry("feedback", reason)))


def _stop_verdict(found: Verdict, given: Mapping[str, Any], text: str | None = None) -> Verdict:
    reason = given.get("stopReason")
    text = text or reason
    entries = found.entries if text is None else (*found.entries, HookEntry("stop", text))
    return found.evolve(status="stopped", stops=True, stop_reason=reason, entries=entries)


def _failure_verdict(text: str, found: Verdict | None = None) -> Verdict:
    entries = () if found is None else found.entries
    return Verdict(status="failed", entries=(*entries, HookEntry("error", text)))
