"""The bundled slash commands. The service ``terminal`` adds commands of plugins."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from codex_client_terminal.extensions import SlashCommand
from codex_client_terminal.items import user_text
from codex_client_terminal.pickers import Entry
from codex_client_terminal.session import Session, SubAgent
from codex_client_terminal.text import Line
from codex_client_terminal.themes import theme_names
from codex_client_terminal.transcript import Past, Transcript, past_items
from codex_client_terminal.view import View
from codex_framework import CodexError
from codex_framework.toolkit.terminal_text import diff_style

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


@_command("permissions", "choose which actions need your approval")
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


@_command("resume", "continue an earlier session", during_turn=False)
async def _resume(view: View, argument: str) -> None:
    thread_id = argument or await choose_thread(view, "Resume a session")
    if thread_id:
        view.show_past(await view.session.resume(thread_id))


@_command("fork", "continue in a copy of this session, or of an earlier one", during_turn=False)
async def _fork(view: View, argument: str) -> None:
    view.show_past(await view.session.fork(argument or view.session.thread.id))
    view.print(f"• Forked as {view.session.thread.id}", "dim")


async def choose_thread(view: View, title: str, *, all_folders: bool = False) -> str | None:
    """Let the person choose a stored thread, and return its id."""
    session = view.session
    folder = None if all_folders else str(session.kernel.settings().cwd)
    return await view.choose_session(title, session.store, session.home, folder=folder)


@_command("compact", "summarise the conversation, so that there is room again", during_turn=False)
async def _compact(view: View, argument: str) -> None:
    del argument
    await view.session.submit("compact")


@_command("undo", "restore the files as they were before the last turn", during_turn=False)
async def _undo(view: View, argument: str) -> None:
    del argument
    await view.session.submit("undo")


@_command("review", "review changes, or what you describe: /review [TEXT]", during_turn=False)
async def _review(view: View, argument: str) -> None:
    target = {"type": "custom", "instructions": argument} if argument else await _choose_review(view)
    if target is None:
        return
    await view.session.submit("review", review_request={"target": target})


async def _choose_review(view: View) -> dict[str, Any] | None:
    """Let the person choose what to review. Return the target."""
    from codex_client_terminal.repository import branches, commits

    folder = view.session.thread.settings.cwd
    kinds = [
        Entry("Uncommitted changes", "uncommittedChanges"),
        Entry("Against a base branch", "baseBranch"),
        Entry("A commit", "commit"),
        Entry("What you describe ...", "custom"),
    ]
    kind = await view.choose("What to review", kinds)
    if kind == "baseBranch":
        names = await branches(folder)
        branch = await view.choose("Base branch", [Entry(name, name) for name in names])
        return branch and {"type": kind, "branch": branch}
    if kind == "commit":
        entries = [Entry(title, (sha, title), sha[:7]) for sha, title in await commits(folder)]
        commit = await view.choose("Commit", entries)
        return commit and {"type": kind, "sha": commit[0], "title": commit[1]}
    if kind == "custom":
        view.suggest("/review ")
        return None
    return kind and {"type": kind}


@_command("diff", "show the changes of the working folder")
async def _diff(view: View, argument: str) -> None:
    del argument
    from codex_client_terminal.repository import working_diff

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
            *([[("  Cost    ", "dim"), (cost, "")]] if (cost := view.session.cost()) else []),
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
    lines: list[Line] = []
    for report in reports:
        style = "red" if report.status == "failed" else "dim"
        lines.append([(f"  {report.name:<24}", ""), (str(report.status), style)])
        lines += [[("    ", ""), (text, "yellow")] for text in report.warnings.values()]
    view.print(lines)


@_command("mcp", "list the MCP servers with their tools and problems")
async def _mcp(view: View, argument: str) -> None:
    del argument
    from codex_framework.contract.protocol.wire import to_wire

    answer = await view.session.ask(await view.session.make_op("list_mcp_tools"), "mcp_list_tools_response")
    found = {} if answer is None else to_wire(answer)
    tools, statuses, errors = (found.get(key) or {} for key in ("tools", "auth_statuses", "errors"))
    lines: list[Line] = []
    rest = set(tools)
    for server in sorted({*statuses, *errors}):
        own = sorted(name for name in rest if name.startswith(f"mcp__{server}__"))
        rest -= {*own}
        status = str(statuses.get(server) or "").replace("_", " ").replace("unsupported", "")
        resources = len((found.get("resources") or {}).get(server) or ())
        about = [f"{len(own)} tools", *([f"{resources} resources"] if resources else []), *([status] if status else [])]
        lines += [[("  ", ""), (server, "bold"), (f"  {', '.join(about)}", "dim")]]
        lines += [[("    ", ""), (str(errors[server]), "red")]] if server in errors else []
        lines += [[("    ", ""), (name.removeprefix(f"mcp__{server}__"), "cyan")] for name in own]
    lines += [[("  ", ""), (name, "cyan")] for name in sorted(rest)]
    view.print(lines or "No MCP server is connected.", "dim")


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


@_command("agents", "watch a sub-agent, or start a session with an agent")
async def _agents(view: View, argument: str) -> None:
    session = view.session
    sub_agents = [] if argument else await session.sub_agents()
    entries = [Entry(each.name, each, each.state, each.task) for each in sub_agents]
    tables = session.kernel.config.get("agents") or {}
    names = {*session.kernel.registry.agents, *(name for name, table in tables.items() if isinstance(table, Mapping))}
    entries += [Entry(f"New session with {name}", name, _about_agent(session, name)) for name in sorted(names)]
    if not entries:
        view.print("There are no agents.", "dim")
        return
    chosen = argument or await view.choose("Sub-agents and agents", entries)
    if isinstance(chosen, SubAgent):
        await _read_sub_agent(view, chosen)
    elif chosen and session.thread.running:
        view.print("■ Another session cannot be started while a turn runs.", "red")
    elif chosen:
        await session.new(chosen)
        view.show_past(None)
        view.print(f"• New session with the agent {chosen}", "dim")


def _about_agent(session: Session, name: str) -> str:
    try:
        return session.kernel.agent(name).description or ""
    except CodexError as error:
        return str(error)


async def _read_sub_agent(view: View, agent: SubAgent) -> None:
    """Show the conversation of a sub-agent, which continues meanwhile."""
    thread = agent.thread
    if thread is not None:
        thread.save()
    stored = await view.session.load(agent.id)
    transcript = Transcript(view.session.extensions.widgets, cwd=stored.meta.cwd)
    lines = list(transcript.print_past(Past.of(stored.events)))
    if thread is None:
        await view.read(agent.name, lines)
        return

    transcript.turn_id, transcript.began = thread.turn_id, time.monotonic()

    async def follow(add: Callable[[Iterable[Line]], None]) -> None:
        async for event in thread.events(answers=False):
            add(transcript.take(event))

    await view.read(agent.name, lines, running=lambda width: transcript.live(width, time.monotonic()), follow=follow)


@_command("why", "show who changed, refused or added something: /why [ITEM]")
async def _why(view: View, argument: str) -> None:
    await _run_own_command(view, "why", view.session.thread.id, *argument.split()[:1])


@_command("trace", "make a page of the session's turns, calls and times; /trace open opens it in the browser")
async def _trace(view: View, argument: str) -> None:
    opens = ("--open",) if argument.strip() == "open" else ()
    await _run_own_command(view, "trace", "view", view.session.thread.id, *opens)


async def _run_own_command(view: View, *words: str) -> None:
    """Run a command of the command line about this session, and print its output."""
    if view.session.thread.rollout_path is None:
        view.print("There is nothing to show yet.", "dim")
        return
    view.session.thread.save()
    status, output = await _run_command_line(view, *words)
    view.print(output, "red" if status else "")


async def _run_command_line(view: View, *words: str) -> tuple[int, str]:
    """Run a command of the command line, and return its exit status and output."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "codex_framework", *words),
        cwd=view.session.thread.settings.cwd,
        env={**os.environ, "CODEX_HOME": view.session.home},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode("utf-8", "replace").rstrip("\n")


@_command("theme", "choose the colours")
async def _theme(view: View, argument: str) -> None:
    names = theme_names()
    name = argument
    if not name:
        chosen = names.index(view.theme) if view.theme in names else 0
        name = await view.choose("Select a theme", [Entry(each, each) for each in names], chosen=chosen)
    if not name:
        return
    view.set_theme(name)
    status, output = await _run_command_line(view, "config", "set", "tui.theme", name)
    view.print(
        f"• Theme changed to {name}, for later sessions too" if not status else output, "red" if status else "dim"
    )


@_command("back", "go back to an earlier message, and write it again", during_turn=False)
async def _go_back(view: View, argument: str) -> None:
    del argument
    await go_back(view)


@_command("help", "list the commands and keys")
async def _help(view: View, argument: str) -> None:
    del argument
    lines: list[Line] = [[(f"  /{each.name:<14}", "cyan"), (each.about, "")] for each in sorted(view.commands.values())]
    keys = [
        ("enter", "send; during a turn, the model gets it immediately"),
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
    view.suggest(text)
