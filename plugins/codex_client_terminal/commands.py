"""The bundled slash commands. Those of plugins are added by the service ``terminal``."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from codex_client_terminal.code import diff_style
from codex_client_terminal.extensions import SlashCommand
from codex_client_terminal.items import user_text
from codex_client_terminal.pickers import Entry
from codex_client_terminal.text import Line
from codex_client_terminal.view import View

__all__ = ["COMMANDS", "go_back"]

COMMANDS: dict[str, SlashCommand] = {}

_MOST_DIFF_LINES = 2_000


def _command(
    name: str, about: str, *, during_turn: bool = True
) -> Callable[[Callable[[View, str], Awaitable[None]]], Callable[[View, str], Awaitable[None]]]:
    def add(run: Callable[[View, str], Awaitable[None]]) -> Callable[[View, str], Awaitable[None]]:
        COMMANDS[name] = SlashCommand(name, about, run, during_turn)
        return run

    return add


@_command("model", "choose the model and how hard it thinks")
async def _model(view: View, argument: str) -> None:
    models = view.session.models()
    settings = view.session.thread.settings
    wanted = argument.split()
    if wanted:
        slug = wanted[0]
    else:
        places = [place for place, model in enumerate(models) if model.slug == settings.model]
        entries = [
            Entry(
                model.slug,
                model.slug,
                f"{model.display_name or ''}{' (current)' if model.slug == settings.model else ''}",
            )
            for model in models
        ]
        slug = await view.choose("Select Model and Effort", entries, chosen=places[0] if places else 0)
        if slug is None:
            return
    effort: str | None = wanted[1] if len(wanted) > 1 else None
    known = next((model for model in models if model.slug == slug), None)
    if effort is None and known is not None and known.reasoning and not wanted:
        names = list(known.efforts) or ["low", "medium", "high", "xhigh"]
        efforts = [Entry(each, each, "(default)" if each == known.default_effort else "") for each in names]
        current = settings.reasoning_effort or known.default_effort
        chosen = names.index(current) if current in names else 0
        effort = await view.choose(f"Select Reasoning Level for {slug}", efforts, chosen=chosen)
        if effort is None:
            return
    await view.session.change(model=slug, effort=effort)
    view.print(f"• Model changed to {slug} {effort or ''}".rstrip(), "dim")


_POLICIES = {
    "untrusted": "ask before every command that is not known to be harmless",
    "on-request": "ask when a command needs more than the permissions",
    "never": "never ask",
}


@_command("permissions", "choose what may be done without asking")
async def _permissions(view: View, argument: str) -> None:
    settings = view.session.thread.settings
    names = view.session.profiles()
    entries = [Entry(name, name, "(current)" if settings.permissions.id == name else "") for name in names]
    name = argument or await view.choose("Select Permissions", entries)
    if not name:
        return
    await view.session.change(permissions=name)
    view.print(f"• Permissions changed to {name}", "dim")


@_command("approvals", "choose when you are asked")
async def _approvals(view: View, argument: str) -> None:
    current = str(view.session.thread.settings.approval_policy)
    entries = [
        Entry(name, name, f"{about}{' (current)' if name == current else ''}") for name, about in _POLICIES.items()
    ]
    name = argument or await view.choose("When to ask", entries)
    if not name:
        return
    from codex_framework.contract.protocol.policies import ApprovalPolicy

    try:
        policy = ApprovalPolicy(name)
    except ValueError:
        view.print(f"There is no approval policy {name!r}. Use one of: {', '.join(_POLICIES)}.", "red")
        return
    await view.session.change(approval_policy=policy)
    view.print(f"• Approval policy changed to {name}", "dim")


@_command("new", "start a new session", during_turn=False)
async def _new(view: View, argument: str) -> None:
    del argument
    await view.session.new()
    view.show_past(None)
    view.print("• New session", "dim")


@_command("clear", "clear the screen and start a new session", during_turn=False)
async def _clear(view: View, argument: str) -> None:
    view.erase()
    await _new(view, argument)


@_command("resume", "go on with an earlier session", during_turn=False)
async def _resume(view: View, argument: str) -> None:
    thread_id = argument or await choose_thread(view, "Resume a session")
    if thread_id:
        view.show_past(await view.session.resume(thread_id))


@_command("fork", "go on in a copy of this session, or of an earlier one", during_turn=False)
async def _fork(view: View, argument: str) -> None:
    view.show_past(await view.session.fork(argument or view.session.thread.id))
    view.print(f"• Forked as {view.session.thread.id}", "dim")


async def choose_thread(view: View, title: str, *, all_folders: bool = False) -> str | None:
    """Let the person choose a stored thread, and return its id."""
    threads = await view.session.find(all_folders=all_folders)
    if not threads and not all_folders:
        return await choose_thread(view, f"{title} (all folders)", all_folders=True)
    if not threads:
        view.print("There is no stored session.", "dim")
        return None
    entries = [
        Entry(
            each.name or each.preview or each.id,
            each.id,
            f"{_age(each.updated_at)} · {Path(each.cwd).name}",
            each.preview or "",
        )
        for each in threads
    ]
    if not all_folders:
        entries.append(Entry("Sessions of all folders ...", "*"))
    chosen = await view.choose(title, entries)
    return await choose_thread(view, title, all_folders=True) if chosen == "*" else chosen


def _age(moment: float) -> str:
    minutes = int(max(time.time() - moment, 0) // 60)
    if minutes < 60:
        return f"{minutes} min ago"
    return f"{minutes // 60} h ago" if minutes < 48 * 60 else f"{minutes // (60 * 24)} days ago"


@_command("compact", "summarise the conversation, so that there is room again", during_turn=False)
async def _compact(view: View, argument: str) -> None:
    del argument
    await view.session.submit("compact")


@_command("undo", "restore the files as they were before the last turn", during_turn=False)
async def _undo(view: View, argument: str) -> None:
    del argument
    await view.session.submit("undo")


@_command("review", "review the changes, or what you describe", during_turn=False)
async def _review(view: View, argument: str) -> None:
    target: dict[str, Any] = (
        {"type": "custom", "instructions": argument} if argument else {"type": "uncommittedChanges"}
    )
    from codex_framework.contract.protocol.wire import read

    op_class = type(await view.session.make_op("review", review_request=None))
    await view.session.thread.submit(read(op_class, {"type": "review", "review_request": {"target": target}}))


@_command("diff", "show the changes of the working folder")
async def _diff(view: View, argument: str) -> None:
    del argument
    from codex_client_terminal.git_diff import working_diff

    try:
        text = await working_diff(view.session.thread.settings.cwd)
    except OSError as error:
        view.print(f"■ The changes cannot be shown: {error or 'git takes too long'}", "red")
        return
    if text is None:
        view.print("This folder is not inside a git repository.", "dim")
        return
    rows = text.rstrip("\n").split("\n") if text else ["No changes."]
    lines: list[Line] = [[(row, diff_style(row))] for row in rows[:_MOST_DIFF_LINES]]
    if len(rows) > _MOST_DIFF_LINES:
        lines.append([(f"… {len(rows) - _MOST_DIFF_LINES} more lines", "dim")])
    view.print(lines)


@_command("status", "show the session's settings and token usage")
async def _status(view: View, argument: str) -> None:
    del argument
    thread = view.session.thread
    settings = thread.settings
    usage = thread.usage
    rows = [
        ("Model", f"{settings.model} ({settings.provider.id})"),
        ("Reasoning", settings.reasoning_effort or "default"),
        ("Directory", str(settings.cwd)),
        ("Approval", str(settings.approval_policy)),
        ("Permissions", settings.permissions.id or settings.permissions.sandbox_policy.type),
        ("Session", thread.id),
        (
            "Tokens",
            f"{usage.total_tokens:,} ({usage.input_tokens:,} in, {usage.cached_input_tokens:,} cached, {usage.output_tokens:,} out)",
        ),
    ]
    if left := context_left(view):
        rows.append(("Context", left))
    view.print([[(f"  {name:<12}", "dim"), (value, "")] for name, value in rows])


def context_left(view: View) -> str:
    """Return how much of the model's context is left, in words. Empty if that is unknown."""
    info = view.transcript.usage
    if info is None or not info.model_context_window:
        return ""
    left = 100 - round(100 * info.last_token_usage.total_tokens / info.model_context_window)
    return f"{max(0, min(left, 100))}% context left"


