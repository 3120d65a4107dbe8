"""Calls of command tools in the vocabulary of hooks: ``Bash`` with ``{"command": SCRIPT}``, whatever the name of the tool is."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from codex_framework.contract.errors import ToolError
from codex_framework.contract.roles.calls import CallView, ToolCall

__all__ = ["argv_view", "script_view", "with_argv_script", "with_script"]

_SHELLS = frozenset({"bash", "dash", "ksh", "sh", "zsh"})


def script_view(call: ToolCall, name: str) -> CallView | None:
    """Return the view of a call with a script in one of its arguments, or None if it has no script.

    Args:
        name: The argument with the script.
    """
    script = _arguments(call).get(name)
    return CallView(name="Bash", arguments={"command": script}) if isinstance(script, str) else None


def with_script(call: ToolCall, name: str, view: Mapping[str, Any]) -> ToolCall:
    """Return a call with another script. Its other arguments are kept.

    Args:
        view: ``{"command": SCRIPT}``. Other names in it have no effect.

    Raises:
        ToolError: It has no script.
    """
    return _replace_argument(call, name, _script(call, view))


def argv_view(call: ToolCall, name: str = "command") -> CallView | None:
    """Return the view of a call with a program and its arguments: their script if a shell runs one, else the words, quoted."""
    argv = _arguments(call).get(name)
    if not _is_argv(argv):
        return None
    import shlex

    return CallView(name="Bash", arguments={"command": argv[2] if _runs_script(argv) else shlex.join(argv)})


def with_argv_script(call: ToolCall, view: Mapping[str, Any], name: str = "command") -> ToolCall:
    """Return a call with another command: a script if a shell runs one, else the words of the command.

    Args:
        view: ``{"command": SCRIPT}``. Other names in it have no effect.

    Raises:
        ToolError: The script is missing or cannot be split into words.
    """
    script, argv = _script(call, view), _arguments(call).get(name)
    if _is_argv(argv) and _runs_script(argv):
        return _replace_argument(call, name, [*argv[:2], script, *argv[3:]])
    import shlex

    try:
        words = shlex.split(script)
    except ValueError as error:
        raise ToolError(f"the new command of {call.name} cannot be split into words: {error}") from error
    return _replace_argument(call, name, words)


def _arguments(call: ToolCall) -> Mapping[str, Any]:
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return {}
    return arguments if isinstance(arguments, dict) else {}


def _script(call: ToolCall, view: Mapping[str, Any]) -> str:
    script = view.get("command")
    if not isinstance(script, str):
        raise ToolError(
            f"the arguments of {call.name} can only be changed to an object with a `command`, which is text"
        )
    return script


def _replace_argument(call: ToolCall, name: str, value: object) -> ToolCall:
    return call.evolve(arguments=json.dumps({**_arguments(call), name: value}, ensure_ascii=False))


def _is_argv(argv: Any) -> TypeGuard[list[str]]:
    return isinstance(argv, list) and bool(argv) and all(isinstance(word, str) for word in argv)


def _runs_script(argv: Sequence[str]) -> bool:
    return len(argv) > 2 and os.path.basename(argv[0]) in _SHELLS and argv[1] in ("-c", "-lc")  # noqa: PTH119
