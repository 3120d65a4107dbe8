"""Functions that print the items of a conversation, one for each kind. An item is a mapping with ``type`` and ``id``.

``WIDGETS`` contains the functions by the type of the item; ``TOOLS`` contains functions for calls of tools, by the tool's name.
Plugins add to it.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import dropwhile
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

from codex_client_terminal.code import Code
from codex_client_terminal.images import picture_line
from codex_client_terminal.markdown import MarkdownStream
from codex_client_terminal.text import Line, lines_of, one_line
from codex_framework.toolkit.terminal_text import printable
from codex_lib_shell_script.parsing import shell_script

__all__ = ["FOLDED_LINES", "Item", "Widget", "command_text", "folded", "render", "whole_output"]

Item: TypeAlias = Mapping[str, Any]
Widget: TypeAlias = Callable[[Item], "list[Line] | str"]
"""Shows a call of a plugin's tool."""

FOLDED_LINES = 5
"""The most lines of a command's output that are printed."""

DIFF_LINES = 60
"""The most lines of one file's diff that are printed."""

_COLOURED_LINES = 400
"""The most lines of one file's diff whose syntax is coloured."""

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]+")  # without tabs and line ends
_HEADERS = ("--- ", "+++ ", "diff ", "index ")


def render(item: Item, widgets: Mapping[str, Widget]) -> list[Line]:
    """Return the printed lines of a completed item, without the empty line before it. Empty for a kind that is not shown.

    Args:
        widgets: The functions of plugins for calls of their tools. If one raises, it is named, and the call is printed plainly.
    """
    kind = str(item.get("kind") if item.get("type") == "Extension" else item.get("type"))
    if kind == "McpToolCall" and (widget := widgets.get(str(item.get("tool")))) is not None:
        try:
            return _check_lines(widget(item))
        except Exception as error:
            fault = f"the widget of {item.get('tool')} failed: {type(error).__name__}: {error}"
            return [[("⚠ ", "yellow"), (one_line(fault), "yellow")], *_tool_call(item)]
    function = WIDGETS.get(kind)
    return function(item) if function else []


def _check_lines(lines: object) -> list[Line]:
    """Return the lines of a widget, or raise TypeError if they are invalid."""
    if isinstance(lines, str):
        return lines_of(lines)
    if not isinstance(lines, list):
        raise TypeError(f"it returned {type(lines).__name__}, not a list of lines")
    return [[(str(text), str(style)) for text, style in line] for line in lines]


# Messages


def user_text(item: Item) -> str:
    """Return the text of a message of the user, or ``[image]`` if it has only images."""
    parts = []
    for part in item.get("content") or ():
        match part.get("type"):
            case "text":
                parts.append(str(part.get("text", "")))
            case "skill" | "mention":
                parts.append(f"@{part.get('name')}")
            case _:
                pass
    return "\n".join(filter(None, parts)) or "[image]"


def _user_message(item: Item) -> list[Line]:
    text = user_text(item).rstrip("\n")
    if len(text) > 4_000:
        text = f"{text[:3_000]}\n[... {len(text) - 3_000} more characters]"
    rows = text.split("\n")
    if len(rows) > 40:
        rows = [*rows[:35], f"[... {len(rows) - 35} more lines]"]
    lines: list[Line] = [
        [("› " if number == 0 else "  ", "bold cyan"), (row, "bold")] for number, row in enumerate(rows)
    ]
    images = [part.get("path") or part.get("image_url") for part in item.get("content") or ()]
    return [*lines, *(picture_line(source) for source in images if isinstance(source, str))]


def agent_text(item: Item) -> str:
    """Return the text of a message of the model."""
    return "".join(str(part.get("text", "")) for part in item.get("content") or () if isinstance(part, Mapping))


