"""The questions that ask a person for an approval, the same in every interface.

Everything that is granted is shown: the question, and a line for each fact that the answer decides. Texts of models, servers
and files are escaped, so that none of them can add a line, hide one or end its own quotation. The reason, which the model may
have written, comes last. A question has a limited length. It states how much it omits, and shows the beginning and the end of
long texts.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
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
    "denied": "Deny, and let the model continue",
    "abort": "Deny, and stop the turn",
}
_MOST = 100
"""The most files, and the most permissions, that are shown."""

_LONGEST = 4_000
"""The longest command, reason and arguments that are shown whole, in characters."""

_LONGEST_NAME = 400
"""The longest path, host or name that is shown whole, in characters."""

_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Invisible characters that Python regards as printable."""

_GAP = re.compile(" {20,}")
"""Spaces that could move the rest of a text out of sight."""


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


def approval_question(request: ApprovalRequest, *, command: str | None = None) -> str:
    """Return the question for a person: the question itself, and a line for each fact.

    Args:
        command: A command as the interface shows it elsewhere. By default all its words are shown, quoted for a shell.
    """
    match request:
        case ExecApprovalRequestEvent():
            lines = _command_lines(request, shlex.join(request.command) if command is None else command)
        case ApplyPatchApprovalRequestEvent():
            lines = _patch_lines(request)
        case ToolApprovalRequestEvent():
            lines = _tool_lines(request)
        case RequestPermissionsEvent():
            lines = _permissions_lines(request)
        case _:
            lines = iter([f"Allow {_one_line(request.subject)}?"])
    reason = getattr(request, "reason", None)
    return "\n".join([*lines, *([f"{_reason_label(request)}: {_one_line(reason)}"] if reason else [])])


def _reason_label(request: ApprovalRequest) -> str:
    asks_about_host = isinstance(request, ExecApprovalRequestEvent) and request.network_approval_context is not None
    return "Because" if asks_about_host else "Reason of the model or of a rule"


def _command_lines(request: ExecApprovalRequestEvent, shown: str) -> Iterator[str]:
    command = _quote_text(shown, _LONGEST)
    if (network := request.network_approval_context) is not None:
        yield f"Allow Codex to let a command connect to {_quote_text(network.get('host'))} ({_one_line(network.get('protocol'))})?"
        yield f"Requested: {command}"
    else:
        yield f"Allow Codex to run {command} in {_quote_text(request.cwd)}?"
    if request.environment_id is not None:
        yield f"It runs in the environment {_quote_text(request.environment_id)}."
    if request.without_sandbox:
        yield "It runs WITHOUT the sandbox: its reads, writes and connections are not restricted."
    if request.additional_permissions:
        yield from _permission_facts(request.additional_permissions, "It gets")
    if "approved_for_session" in answer_labels(request):
        same = (
            "this host, port and protocol"
            if network is not None
            else "the same command in the same folder, until a file that it names changes"
        )
        yield f"“For this session” covers {same}."
    for rule in request.proposed_network_policy_amendments or ():
        action, host = _one_line(rule.get("action")), _quote_text(rule.get("host"))
        yield f"A rule that an answer can save for all sessions: {action} the host {host}."
    if request.proposed_execpolicy_amendment is not None:
        prefix = _quote_text(shlex.join(request.proposed_execpolicy_amendment), _LONGEST)
        yield f"“Do not ask again” allows every command that begins with {prefix}, in all sessions and WITHOUT the sandbox."


def _patch_lines(request: ApplyPatchApprovalRequestEvent) -> Iterator[str]:
    yield "Allow Codex to apply proposed code changes?"
    if request.environment_id is not None:
        yield f"They are made in the environment {_quote_text(request.environment_id)}."
    if request.without_sandbox:
        yield "They are made WITHOUT the sandbox, where this turn must not write."
    changes = sorted(request.changes.items())
    for path, change in changes[:_MOST]:
        yield f"{change.type}: {_quote_text(path)}{_moved_to(change)}"
    if rest := changes[_MOST:]:
        targets = [path for path, _ in rest] + [
            change.move_path for _, change in rest if isinstance(change, UpdateFile) and change.move_path
        ]
        yield f"... and {len(rest)} more files{_common_folder(targets)}"
    if request.grant_root is None:
        yield "“For this session” covers patches of the same files."
    else:
        yield f"“For this session” lets Codex write everything in {_quote_text(request.grant_root)}."


