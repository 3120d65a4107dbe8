"""The choice of the command tool of a turn."""

from __future__ import annotations

from codex_framework import TurnFacts
from codex_plugin_shell.settings import selected_tool

__all__ = ["offered_tool"]

_BY_SHELL_TYPE = {"shell": "shell", "local": "local_shell", "shell_command": "shell_command"}


def offered_tool(facts: TurnFacts) -> str | None:
    """Return the name of the tool to offer. None if the turn offers another family of command tools, or no command tools.

    ``features.shell_tool = false`` disables all of them. Otherwise, the tool that the configuration selects is offered. Without
    a selection, a model without command tools gets none, ``features.unified_exec = true`` selects the other family, and if that
    is disabled, a model that uses it by default gets ``shell_command``.
    """
    features = facts.config.get("features") or {}
    shell_type = facts.model.shell_type
    unified = features.get("unified_exec")
    if features.get("shell_tool") is False:
        return None
    if selected := selected_tool(facts.config):
        return selected
    if shell_type == "disabled" or unified:
        return None
    if shell_type == "unified_exec":
        return "shell_command" if unified is not None else None
    return _BY_SHELL_TYPE.get(shell_type)