def bulleted(lines: Sequence[Line], *, first: bool = True) -> list[Line]:
    """Return lines with a bullet before the first and space before the others."""
    return [
        [("• " if number == 0 and first else "  ", "dim"), *line] if line != [("", "")] else []
        for number, line in enumerate(lines)
    ]


def _agent_message(item: Item) -> list[Line]:
    stream = MarkdownStream()
    return bulleted([*stream.feed(agent_text(item)), *stream.end()])


def _reasoning(item: Item) -> list[Line]:
    parts = item.get("summary_text") or ()
    stream = MarkdownStream()
    lines = [*stream.feed("\n\n".join(map(str, parts))), *stream.end()]
    return bulleted([[(text, f"{style} dim italic") for text, style in line] for line in lines]) if parts else []


# Commands and patches


def command_text(command: Sequence[str] | str) -> str:
    """Return a command as a person would type it: only the script if a known shell runs it. Control characters are escaped.

    A program that is merely called like a shell, such as ``/tmp/bash``, is shown with all its arguments.
    """
    if not isinstance(command, str):
        words = tuple(map(str, command))
        script = shell_script(words)
        command = shlex.join(words) if script is None else script
    return _CONTROLS.sub(lambda found: printable(found.group()), command)


def _command(item: Item) -> list[Line]:
    status, code = item.get("status"), item.get("exit_code")
    text = command_text(item.get("command") or ())
    by_user = item.get("source") == "user_shell"
    verb = "You ran" if by_user else "Declined" if status == "declined" else "Ran"
    good = status == "completed" and code in (0, None)
    lines = _with_heading("• ", "green bold" if good else "red bold", f"{verb} ", text)
    output = str(item.get("aggregated_output") or "")
    if status == "declined":
        return lines
    lines += (
        _attach_lines(folded(output, FOLDED_LINES)) if output.strip() else [[("  └ ", "dim"), ("(no output)", "dim")]]
    )
    if not good and code is not None:
        lines.append([("    ", ""), (f"exit {code}", "red")])
    return lines


def _with_heading(mark: str, style: str, verb: str, text: str) -> list[Line]:
    """Return a verb and a text of several lines, of which the first ones are shown."""
    first, *more = text.split("\n")
    lines: list[Line] = [[(mark, style), (verb, "bold"), (first, "")]]
    lines += [[("  │ ", "dim"), (row, "")] for row in more[:4]]
    if len(more) > 4:
        lines.append([("  │ ", "dim"), (f"… +{len(more) - 4} lines", "dim")])
    return lines


def _attach_lines(lines: Sequence[Line]) -> list[Line]:
    return [[("  └ " if number == 0 else "    ", "dim"), *line] for number, line in enumerate(lines)]


def folded(output: str, most: int, style: str = "dim") -> list[Line]:
    """Return the beginning and the end of an output, and how many lines are between."""
    rows = output.rstrip("\n").split("\n")
    rows = [row.rpartition("\r")[2] if "\r" in row.rstrip("\r") else row for row in rows]  # a progress bar
    if len(rows) <= most:
        return [[(row, style)] for row in rows]
    head = most // 2
    tail = most - head
    fold: Line = [(f"… +{len(rows) - most} lines (ctrl-o shows all)", "dim italic")]
    return [*([(row, style)] for row in rows[:head]), fold, *([(row, style)] for row in rows[len(rows) - tail :])]


def whole_output(item: Item) -> str:
    """Return the folded part of an item, if any."""
    if item.get("type") == "CommandExecution":
        output = str(item.get("aggregated_output") or "").rstrip("\n")
        return output if output.count("\n") >= FOLDED_LINES else ""
    if item.get("type") == "FileChange":
        text = "\n".join(_diff_of(change) for _, change in sorted((item.get("changes") or {}).items()))
        return text if text.count("\n") >= DIFF_LINES else ""
    if item.get("type") == "McpToolCall":
        text = _result_text(item)
        return text if text.count("\n") >= FOLDED_LINES else ""
    return ""


