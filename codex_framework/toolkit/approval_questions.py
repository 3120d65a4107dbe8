"""What a person is asked when something needs an approval, the same in every interface.

What is shown is what is granted: the question, and a line for each fact that the answer decides. Texts of models, servers and files
are escaped, so that none of them can add a line or hide one, and the reason that the model gives comes last and is named as such.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from codex_framework.contract.protocol.events import (
    ApplyPatchApprovalRequestEvent,
    ApprovalRequest,
    ExecApprovalRequestEvent,
    FileChange,
    RequestPermissionsEvent,
    ToolApprovalRequestEvent,
    UpdateFile,
)
from codex_framework.contract.protocol.wire import to_wire
from codex_framework.toolkit.terminal_text import printable

__all__ = ["ALLOW_PREFIX", "answer_labels", "approval_question"]

ALLOW_PREFIX = "approved_execpolicy_amendment"
"""The answer that allows a prefix of commands from now on."""

_LABELS = {
    "approved": "Allow",
    "approved_for_session": "Allow for this session",
    ALLOW_PREFIX: "Allow, and do not ask again for commands that start like this",
    "approved_always": "Always allow",
    "denied": "Deny, and let the model go on",
    "abort": "Deny, and stop the turn",
}
_MOST_FILES = 100
_LONGEST = 4_000
"""The longest reason and the longest arguments that are shown, in characters. Commands and paths are shown whole."""


def answer_labels(request: ApprovalRequest) -> dict[str, str]:
    """Return the answers that a person can choose from, each with its label."""
    words = ["approved"]
    match request:
        case ExecApprovalRequestEvent(available_decisions=available, proposed_execpolicy_amendment=prefix):
            if available is None or "approved_for_session" in available:
                words.append("approved_for_session")
            if prefix is not None:
                words.append(ALLOW_PREFIX)
        case ToolApprovalRequestEvent(approval=approval):
            words += ["approved_for_session"] if approval.key is not None else []
            words += ["approved_always"] if approval.always else []
        case _:
            words.append("approved_for_session")
    return {word: _LABELS[word] for word in (*words, "denied", "abort")}


def approval_question(request: ApprovalRequest) -> str:
    """Return the question for a person: the question itself, and a line for each fact."""
    match request:
        case ExecApprovalRequestEvent():
            lines = _command_lines(request)
        case ApplyPatchApprovalRequestEvent():
            lines = _patch_lines(request)
        case ToolApprovalRequestEvent():
            lines = _tool_lines(request)
        case RequestPermissionsEvent():
            lines = _permissions_lines(request)
        case _:
            lines = iter([f"Allow {request.subject}?"])
    reason = getattr(request, "reason", None)
    return "\n".join([*map(printable, lines), *([f"The model's reason: {_shortened(reason)}"] if reason else [])])


def _command_lines(request: ExecApprovalRequestEvent) -> Iterator[str]:
    if (network := request.network_approval_context) is not None:
        yield f"Allow Codex to let a command connect to `{network.get('host')}` ({network.get('protocol')})?"
        yield f"Requested: {shlex.join(request.command)}"
    else:
        yield f"Allow Codex to run `{shlex.join(request.command)}` in `{request.cwd}`?"
    if request.environment_id is not None:
        yield f"It runs in the environment `{request.environment_id}`."
    if request.without_sandbox:
        yield "It runs WITHOUT the sandbox: nothing limits what it reads, writes and connects to."
    if request.additional_permissions:
        yield from _permission_facts(request.additional_permissions, "It gets")
    if "approved_for_session" in answer_labels(request):
        same = "this host" if network is not None else "the same command in the same folder"
        yield f"“For this session” covers {same}."
    for rule in request.proposed_network_policy_amendments or ():
        yield f"A rule that an answer can save for all sessions: {rule.get('action')} the host `{rule.get('host')}`."
    if request.proposed_execpolicy_amendment is not None:
        prefix = shlex.join(request.proposed_execpolicy_amendment)
        yield f"“Do not ask again” allows every command that begins with `{prefix}`, in all sessions."


def _patch_lines(request: ApplyPatchApprovalRequestEvent) -> Iterator[str]:
    yield "Allow Codex to apply proposed code changes?"
    if request.environment_id is not None:
        yield f"They are made in the environment `{request.environment_id}`."
    for path, change in sorted(request.changes.items())[:_MOST_FILES]:
        yield f"{change.type}: {path}{_moved_to(change)}"
    if (more := len(request.changes) - _MOST_FILES) > 0:
        yield f"... and {more} more files"
    if request.without_sandbox:
        yield "They are made WITHOUT the sandbox, where this turn must not write."
    if request.grant_root is not None:
        yield f"“For this session” lets Codex write everything in `{request.grant_root}`."


def _moved_to(change: FileChange) -> str:
    return f" -> {change.move_path}" if isinstance(change, UpdateFile) and change.move_path else ""


def _tool_lines(request: ToolApprovalRequestEvent) -> Iterator[str]:
    yield request.approval.question
    yield f"Tool: {request.tool}"
    if request.arguments.strip():
        yield f"Arguments: {_shortened(request.arguments)}"
    if request.approval.always:
        yield "“Always allow” is saved in your configuration, for all sessions."


def _permissions_lines(request: RequestPermissionsEvent) -> Iterator[str]:
    yield f"Allow Codex to use further permissions, in `{request.cwd}`?"
    yield from _permission_facts(request.permissions, "Permission:")
    yield "“Allow” is for this turn, “for this session” for all that follow."


def _permission_facts(permissions: Mapping[str, Any], beginning: str) -> Iterator[str]:
    """Yield a line for each permission on the wire."""
    rest = {name: value for name, value in permissions.items() if name not in ("network", "file_system")}
    network, files = (_mapping(permissions.get(name)) for name in ("network", "file_system"))
    if network.get("enabled"):
        yield f"{beginning} the network"
    for access in ("read", "write"):
        for path in _sequence(files.get(access)):
            yield f"{beginning} {access} `{_place(path)}`"
    for entry in map(_mapping, _sequence(files.get("entries"))):
        yield f"{beginning} {entry.get('access')} `{_place(entry.get('path'))}`"
    if rest:
        yield f"{beginning} {json.dumps(to_wire(rest), ensure_ascii=False)}"


def _place(path: Any) -> str:
    if isinstance(path, str):
        return path
    facts = _mapping(path)
    return str(facts.get("path") or facts.get("pattern") or json.dumps(to_wire(path), ensure_ascii=False))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()


def _shortened(text: str) -> str:
    more = len(text) - _LONGEST
    return printable(text[:_LONGEST]) + (f"... ({more} more characters)" if more > 0 else "")
