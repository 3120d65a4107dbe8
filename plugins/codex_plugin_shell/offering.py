"""The choice of the command tool of a turn."""

from __future__ import annotations

from codex_framework import TurnFacts

__all__ = ["offered_tool"]

_BY_SHELL_TYPE = {"shell": "shell", "default": "shell", "local": "local_shell", "shell_command": "shell_command"}


def offered_tool(facts: TurnFacts) -> str | None:
    """Return the name of the tool to offer. None if the turn offers another family of command tools, or none.

    ``features.shell_tool = false`` and a model without command tools disable all of them. ``features.unified_exec = true`` selects
    the other family. If that is disabled, a model that uses it by default gets ``shell_command``.
    """
    features = facts.config.get("features") or {}
    shell_type = facts.model.shell_type
    unified = features.get("unified_exec")
    if features.get("shell_tool") is False or shell_type == "disabled" or unified:
        return None
    if shell_type == "unified_exec":
        return "shell_command" if unified is not None else None
    return _BY_SHELL_TYPE.get(shell_type)