def _file_change(item: Item) -> list[Line]:
    changes = sorted((item.get("changes") or {}).items())
    status = item.get("status")
    if status in ("failed", "declined"):
        lines: list[Line] = [[("• ", "red bold"), ("Patch failed" if status == "failed" else "Patch declined", "bold")]]
        lines += [[("  └ ", "dim"), (path, "")] for path, _ in changes[:20]]
        error = str(item.get("stderr") or "").strip()
        return [*lines, *_attach_lines(folded(error, FOLDED_LINES))] if error and status == "failed" else lines
    return [line for path, change in changes for line in change_lines(path, change)]


def change_lines(path: str, change: Mapping[str, Any], *, whole: bool = False) -> list[Line]:
    """Return the change of one file: what happened, and the diff.

    Args:
        whole: Whether all of the diff is shown. A long one then has no colours for its syntax, which take too long.
    """
    kind = str(change.get("type"))
    rows = [row for row in _diff_of(change).split("\n") if row]
    if kind == "update":  # later, a row that begins like a header is a row of the file
        rows = list(dropwhile(lambda row: row.startswith(_HEADERS), rows))
    most = len(rows) if whole else DIFF_LINES
    added, removed = (sum(row.startswith(sign) for row in rows) for sign in "+-")
    verb = {"add": "Added", "delete": "Deleted"}.get(kind, "Edited")
    moved = f" → {change['move_path']}" if change.get("move_path") else ""
    head: Line = [
        ("• ", "green bold"),
        (f"{verb} ", "bold"),
        (f"{path}{moved}", ""),
        (" (", "dim"),
        (f"+{added}", "green"),
        (" ", ""),
        (f"-{removed}", "red"),
        (")", "dim"),
    ]
    lines = [head, *numbered_diff(rows[:most], path if most <= _COLOURED_LINES else "")]
    if len(rows) > most:
        lines.append([("    ", ""), (f"… +{len(rows) - most} lines (ctrl-o shows all)", "dim italic")])
    return lines


def numbered_diff(rows: Sequence[str], path: str = "") -> Iterator[Line]:
    """Yield the lines of a file's diff, numbered as in the new file, or as in the old file for removed lines."""
    old = new = 1
    before, after = Code(path.rpartition("/")[2]), Code(path.rpartition("/")[2])
    for row in rows:
        if row.startswith("@@"):
            old, new = _hunk_start(row)
            if (old, new) != (1, 1):
                yield [("       ⋮", "dim")]
            continue
        sign, text = row[:1], row[1:]
        number = old if sign == "-" else new
        old += sign != "+"
        new += sign != "-"
        style = {"+": "green", "-": "red"}.get(sign, "dim")
        code = [(part, f"{kind} dim") for part, kind in before.line(text)] if sign == "-" else after.line(text)
        yield [(f"  {number:>5} ", style), (sign, f"{style} bold"), *code]


def _hunk_start(row: str) -> tuple[int, int]:
    numbers = [part[1:].partition(",")[0] for part in row.split() if part[:1] in "+-" and part[1:2].isdigit()]
    return (int(numbers[0]), int(numbers[1])) if len(numbers) == 2 else (1, 1)


def _diff_of(change: Mapping[str, Any]) -> str:
    if change.get("type") == "update":
        return str(change.get("unified_diff") or "")
    sign = "-" if change.get("type") == "delete" else "+"
    return "\n".join(f"{sign}{row}" for row in str(change.get("content") or "").splitlines())


# Other tools


def _tool_call(item: Item) -> list[Line]:
    failed = item.get("status") == "failed"
    arguments = item.get("arguments")
    shown = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    name = f"{item.get('server')}.{item.get('tool')}"
    lines: list[Line] = [
        [
            ("• ", "red bold" if failed else "green bold"),
            ("Called ", "bold"),
            (name, "cyan"),
            (f"({one_line(shown or '')})", "dim"),
        ]
    ]
    text = _result_text(item)
    return [*lines, *_attach_lines(folded(text, FOLDED_LINES, "red" if failed else "dim"))] if text.strip() else lines


