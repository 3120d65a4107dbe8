"""The details of a call: arguments, command, output and changes."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from codex_lib_shell_script.parsing import shell_script
from codex_plugin_trace.reading.plain import mapping, one_line, pretty, sequence, text
from codex_plugin_trace.reading.timeline import Step

__all__ = ["command_text", "content_text", "diff_of", "show_arguments", "show_changes", "show_output"]

_TELLING = ("cmd", "command", "path", "file_path", "query", "pattern", "url", "session_id", "prompt", "input")
"""Arguments that summarise a call in a few words."""

_PATCH = "*** Begin Patch"


def show_arguments(step: Step, name: str, arguments: Any) -> None:
    """Add the arguments of a call, and make its title of the tool's name and the argument that says most."""
    given = _parsed(arguments)
    about = given if isinstance(given, str) else _about(mapping(given))
    step.title = f"{name}: {one_line(about)}" if about else name
    patch = given if isinstance(given, str) else text(mapping(given).get("input"))
    if patch.lstrip().startswith(_PATCH):
        step.title = f"{name}: {one_line(', '.join(_files_of(patch)) or 'a patch')}"
        step.part("Patch", patch, "diff")
        return
    step.part("Arguments", pretty(arguments), "json")
    for argument, value in mapping(given).items():
        if isinstance(value, str) and "\n" in value.strip():  # JSON has all its lines in one
            step.part(f"Argument {argument}", value, "diff" if _PATCH in value else "text")


def show_output(step: Step, output: Any) -> None:
    """Add the output of a call."""
    step.part("Output", content_text(output))


def show_changes(step: Step, changes: Any) -> None:
    """Add the changes of a patch."""
    step.part(
        "Changes", "\n".join(diff_of(str(path), mapping(change)) for path, change in mapping(changes).items()), "diff"
    )


def content_text(content: Any) -> str:
    """Return the text of an output: a string, parts with texts, or something else as JSON."""
    if isinstance(content, str):
        return content
    body = mapping(content).get("content", content)
    if isinstance(body, str):
        return body
    parts = [mapping(part) for part in sequence(body)]
    if parts and all("text" in part or "image_url" in part for part in parts):
        return "\n".join(text(part.get("text")) or "[image]" for part in parts)
    return "" if content is None else pretty(content)


def command_text(command: Any) -> str:
    """Return a command as a person would type it: only the script if a known shell runs it."""
    words = tuple(str(word) for word in sequence(command))
    script = shell_script(words)
    if script is not None:
        return script
    return shlex.join(words) if words else text(command)


def diff_of(path: str, change: Mapping[str, Any]) -> str:
    """Return a changed file in the form of a diff."""
    kind = change.get("type")
    if kind in ("add", "delete"):
        sign = "+" if kind == "add" else "-"
        old, new = ("/dev/null", path) if kind == "add" else (path, "/dev/null")
        body = "\n".join(f"{sign}{line}" for line in text(change.get("content")).split("\n"))
        return f"--- {old}\n+++ {new}\n{body.removesuffix(f'{chr(10)}{sign}')}\n"
    moved = text(change.get("move_path")) or path
    return f"--- {path}\n+++ {moved}\n{text(change.get('unified_diff'))}"


def _parsed(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments


def _about(arguments: Mapping[str, Any]) -> str:
    for name in _TELLING:
        value = arguments.get(name)
        if isinstance(value, (str, int)) and not isinstance(value, bool):
            return str(value)
        if isinstance(value, list):
            return command_text(value)
    return ""


def _files_of(patch: str) -> list[str]:
    marks = ("*** Add File: ", "*** Update File: ", "*** Delete File: ")
    lines = patch.splitlines()
    return [line.removeprefix(mark) for line in lines for mark in marks if line.startswith(mark)]
