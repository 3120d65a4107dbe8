"""The recognition of skills that a call uses: it reads a ``SKILL.md``, or runs a script of a skill."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from codex_framework import ToolCall, TurnContext
from codex_plugin_skills.reading import Skill

__all__ = ["used_skills"]

_READERS = frozenset(("cat", "sed", "head", "tail", "less", "more", "bat", "awk", "nl"))
_RUNNERS = frozenset(
    ("python", "python3", "bash", "sh", "zsh", "node", "deno", "bun", "ruby", "perl", "pwsh", "uv", "npx", "tsx")
)
_ENDS = frozenset(("&&", "||", ";", "|", "&"))
_MAX_LENGTH = 20_000
"""Maximum length of the arguments in characters. Longer scripts are not checked."""


def used_skills(call: ToolCall, turn: TurnContext, skills: Sequence[Skill]) -> Iterator[Skill]:
    """Yield the skills that a call uses."""
    if len(call.arguments) > _MAX_LENGTH:
        return
    given = _call_arguments(call)
    workdir = given.get("workdir")
    cwd = str(turn.facts.cwd)
    folder = os.path.join(cwd, workdir) if isinstance(workdir, str) else cwd  # noqa: PTH118
    view = turn.view(call)
    arguments = given if view is None else view.arguments
    command = arguments.get("command")
    if isinstance(command, str):
        yield from _of_script(command, folder, skills)
    for key in ("file_path", "path"):
        path = arguments.get(key)
        if isinstance(path, str):
            yield from _read(path, folder, skills)


def _call_arguments(call: ToolCall) -> Mapping[str, Any]:
    """Return the arguments of a call. Arguments that are not an object are empty."""
    try:
        given = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return {}
    return given if isinstance(given, dict) else {}


def _of_script(script: str, folder: str, skills: Sequence[Skill]) -> Iterator[Skill]:
    for command in _commands(script):
        program = os.path.basename(command[0])  # noqa: PTH119
        if program in _READERS:
            for word in command[1:]:
                yield from _read(word, folder, skills)
        yield from _run(command[0], folder, skills)
        if program in _RUNNERS:
            words = (word for word in command[1:] if not word.startswith("-") and word != "run")
            yield from _run(next(words, ""), folder, skills)


def _commands(script: str) -> Iterator[list[str]]:
    """Yield the simple commands of a script, roughly. A script that cannot be split contains none."""
    lexer = shlex.shlex(script, posix=True, punctuation_chars=";&|\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    command: list[str] = []
    try:
        for word in lexer:
            if word in _ENDS or set(word) <= set(";&|\n"):
                if command:
                    yield command
                command = []
            else:
                command.append(word)
    except ValueError:
        return
    if command:
        yield command


def _read(word: str, folder: str, skills: Sequence[Skill]) -> Iterator[Skill]:
    if word.endswith("SKILL.md"):
        path = _real(word, folder)
        yield from (skill for skill in skills if skill.path == path)


def _run(word: str, folder: str, skills: Sequence[Skill]) -> Iterator[Skill]:
    if "scripts/" in word:
        path = _real(word, folder)
        yield from (skill for skill in skills if path.startswith(f"{skill.folder}/scripts/"))


def _real(word: str, folder: str) -> str:
    return os.path.realpath(os.path.join(folder, os.path.expanduser(word)))  # noqa: PTH111, PTH118