@_command("usage", "show the tokens of this session")
async def _usage(view: View, argument: str) -> None:
    del argument
    usage = view.session.thread.usage
    view.print(
        [
            [("  Input   ", "dim"), (f"{usage.input_tokens:,} ({usage.cached_input_tokens:,} cached)", "")],
            [("  Output  ", "dim"), (f"{usage.output_tokens:,} ({usage.reasoning_output_tokens:,} reasoning)", "")],
            [("  Total   ", "dim"), (f"{usage.total_tokens:,}", "")],
        ]
    )


@_command("plan", "plan without changing anything, until /plan again")
async def _plan(view: View, argument: str) -> None:
    from codex_framework.contract.protocol.policies import CollaborationMode

    mode = view.session.thread.settings.collaboration_mode
    kind = "default" if mode is not None and mode.kind == "plan" else "plan"
    await view.session.change(collaboration_mode=CollaborationMode(kind))
    view.print(f"• {'Plan mode' if kind == 'plan' else 'Default mode'}", "dim")
    if argument:
        view.send(argument)


@_command("plugins", "list the plugins")
async def _plugins(view: View, argument: str) -> None:
    del argument
    reports = view.session.kernel.registry.reports
    view.print([[(f"  {report.name:<24}", ""), (str(report.status), "dim")] for report in reports])


@_command("mcp", "list the MCP servers and their tools")
async def _mcp(view: View, argument: str) -> None:
    del argument
    from codex_framework.contract.protocol.wire import to_wire

    found = await view.session.ask(await view.session.make_op("list_mcp_tools"), "mcp_list_tools_response")
    tools = sorted((to_wire(found).get("tools") or {}) if found is not None else ())
    view.print([[("  ", ""), (name, "cyan")] for name in tools] or "No MCP server is connected.", "dim")


