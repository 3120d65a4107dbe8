"""Infers who acted if it was not recorded: in sessions of Codex, and of earlier versions.

Codex names the kinds of the context that it adds, and its outputs use fixed words for a refused call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from codex_framework.contract.roles.provenance import Actor, Provenance, Source
from codex_plugin_provenance.session import Item, Note, Session

__all__ = ["concluded"]

_PRIVATE = "internal_chat_message_metadata_passthrough"
_OF_PERSON = ("user.text", "unknown")
"""Kinds of content that are no context."""

_REFUSALS = (
    (r"approval policy is (\w+); reject command", "approval policy"),
    (r"approval required by policy,? .*AskForApproval", "approval policy"),
    (r"patch rejected: .*rejected by user approval settings", "approval policy"),
    (r"(?:exec command |patch )?rejected by user", "user"),
    (r"(?:Command|Tool call) blocked by PreToolUse hook: ", "hook"),
    (r"exec_command failed: CreateProcess \{ message: \"Rejected\(", "command policy"),
    (r"`[^`]{0,500}` rejected: ", "command policy"),
    (r"rejected: blocked by policy", "command policy"),
    (r"Network access was denied by the Codex sandbox network proxy\.", "user"),
    (r"rejected by the approval reviewer", "approval reviewer"),
    (r"(?:Wall time: [\d.]+ seconds\n)?aborted by user", "user"),
    (r"unsupported (?:custom tool )?call: ", "kernel"),
)
"""The beginnings of outputs about a refused or ended call, and who refused or ended it. A name may be in the first group."""

_MARKS = {
    "<environment_context>": "environment",
    "# AGENTS.md instructions": "AGENTS.md",
    "<permissions instructions>": "permissions",
    "<user_instructions>": "user instructions",
    "<collaboration_mode>": "collaboration mode",
    "<skills_instructions>": "skills",
    "<turn_aborted>": "marker of an interrupt",
    "<user_shell_command>": "command of the user",
    "<subagent_notification>": "sub-agent",
    "<agent_message>": "message of another agent",
    "<hook_prompt": "hook",
}
"""The beginnings of texts that are context, and their kinds."""

_LONGEST_REASON = 500


def concluded(session: Session) -> list[Note]:
    """Return the notes that follow from the items, if the record contains none."""
    known = {mark for note in session.notes for mark in note.record.items}
    told = {note.record.call_id for note in session.notes if note.record.did in ("refused", "stopped", "decided")}
    return [
        *(note for item in session.items if item.mark not in known for note in _context(item)),
        *(note for item in session.items if item.is_output and item.call_id not in told for note in _refusal(item)),
    ]


def _context(item: Item) -> Iterator[Note]:
    if item.role not in ("user", "developer"):
        return
    private = item.payload.get(_PRIVATE)
    kinds = private.get("content_item_kinds") if isinstance(private, dict) else None
    sources = []
    for part, text in enumerate(item.parts):
        kind = kinds[part] if isinstance(kinds, list) and part < len(kinds) and isinstance(kinds[part], str) else None
        name = kind or next((name for start, name in _MARKS.items() if text.lstrip().startswith(start)), None)
        if name is not None and name not in _OF_PERSON:
            sources.append(Source(by=Actor(role="context source", name=name), item=item.mark, part=part))
    if sources:
        by = Actor(role="unknown")
        record = Provenance(did="added", what="context", by=by, items=(item.mark,), sources=sources)
        yield Note(turn=item.turn, time=item.time, record=record, recorded=False, inherited=item.inherited)


def _refusal(item: Item) -> Iterator[Note]:
    for pattern, role in _REFUSALS:
        match = re.match(pattern, item.text, re.DOTALL)
        if match:
            by = Actor(role=role, name=(match.groups() or ("",))[0])
            reason = item.text[:_LONGEST_REASON]
            record = Provenance(did="refused", what="call", by=by, call_id=item.call_id, reason=reason)
            yield Note(turn=item.turn, time=item.time, record=record, recorded=False, inherited=item.inherited)
            return
