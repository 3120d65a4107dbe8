"""Turns shell calls that only run ``apply_patch`` into calls of the tool.

So a patch is shown, approved and applied as a whole, however the model requested it. Any call that is not certainly of this kind is
left to the shell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from codex_framework import Interceptor, ToolCall, ToolRefused, TurnContext

__all__ = ["PatchInterceptor"]

_IMPLICIT = (
    "apply_patch verification failed: patch detected without explicit call to apply_patch. "
    'Rerun as ["apply_patch", "<patch>"]'
)
_UNIFIED_EXEC_PREFIX = "Wall time: 0.0000 seconds\nOutput:\n"
"""The header of outputs of ``exec_command``. The time is zero, because no process runs (measured on Codex)."""


_Found: TypeAlias = "tuple[str, str | None]"
"""A patch, and the folder that the shell would have changed to."""


class PatchInterceptor(Interceptor):
    """Recognises ``apply_patch`` in calls of the command tools."""

    name = "apply_patch"
    order = 0

    def alone(self, call: ToolCall) -> bool:
        """Return whether the call may be a patch, which must run alone."""
        return call.name in _READERS and _mentions_patch(call.arguments)

    async def before_tool(self, call: ToolCall, turn: TurnContext) -> ToolCall:  # noqa: ARG002  # the role's
        """Return the call of ``apply_patch`` for a shell call that only runs it. Return any other call unchanged.

        Raises:
            ToolRefused: The command is a bare patch, which no shell can run.
        """
        reader = _READERS.get(call.name)
        if reader is None or not _mentions_patch(call.arguments):
            return call
        import json

        try:
            arguments = json.loads(call.arguments)
        except (ValueError, RecursionError):
            return call  # the tool itself reports the error
        if not isinstance(arguments, dict):
            return call
        found = reader(arguments)
        if found is None:
            return call
        workdir = arguments.get("workdir", arguments.get("working_directory"))
        return _rewritten(call, found, workdir if isinstance(workdir, str) else None, arguments.get("environment_id"))


def _mentions_patch(text: str) -> bool:
    return "apply_patch" in text or "applypatch" in text or "*** Begin Patch" in text


def _rewritten(call: ToolCall, found: _Found, workdir: str | None, environment: object) -> ToolCall:
    import json
    from pathlib import PurePath

    patch, inner = found
    arguments: dict[str, object] = {"input": patch}
    if "*** Environment ID: " in patch:
        arguments["of_shell"] = True
    folder = str(PurePath(workdir or ".") / (inner or "."))
    if folder != ".":
        arguments["workdir"] = folder
    if isinstance(environment, str):
        arguments["environment_id"] = environment
    if call.name == "exec_command":
        arguments["prefix"] = _UNIFIED_EXEC_PREFIX
    return call.evolve(name="apply_patch", kind="function", arguments=json.dumps(arguments))


def _in_cmd(arguments: Mapping[str, Any]) -> _Found | None:
    return _in_script(arguments.get("cmd"))


def _in_command(arguments: Mapping[str, Any]) -> _Found | None:
    return _in_script(arguments.get("command"))


def _in_argv(arguments: Mapping[str, Any]) -> _Found | None:
    argv = arguments.get("command")
    if not isinstance(argv, Sequence) or isinstance(argv, str) or not all(isinstance(word, str) for word in argv):
        return None
    from codex_framework.toolkit.programs import is_shell

    match argv:
        case [body]:
            _refuse_bare_patch(body)
        case ["apply_patch" | "applypatch", body]:
            return body, None
        case [shell, "-c" | "-lc", script] if is_shell(shell):
            return _in_script(script)
    return None


_READERS: Mapping[str, Callable[[Mapping[str, Any]], _Found | None]] = {
    "exec_command": _in_cmd,
    "shell_command": _in_command,
    "shell": _in_argv,
    "container.exec": _in_argv,
    "local_shell": _in_argv,
}


def _in_script(script: object) -> _Found | None:
    if not isinstance(script, str):
        return None
    _refuse_bare_patch(script)
    if "apply_patch" not in script and "applypatch" not in script:
        return None
    from codex_plugin_apply_patch.script import heredoc_patch

    return heredoc_patch(script)


def _refuse_bare_patch(text: str) -> None:
    if "*** Begin Patch" not in text:
        return
    from codex_plugin_apply_patch.grammar import InvalidPatch, parse

    try:
        parse(text)
    except InvalidPatch:
        return
    raise ToolRefused(_IMPLICIT)
