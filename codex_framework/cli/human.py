"""The text output of ``exec``: all progress on stderr, and only the final message on stdout."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from codex_framework import __version__
from codex_framework.cli.jsonl import WITH_OWN_ITEMS, with_details
from codex_framework.contract.permissions.profile import BUILTIN_PROFILES, Permissions
from codex_framework.contract.protocol.events import (
    AgentMessageContentDeltaEvent,
    ContextCompactedEvent,
    DeprecationNoticeEvent,
    ErrorEvent,
    EventMsg,
    ExecCommandBeginEvent,
    ExecCommandEndEvent,
    FileChange,
    ItemCompletedEvent,
    ItemStartedEvent,
    PatchApplyBeginEvent,
    PatchApplyEndEvent,
    PlanStep,
    PlanUpdateEvent,
    StreamErrorEvent,
    TokenUsage,
    ToolCallBeginEvent,
    ToolCallEndEvent,
    TurnAbortedEvent,
    ViewImageToolCallEvent,
    WarningEvent,
)
from codex_framework.contract.protocol.permissions import (
    AbsolutePath,
    AccessMode,
    FilePath,
    GlobPattern,
    Special,
    SpecialPath,
)
from codex_framework.contract.protocol.turn_items import item_text, tool_call_item
from codex_framework.contract.roles.settings import Settings
from codex_framework.toolkit.command_line import command_line
from codex_framework.toolkit.terminal_text import clean, diff_style, printable

__all__ = ["HumanOutput", "banner", "clean", "diff_lines", "sandbox_summary"]

OUTPUT_LINES = 20
"""Maximum number of lines shown of a command's output (Codex's number). The model gets more."""

_STYLES = {
    "bold": "1",
    "dim": "2",
    "italic": "3",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "magenta": "35",
    "cyan": "36",
}

_ENDS = {
    "budget_limited": "stopped by a limit",
    "replaced": "replaced by another one",
    "review_ended": "ended with the review",
}
"""Explanations of the reasons of aborted turns. Other reasons are already words."""


class HumanOutput:
    """A writer that shows events as they happen.

    Args:
        out: The stream to write to (stderr).
        colour: Whether to use ANSI colours.
        live: Whether to show messages while they are being generated, for a terminal.
        reasoning: Whether to show reasoning summaries.
        raw: Whether to show raw reasoning in place of its summary, where the model gives it.
        diffs: Whether to show the changes of patches.

    Attributes:
        told_at: When something was last written, as ``time.monotonic()``.
    """

    def __init__(
        self,
        out: TextIO,
        *,
        colour: bool = False,
        live: bool = False,
        reasoning: bool = True,
        raw: bool = False,
        diffs: bool = True,
    ) -> None:
        self._out = out
        self._colour = colour
        self._live = live
        self._reasoning = reasoning
        self._raw = raw
        self._diffs = diffs
        self._streaming = False
        self._running: dict[str, tuple[float, str]] = {}
        self._newest = ""
        self._is_status_shown = False
        self._retry_reason = ""
        self._since = self.told_at = time.monotonic()

    def banner(self, settings: Settings, thread_id: str, prompt: str) -> None:
        """Print the settings of the thread, and the prompt."""
        rows = banner(settings, thread_id)
        self._line(self._styled(f"codex-framework v{__version__}", "bold"))
        self._line("--------")
        for name, value in rows:
            self._line(f"{self._styled(f'{name}:', 'bold')} {printable(value)}")
        self._line("--------")
        self._line(self._styled("user", "cyan"))
        self._line(clean(prompt))

    def show(self, msg: EventMsg) -> None:  # a flat match: one line for each kind of event
        """Show one event."""
        self._since = time.monotonic()
        if not isinstance(msg, StreamErrorEvent):
            self._retry_reason = ""
        match msg:
            case AgentMessageContentDeltaEvent(delta=delta):
                self._delta(delta)
            case ItemStartedEvent(item=item) | ItemCompletedEvent(item=item) if item.get("type") == "McpToolCall":
                self._tool_call("mcp", item, begun=isinstance(msg, ItemStartedEvent))
            case ItemStartedEvent() | ItemCompletedEvent():
                self._item(msg)
            case ExecCommandBeginEvent() | ExecCommandEndEvent() | ToolCallBeginEvent() | ToolCallEndEvent():
                self._call(msg)
            case PatchApplyBeginEvent():
                self._line(self._styled("apply patch", "italic", "magenta"))
            case PatchApplyEndEvent():
                self._patch_ended(msg)
            case PlanUpdateEvent():
                self._plan(msg.plan, msg.explanation)
            case ContextCompactedEvent():
                self._line(self._styled("context compacted", "italic", "magenta"))
            case ViewImageToolCallEvent(path=path):
                self._line(f"{self._styled('view image', 'italic', 'magenta')} {printable(path)}")
            case WarningEvent(message):
                self.warn(message)
            case DeprecationNoticeEvent(summary, details):
                text = clean(f"{summary} {details or ''}").rstrip()
                self._line(f"{self._styled('deprecated:', 'bold', 'yellow')} {text}")
            case StreamErrorEvent():
                self._retry(msg)
            case ErrorEvent():
                self._error(msg)
            case TurnAbortedEvent(reason=reason):
                self._line(self._styled(f"turn {printable(_ENDS.get(reason, reason))}", "yellow"))
            case _:
                return

    def _error(self, msg: ErrorEvent) -> None:
        from codex_framework.toolkit.documentation import error_address

        self._line(f"{self._styled('ERROR:', 'bold', 'red')} {clean(msg.message)}")
        if address := error_address(msg.slug):
            self._line(f"See {clean(address)}")

    def _retry(self, msg: StreamErrorEvent) -> None:
        """Show that a request is repeated. Of several attempts in a row, the first one shows the reason that they share."""
        reason = msg.additional_details or ""
        known, self._retry_reason = self._retry_reason, self._retry_reason or reason
        news = reason.removeprefix(known).removeprefix("; ") if known else reason
        shown = with_details(msg.evolve(additional_details=news))
        self._line(f"{self._styled('ERROR:', 'bold', 'red')} {clean(shown)}")

    def warn(self, message: str) -> None:
        """Show a warning."""
        self._line(f"{self._styled('warning:', 'bold', 'yellow')} {clean(message)}")

    def ended(self, usage: TokenUsage) -> None:
        """Print the number of tokens that the thread and its children have used."""
        self._line(self._styled("tokens used", "italic", "magenta"))
        self._line(f"{usage.blended_total:,}")

    def show_status(self) -> None:
        """Show what runs and for how long, in a line that the next output replaces. For a terminal."""
        import shutil

        from codex_framework.cli.progress import status

        if self._streaming:
            return
        text = clean(status(self._running, self._since))[: shutil.get_terminal_size().columns - 1]
        self._is_status_shown = True
        self._out.write(f"\r\x1b[K{self._styled(text, 'dim')}")
        self._out.flush()

    def clear_status(self) -> None:
        """Remove the line of :meth:`show_status`."""
        if self._is_status_shown:
            self._is_status_shown = False
            self._out.write("\r\x1b[K")
            self._out.flush()

    def tell_life(self) -> None:
        """Print what runs and for how long, as a line that stays. For logs."""
        from codex_framework.cli.progress import status

        self._line(self._styled(f"still working: {clean(status(self._running, self._since))}", "dim"))

    def _delta(self, delta: str) -> None:
        if not self._live:
            return
        if not self._streaming:
            self._line(self._styled("codex", "italic", "magenta"))
            self._streaming = True
        self._write(clean(delta))

    def _item(self, msg: ItemStartedEvent | ItemCompletedEvent) -> None:
        item = msg.item
        if isinstance(msg, ItemStartedEvent):
            if item.get("type") == "CollabAgentToolCall":
                words = str(item.get("tool")).replace("_", " ")
                self._line(self._styled(f"collab: {printable(words)}", "italic", "magenta"))
        elif item.get("type") == "WebSearch":
            self._line(f"{self._styled('web search:', 'italic', 'magenta')} {clean(str(item.get('query')))}".rstrip())
        elif item.get("type") == "ImageGeneration":
            told = str(item.get("saved_path") or item.get("status") or "")
            self._line(f"{self._styled('image:', 'italic', 'magenta')} {printable(told)}")
        elif item.get("type") == "Reasoning":
            thoughts = item.get("raw_content") if self._raw else None
            text = "\n".join(thoughts) if thoughts else item_text(item)
            if text and self._reasoning:
                self._line(self._styled(clean(text), "dim"))
        elif item.get("type") == "AgentMessage":
            if self._streaming:
                self._write("\n")
                self._streaming = False
                return
            self._line(self._styled("codex", "italic", "magenta"))
            self._line(clean(item_text(item)))

    def _tool_call(self, kind: str, item: Mapping[str, Any], *, begun: bool) -> None:
        """Show a call of a tool: its begin, or its end with an error if it failed."""
        name = printable(f"{item.get('server')}/{item.get('tool')}")
        label = f"{self._styled(f'{kind}:', 'italic', 'magenta')} {self._styled(name, 'bold')}"
        key = str(item.get("id"))
        if begun:
            self._running[key] = (time.monotonic(), name)
            self._line(f"{label} started")
            return
        self._running.pop(key, None)
        status = item.get("status")
        colour = "green" if status == "completed" else "red"
        self._line(f"{label} {self._styled(printable(f'({status})'), colour)}")
        error = item.get("error")
        if isinstance(error, Mapping):
            self._line(self._styled(clean(str(error.get("message"))), "dim"))

    def _call(self, msg: ExecCommandBeginEvent | ExecCommandEndEvent | ToolCallBeginEvent | ToolCallEndEvent) -> None:
        match msg:
            case ExecCommandBeginEvent():
                self._command_began(msg)
            case ExecCommandEndEvent():
                self._command_ended(msg)
            case ToolCallBeginEvent(call_id=call_id, tool=tool) if tool in WITH_OWN_ITEMS:
                self._running[call_id] = (time.monotonic(), tool)
            case ToolCallEndEvent(call_id=call_id, tool=tool) if tool in WITH_OWN_ITEMS:
                self._running.pop(call_id, None)
            case _:
                self._tool_call("tool", tool_call_item(msg), begun=isinstance(msg, ToolCallBeginEvent))

    def _command_began(self, msg: ExecCommandBeginEvent) -> None:
        command = clean(command_line(msg.command))
        self._line(self._styled("exec", "italic", "magenta"))
        self._line(f"{self._styled(command, 'bold')} in {printable(msg.cwd)}")
        self._running[msg.call_id] = (time.monotonic(), command)
        self._newest = msg.call_id

    def _command_ended(self, msg: ExecCommandEndEvent) -> None:
        duration = f"in {_duration(msg.duration_s)}:"
        self._running.pop(msg.call_id, None)
        if self._newest != msg.call_id:  # something else stands above, so the line says whose end it is
            self._line(self._styled(clean(command_line(msg.command)), "bold"))
        if msg.status == "declined":
            reason = f" declined: {clean(msg.stderr)}" if msg.stderr else " declined"
            self._line(self._styled(reason, "yellow"))
            return
        if msg.exit_code == 0:
            self._line(self._styled(f" succeeded {duration}", "green"))
        else:
            self._line(self._styled(f" exited {msg.exit_code} {duration}", "red"))
        lines = msg.aggregated_output.rstrip("\n").split("\n") if msg.aggregated_output.strip() else []
        for line in lines[:OUTPUT_LINES]:
            self._line(self._styled(clean(line), "dim"))
        if len(lines) > OUTPUT_LINES:
            self._line(self._styled(f"… {len(lines) - OUTPUT_LINES} more lines", "dim"))

    def _patch_ended(self, msg: PatchApplyEndEvent) -> None:
        if msg.success:
            self._line(self._styled("patch: completed", "green"))
        else:
            self._line(self._styled(f"patch: {printable(msg.status)}", "red"))
        for path, change in sorted(msg.changes.items()):
            self._line(printable(path))
            if self._diffs and msg.success:
                self._change(change)
        if not msg.success and msg.stderr.strip():
            self._line(self._styled(clean(msg.stderr.rstrip("\n")), "dim"))

    def _change(self, change: FileChange) -> None:
        if change.type == "update":
            text = getattr(change, "unified_diff", "")
        else:
            sign = "+" if change.type == "add" else "-"
            text = "".join(f"{sign}{line}\n" for line in getattr(change, "content", "").splitlines())
        lines = text.rstrip("\n").split("\n") if text else []
        for line in diff_lines([clean(line) for line in lines[: 2 * OUTPUT_LINES]], colour=self._colour):
            self._line(line)
        if len(lines) > 2 * OUTPUT_LINES:
            self._line(self._styled(f"… {len(lines) - 2 * OUTPUT_LINES} more lines", "dim"))

    def _plan(self, steps: Sequence[PlanStep], explanation: str | None) -> None:
        self._line(self._styled("plan", "italic", "magenta"))
        if explanation:
            self._line(self._styled(clean(explanation), "dim"))
        signs = {"completed": self._styled("✓", "green"), "in_progress": self._styled("→", "cyan")}
        for step in steps:
            self._line(f"  {signs.get(step.status, self._styled('•', 'dim'))} {clean(step.step)}")

    def _styled(self, text: str, *styles: str) -> str:
        return _styled(text, styles) if self._colour else text

    def _line(self, text: str) -> None:
        self._newest = ""
        if self._streaming:
            self._streaming = False
            text = f"\n{text}"
        self._write(f"{text}\n")

    def _write(self, text: str) -> None:
        self.clear_status()
        self.told_at = time.monotonic()
        self._out.write(text)
        self._out.flush()


def banner(settings: Settings, thread_id: str) -> list[tuple[str, str]]:
    """Return the rows of the banner."""
    return [
        ("workdir", str(settings.cwd)),
        ("model", settings.model),
        ("provider", settings.provider.id),
        ("approval", str(settings.approval_policy)),
        ("sandbox", sandbox_summary(settings.permissions)),
        ("reasoning effort", settings.reasoning_effort or "none"),
        ("reasoning summaries", settings.reasoning_summary or "none"),
        ("session id", thread_id),
    ]


def sandbox_summary(permissions: Permissions) -> str:
    """Describe the permissions in one line: the nearest sandbox mode, the writable paths, and the profile's name."""
    policy = permissions.sandbox_policy
    suffix = "" if permissions.id in (None, *BUILTIN_PROFILES) else f" (profile {permissions.id})"
    if not permissions.writes_workspace:
        return f"{policy.type}{suffix}"
    roots = [_root_name(entry.path) for entry in permissions.entries if entry.access is AccessMode.WRITE]
    if permissions.network_rules is not None:
        network = " (network access through a proxy)"
    else:
        network = " (network access enabled)" if getattr(policy, "network_access", False) else ""
    return f"workspace-write [{', '.join(dict.fromkeys(roots))}]{network}{suffix}"


def _root_name(path: FilePath) -> str:
    match path:
        case SpecialPath(Special.WORKSPACE_ROOTS, subpath):
            return "workdir" if subpath is None else f"workdir/{subpath}"
        case SpecialPath(Special.SLASH_TMP):
            return "/tmp"  # noqa: S108  # the name of a root, not one of our files
        case SpecialPath(Special.TMPDIR):
            return "$TMPDIR"
        case SpecialPath(kind):
            return f":{kind.value}"
        case AbsolutePath(text) | GlobPattern(text):
            return text


def diff_lines(lines: Sequence[str], *, colour: bool) -> list[str]:
    """Return the lines of a unified diff, with colours if requested."""
    return [_styled(line, [style]) if colour and (style := diff_style(line)) else line for line in lines]


def _styled(text: str, styles: Sequence[str]) -> str:
    return f"\x1b[{';'.join(_STYLES[style] for style in styles)}m{text}\x1b[0m"


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.0f}ms" if seconds < 1 else f"{seconds:.2f}s"
