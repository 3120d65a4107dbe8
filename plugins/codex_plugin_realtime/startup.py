"""The startup context for the voice model: the thread, the user's other sessions, and the workspace."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from codex_framework import PluginContext, ThreadContext
from codex_framework.contract.errors import CodexError
from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.contract.protocol.items import Message, ResponseItem, begins_turn, message_text
from codex_framework.contract.roles.stores import ThreadQuery, ThreadSummary
from codex_framework.toolkit.files import Files, Folder
from codex_framework.toolkit.off_limits import NotPermittedError
from codex_framework.toolkit.projects import git_root
from codex_framework.toolkit.thread_stores import configured_store
from codex_plugin_realtime.dialogue import within_tokens

__all__ = ["startup_context"]

_WHOLE, _THREAD, _RECENT, _WORKSPACE, _NOTES = 5300, 1200, 2200, 1600, 300
"""Longest context, and its longest parts, in tokens, as in Codex."""

_SAID = 300
"""Longest text of one side of a turn, in tokens, as in Codex."""

_SESSIONS = 40
_GROUPS = 8
_ASKS = 5
"""The maximum number of sessions, of listed folders, and of sessions in each folder."""

_ASK_CHARS = 240
_DEPTH = 2
_ENTRIES = 20
"""How deep folders are listed, and how many entries of each."""

_SCANNED = 2000
"""The maximum number of entries that are read of a folder."""

_NOISY = frozenset(("__pycache__", "build", "dist", "node_modules", "out", "target"))

_HEADER = """\
Startup context from Codex.
These are notes on the conversation so far, on the user's other work and on the files of this computer. They can be incomplete or out
of date. Use them to understand the user, and do not recite them."""

_NOTE = (
    "Compiled when the voice conversation began, from the history of this thread, the list of sessions and the names of some files."
    " The contents of files, instructions in AGENTS.md and memories are not part of it."
)


def startup_context(thread: ThreadContext, plugin: PluginContext) -> str:
    """Return the context, or nothing if there is nothing to tell. Reads folders and the list of sessions, so call it in a thread."""
    cwd = thread.settings.cwd
    found = (
        ("Current Thread", _said(thread.history), _THREAD),
        ("Recent Work", _recent(cwd, _sessions(plugin, thread.id)), _RECENT),
        ("Machine / Workspace Map", _workspace(cwd, _home(plugin), thread.access), _WORKSPACE),
    )
    parts = [_section(title, text, tokens) for title, text, tokens in found if text]
    if not parts:
        return ""
    whole = "\n\n".join([_HEADER, *parts, _section("Notes", _NOTE, _NOTES)])
    return f"<startup_context>\n{within_tokens(whole, _WHOLE)}\n</startup_context>"


def _section(title: str, text: str, tokens: int) -> str:
    return f"## {title}\n{within_tokens(text, tokens)}"


# The thread


def _said(history: Sequence[ResponseItem]) -> str:
    """Return the latest turns of the thread, the newest first, as long as they fit."""
    lines = ["The latest turns of this thread, the newest first."]
    left = _THREAD * 4
    for number, (asked, answered) in enumerate(_turns(history)):
        title = "### Latest turn" if number == 0 else f"### Previous turn {number}"
        turn = "\n".join(
            ["", title, *_words("User", asked), *([""] if asked and answered else []), *_words("Assistant", answered)]
        )
        left -= len(turn.encode("utf-8", "replace"))
        if left < 0:
            break
        lines.append(turn)
    return "\n".join(lines) if len(lines) > 1 else ""


def _words(who: str, texts: Sequence[str]) -> list[str]:
    return [f"{who}:", within_tokens("\n\n".join(texts), _SAID)] if texts else []


def _turns(history: Sequence[ResponseItem]) -> Iterable[tuple[list[str], list[str]]]:
    """Yield questions and answers, the newest turn first."""
    asked: list[str] = []
    answered: list[str] = []
    for item in reversed(history):
        if not isinstance(item, Message):
            continue
        text = message_text(item).strip()
        if item.role == "assistant" and text:
            if asked:
                yield asked[::-1], answered[::-1]
                asked, answered = [], []
            answered.append(text)
        elif begins_turn(item) and text:
            asked.append(text)
    if asked or answered:
        yield asked[::-1], answered[::-1]


# Other sessions


def _sessions(plugin: PluginContext, thread_id: str) -> Sequence[ThreadSummary]:
    """Return the latest sessions of the user, without this one. Empty if the store cannot list them."""
    _, store = configured_store(plugin)
    if store is None:
        return ()
    try:
        page = store.find(ThreadQuery(limit=_SESSIONS), str(plugin.codex_home))
    except CodexError:
        return ()
    return [session for session in page.threads if session.id != thread_id]


def _recent(cwd: Path, sessions: Sequence[ThreadSummary]) -> str:
    """Return the user's latest requests by folder: the thread's folder first, then the latest."""
    groups: dict[str, list[ThreadSummary]] = {}
    for session in sessions:
        groups.setdefault(session.cwd, []).append(session)
    ranked = sorted(groups, key=lambda folder: (folder != str(cwd), -max(each.updated_at for each in groups[folder])))
    parts = (_group(folder, groups[folder]) for folder in ranked[:_GROUPS])
    return "\n\n".join(part for part in parts if part)


def _group(folder: str, sessions: Sequence[ThreadSummary]) -> str:
    asks = [" ".join((session.name or session.preview or "").split()) for session in sessions]
    asks = [ask for ask in asks if ask][:_ASKS]
    if not asks:
        return ""
    latest = datetime.fromtimestamp(max(session.updated_at for session in sessions), UTC).isoformat(timespec="seconds")
    lines = [
        f"### Directory: {folder}",
        f"Recent sessions: {len(sessions)}",
        f"Latest activity: {latest}",
        "",
        "User asks:",
    ]
    return "\n".join([*lines, *(f"- {_truncate_request(ask)}" for ask in asks)])


def _truncate_request(ask: str) -> str:
    return ask if len(ask) <= _ASK_CHARS else f"{ask[: _ASK_CHARS - 3].rstrip()}..."


# Files


def _home(plugin: PluginContext) -> Path | None:
    home = plugin.environ.get("HOME", "")
    return Path(home) if home.startswith("/") else None


def _workspace(cwd: Path, home: Path | None, access: FileAccess) -> str:
    """Return the names of files and folders around the thread, as far as the thread may read them."""
    root = git_root(cwd)
    trees = [("Working directory", cwd)]
    if root is not None and root != cwd:
        trees.append(("Git root", root))
    if home is not None and home not in (cwd, root):
        trees.append(("User root", home))
    shown = [(title, tree) for title, folder in trees if (tree := _tree(folder, access))]
    if not shown and root is None:
        return ""
    lines = [f"Current working directory: {cwd}", f"Working directory name: {cwd.name or cwd}"]
    if root is not None:
        lines += [f"Git root: {root}", f"Git project: {root.name or root}"]
    if home is not None:
        lines.append(f"User root: {home}")
    for title, tree in shown:
        lines += ["", f"{title} tree:", *tree]
    return "\n".join(lines)


def _tree(folder: Path, access: FileAccess) -> list[str]:
    try:
        with Files(access).folder(str(folder)) as opened:
            return list(_list_folder(opened, access, 0))
    except (OSError, ValueError, NotPermittedError):
        return []


def _list_folder(folder: Folder, access: FileAccess, depth: int) -> Iterable[str]:
    """Yield the entries of a folder, folders first. Hidden, generated and unreadable entries are left out."""
    entries = [
        (not entry.is_dir(follow_symlinks=False), entry.name)
        for entry in folder.entries()[:_SCANNED]
        if not entry.name.startswith(".")
        and entry.name not in _NOISY
        and access.may_read(Path(folder.path, entry.name))
    ]
    indent = "  " * depth
    for is_file, name in sorted(entries)[:_ENTRIES]:
        yield f"{indent}- {_printable(name)}{'' if is_file else '/'}"
        if not is_file and depth + 1 < _DEPTH:
            try:
                with folder.folder(name) as inner:
                    yield from _list_folder(inner, access, depth + 1)
            except (OSError, NotPermittedError):
                continue
    if len(entries) > _ENTRIES:
        yield f"{indent}- ... {len(entries) - _ENTRIES} more entries"


def _printable(name: str) -> str:
    """Return a name on one line: names of files may contain anything."""
    name = os.fsencode(name).decode("utf-8", "replace")
    return "".join(char if char.isprintable() else "?" for char in name)