def _result_text(item: Item) -> str:
    error, result = item.get("error"), item.get("result")
    if isinstance(error, Mapping):
        return str(error.get("message", ""))
    content = result.get("content") if isinstance(result, Mapping) else ()
    return "\n".join(
        str(part.get("text", f"[{part.get('type')}]")) for part in content or () if isinstance(part, Mapping)
    )


def _web_search(item: Item) -> list[Line]:
    return [[("• ", "dim"), ("Searched ", "bold"), (one_line(str(item.get("query") or "")), "")]]


def _image_view(item: Item) -> list[Line]:
    return [[("• ", "dim"), ("Viewed Image", "bold")], picture_line(_path(item.get("path")))]


def _image_generation(item: Item) -> list[Line]:
    head: Line = [("• ", "dim"), ("Generated Image ", "bold")]
    place = item.get("saved_path")
    return [head, picture_line(_path(place))] if place else [[*head, (str(item.get("status") or ""), "dim")]]


def _plan_text(item: Item) -> list[Line]:
    stream = MarkdownStream()
    lines = [*stream.feed(str(item.get("text") or "")), *stream.end()]
    return [[("• ", "dim"), ("Proposed Plan", "bold")], *([("  ", ""), *line] for line in lines)]


def _review_begin(item: Item) -> list[Line]:
    return [[(f">> Code review started: {one_line(str(item.get('user_facing_hint') or ''))} <<", "cyan")]]


def _review_end(item: Item) -> list[Line]:
    del item  # a message with the findings follows
    return [[("<< Code review finished >>", "cyan")]]


def _agent_call(item: Item) -> list[Line]:
    words = " ".join(str(item.get("tool")).split("_")).capitalize()
    lines: list[Line] = [[("• ", "dim"), (f"{words} ", "bold"), (str(item.get("status")), "dim")]]
    prompt = str(item.get("prompt") or "")
    return [*lines, *_attach_lines(folded(prompt, FOLDED_LINES))] if prompt else lines


def _agent_activity(item: Item) -> list[Line]:
    return [
        [
            ("• ", "dim"),
            (f"Agent {item.get('agent_path') or item.get('agent_thread_id')} ", "bold"),
            (str(item.get("kind")), "dim"),
        ]
    ]


def plan_lines(steps: Sequence[tuple[str, str]], explanation: str | None) -> list[Line]:
    """Return the plan of the model: steps with their status."""
    lines: list[Line] = [[("• ", "dim"), ("Updated Plan", "bold")]]
    if explanation:
        lines.append([("  └ ", "dim"), (one_line(explanation), "dim italic")])
    for step, status in steps:
        mark, style = {"completed": ("✔ ", "dim strike"), "in_progress": ("□ ", "bold cyan")}.get(status, ("□ ", "dim"))
        lines.append([("    ", ""), (mark, style), (one_line(step), style)])
    return lines


def _path(value: object) -> str:
    text = str(value or "")
    return unquote(urlsplit(text).path) if text.startswith("file:") else text


WIDGETS: Mapping[str, Callable[[Item], list[Line]]] = {
    "UserMessage": _user_message,
    "AgentMessage": _agent_message,
    "Reasoning": _reasoning,
    "CommandExecution": _command,
    "FileChange": _file_change,
    "McpToolCall": _tool_call,
    "WebSearch": _web_search,
    "ImageView": _image_view,
    "ImageGeneration": _image_generation,
    "Plan": _plan_text,
    "ContextCompaction": lambda _: [[("• Context compacted", "dim")]],
    "EnteredReviewMode": _review_begin,
    "ExitedReviewMode": _review_end,
    "CollabAgentToolCall": _agent_call,
    "SubAgentActivity": _agent_activity,
}