def _common_folder(paths: Sequence[str]) -> str:
    """Return in which folder all paths are, as the end of a line. Empty if they have no folder in common."""
    try:
        return f", all in {_quote_text(os.path.commonpath(map(os.path.normpath, paths)))}"
    except ValueError:  # absolute paths and relative ones
        return ""


def _moved_to(change: FileChange) -> str:
    return f" -> {_quote_text(change.move_path)}" if isinstance(change, UpdateFile) and change.move_path else ""


def _tool_lines(request: ToolApprovalRequestEvent) -> Iterator[str]:
    yield _one_line(request.approval.question)
    yield f"Tool: {_quote_text(request.tool)}"
    if request.arguments.strip():
        yield f"Arguments: {_one_line(request.arguments)}"
    if request.approval.key is not None:
        key = _quote_text(request.approval.key)
        yield f"“For this session” covers all calls with the approval key {key}, whatever their arguments."
    if request.approval.always:
        yield "“Always allow” is saved in your configuration, for all sessions."


def _permissions_lines(request: RequestPermissionsEvent) -> Iterator[str]:
    yield f"Allow Codex to use further permissions, in {_quote_text(request.cwd)}?"
    if request.environment_id is not None:
        yield f"They apply in the environment {_quote_text(request.environment_id)}."
    yield from _permission_facts(request.permissions, "Permission:")
    yield "“Allow” is for this turn, “for this session” for all that follow."


def _permission_facts(permissions: Mapping[str, Any], beginning: str) -> Iterator[str]:
    """Yield a line for each permission on the wire, and one line for the permissions beyond the limit."""
    facts = _each_permission(permissions)
    for fact in islice(facts, _MOST):
        yield f"{beginning} {fact}"
    if more := sum(1 for _ in facts):
        yield f"... and {more} more permissions"


def _each_permission(permissions: Mapping[str, Any]) -> Iterator[str]:
    rest = {name: value for name, value in permissions.items() if name not in ("network", "file_system")}
    network, files = (_mapping(permissions.get(name)) for name in ("network", "file_system"))
    if network.get("enabled"):
        yield "the network"
    if rest:
        yield _one_line(json.dumps(to_wire(rest), ensure_ascii=False))
    for access in ("read", "write"):
        for path in _sequence(files.get(access)):
            yield f"{access} {_quote_text(_place(path))}"
    for entry in map(_mapping, _sequence(files.get("entries"))):
        yield f"{_one_line(entry.get('access'))} {_quote_text(_place(entry.get('path')))}"


def _place(path: Any) -> str:
    if isinstance(path, str):
        return path
    facts = _mapping(path)
    return str(facts.get("path") or facts.get("pattern") or json.dumps(to_wire(path), ensure_ascii=False))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()


def _quote_text(text: object, longest: int = _LONGEST_NAME) -> str:
    """Return a text in backquotes, none of which is in the text."""
    return "`" + _one_line(text, longest).replace("`", "\\`") + "`"


def _one_line(text: object, longest: int = _LONGEST) -> str:
    """Return a text as one line: escaped, and without the middle if it is long."""
    whole = str(text)
    if (more := len(whole) - longest) > 0:
        end = longest // 4
        whole = f"{whole[: longest - end]}[... {more} more characters ...]{whole[-end:]}"
    visible = _UNSEEN.sub(lambda found: found.group().encode("unicode_escape").decode(), printable(whole))
    return _GAP.sub(lambda found: f" [{len(found.group()) - 2} more spaces] ", visible)
