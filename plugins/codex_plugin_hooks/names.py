"""The events at which hooks run, with their names in the different places."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ELSEWHERE", "EVENTS", "HookEvent"]


class HookEvent(NamedTuple):
    """An event.

    Attributes:
        name: The name in the configuration.
        key: The name in keys of hooks and in events for clients.
        label: The name in ids of runs, and in messages about output.
        matches: The value that matchers are compared with: ``tool``, ``source``, ``trigger``, ``agent`` or ``reason``. Empty if
            matchers are ignored.
        timeout_s: The time limit of a hook that sets none (Codex's).
        longest_s: The largest time limit that a hook can set (Codex's). By default, no limit.
    """

    name: str
    key: str
    label: str
    matches: str = ""
    timeout_s: int = 600
    longest_s: int | None = None

    @property
    def scope(self) -> str:
        """``thread`` or ``turn``."""
        return "thread" if self.name in ("SessionStart", "SessionEnd", "SubagentStart") else "turn"


EVENTS: dict[str, HookEvent] = {
    event.name: event
    for event in (
        HookEvent("PreModelRequest", "pre_model_request", "pre-model-request"),
        HookEvent("PostModelRequest", "post_model_request", "post-model-request"),
        HookEvent("PreToolUse", "pre_tool_use", "pre-tool-use", "tool"),
        HookEvent("PermissionRequest", "permission_request", "permission-request", "tool"),
        HookEvent("PostToolUse", "post_tool_use", "post-tool-use", "tool"),
        HookEvent("PreCompact", "pre_compact", "pre-compact", "trigger"),
        HookEvent("PostCompact", "post_compact", "post-compact", "trigger"),
        HookEvent("SessionStart", "session_start", "session-start", "source"),
        HookEvent("SessionEnd", "session_end", "session-end", "reason", timeout_s=1, longest_s=3),
        HookEvent("UserPromptSubmit", "user_prompt_submit", "user-prompt-submit"),
        HookEvent("SubagentStart", "subagent_start", "subagent-start", "agent"),
        HookEvent("SubagentStop", "subagent_stop", "subagent-stop", "agent"),
        HookEvent("Stop", "stop", "stop"),
        HookEvent("Interrupt", "interrupt", "interrupt", timeout_s=1, longest_s=3),
    )
}
"""By name, in the order in which definitions of one file are numbered."""

ELSEWHERE = frozenset({"Notification", "StopFailure"})
"""Events of other programs with this format. Nothing here causes them."""