@_command("skills", "list the skills")
async def _skills(view: View, argument: str) -> None:
    del argument
    from codex_framework.contract.protocol.wire import to_wire

    found = await view.session.ask(await view.session.make_op("list_skills"), "list_skills_response")
    groups = to_wire(found).get("skills") or () if found is not None else ()
    lines: list[Line] = [
        [(f"  {skill.get('name'):<24}", "cyan"), (str(skill.get("description") or ""), "dim")]
        for group in groups
        for skill in group.get("skills") or ()
    ]
    view.print(lines or "There are no skills.", "dim")


@_command("copy", "copy the last answer, if the terminal permits it")
async def _copy(view: View, argument: str) -> None:
    del argument
    text = view.transcript.last_message
    if not text:
        view.print("There is no answer yet.", "dim")
        return
    view.copy(text)
    view.print("• Copied the last answer", "dim")


@_command("export", "write the conversation to a Markdown file: /export FILE")
async def _export(view: View, argument: str) -> None:
    from codex_client_terminal.items import agent_text
    from codex_client_terminal.transcript import past_items

    stored = await view.session.stored()
    if stored is None:
        view.print("There is nothing to export.", "dim")
        return
    parts = []
    for item in past_items(stored.events):
        if item.get("type") == "UserMessage":
            parts.append(f"## You\n\n{user_text(item)}\n")
        elif item.get("type") == "AgentMessage":
            parts.append(f"## Assistant\n\n{agent_text(item)}\n")
    target = Path(view.session.thread.settings.cwd, argument or f"session-{view.session.thread.id}.md")
    try:
        with target.open("x", encoding="utf-8", errors="replace") as file:
            file.write("\n".join(parts))
    except OSError as error:
        view.print(f"The file {target} cannot be written: {error.strerror}", "red")
        return
    view.print(f"• Wrote {target}", "dim")


@_command("vim", "use the keys of vi, until /vim again")
async def _vim(view: View, argument: str) -> None:
    del argument
    from codex_client_terminal.vi import ViKeys

    view.vi_keys = ViKeys() if view.vi_keys is None else None
    view.print(f"• {'Keys of vi: esc for commands, i to insert' if view.vi_keys else 'Keys of Emacs'}", "dim")


@_command("agents", "list the agents that a session can work as")
async def _agents(view: View, argument: str) -> None:
    del argument
    kernel = view.session.kernel
    tables = kernel.config.get("agents") or {}
    names: set[str] = {*kernel.registry.agents, *(name for name, table in tables.items() if isinstance(table, Mapping))}
    lines: list[Line] = [[("  ", ""), (name, "cyan")] for name in sorted(names)]
    view.print(lines or "There are no agents.", "dim")


@_command("help", "list the commands and keys")
async def _help(view: View, argument: str) -> None:
    del argument
    lines: list[Line] = [[(f"  /{each.name:<14}", "cyan"), (each.about, "")] for each in sorted(view.commands.values())]
    keys = [
        ("enter", "send; during a turn, give it to the model at once"),
        ("tab", "during a turn, send it when the turn has ended"),
        ("ctrl-j, alt-enter", "new line"),
        ("esc", "interrupt the turn; twice without one, go back to an earlier message"),
        ("@", "complete a file name"),
        ("!command", "run a command yourself"),
        ("ctrl-o", "print the whole of the last folded output"),
        ("ctrl-g", "write in $EDITOR"),
        ("ctrl-c twice, ctrl-d", "quit"),
    ]
    view.print([*lines, [], *([(f"  {name:<22}", "cyan"), (text, "")] for name, text in keys)])


@_command("quit", "leave")
async def _quit(view: View, argument: str) -> None:
    del argument
    view.quit()


@_command("exit", "leave")
async def _exit(view: View, argument: str) -> None:
    await _quit(view, argument)


async def go_back(view: View) -> None:
    """Let the person choose an earlier message to go back to, and write it again."""
    stored = await view.session.stored()
    if stored is None or not stored.turns:
        view.print("There is no earlier message.", "dim")
        return
    from codex_client_terminal.transcript import past_items

    starts = [turn.first_event for turn in stored.turns]
    entries = []
    for place, (begin, end) in enumerate(zip(starts, [*starts[1:], len(stored.events)], strict=True)):
        asked = next(
            (user_text(item) for item in past_items(stored.events[begin:end]) if item.get("type") == "UserMessage"),
            None,
        )
        if asked is not None:
            entries.append(Entry(asked, (len(starts) - place, asked), f"turn {place + 1}"))
    entries.reverse()
    chosen = await view.choose("Go back to before a message. Files stay as they are; /undo restores them", entries)
    if chosen is None:
        return
    count, text = chosen
    await view.session.submit("thread_rollback", num_turns=count)
    view.composer.set(text)
