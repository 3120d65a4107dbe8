"""Checks the subcommands of ``exec`` that plugins offer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from codex_framework.contract.roles.exec_commands import CommandOption, ExecCommand
from codex_framework.loader.exec_options import BUILT_IN_OPTIONS, OPTION_NAME

__all__ = ["COMMAND_NAME", "command_problems"]

COMMAND_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
"""The form of the names of subcommands."""

_BUILT_IN = ("resume", "help", "exec", "e")


def command_problems(command: ExecCommand, taken: frozenset[str]) -> Iterator[str]:
    """Yield the reasons why a subcommand cannot be used.

    Args:
        taken: Names of commands that plugins cannot take.
    """
    name: Any = command.name
    if not isinstance(name, str) or not COMMAND_NAME.fullmatch(name):
        yield f"its name is {name!r}; use lower-case letters, digits and single dashes, beginning with a letter"
    elif name in _BUILT_IN or (command.alone and name in taken):
        yield f"the command {name!r} is built in and cannot be replaced; give yours another name"
    request: Any = command.request
    if not callable(request):
        yield f"its request is {request!r}, not a function"
    for field in ("text", "argument"):
        value = getattr(command, field)
        if not isinstance(value, str) and (value is not None or field == "text"):
            yield f"its {field} is {value!r}, not a string"
    options: Any = command.options
    if not isinstance(options, (list, tuple)):
        yield f"its options are {options!r}, not a list of CommandOption"
        return
    for option in options:
        yield from _option_problems(option)


def _option_problems(option: Any) -> Iterator[str]:
    if not isinstance(option, CommandOption):
        yield f"one of its options is {option!r}, not a CommandOption"
        return
    name: Any = option.name
    texts: tuple[Any, ...] = (option.text, option.metavar or "")
    if not isinstance(name, str) or not re.fullmatch(OPTION_NAME, name):
        yield f"one of its options has the name {name!r}; use lower-case letters, digits and single dashes"
    elif name in BUILT_IN_OPTIONS:
        yield f"its option --{name} is built in and cannot be replaced; give yours another name"
    if not all(isinstance(text, str) for text in texts):
        yield f"its option {name!r} has a text or metavar that is not a string"
