"""Which tool of this plugin is the command tool of a turn."""

from __future__ import annotations

from codex_framework import TurnFacts

__all__ = ["offered_tool"]

_BY_SHELL_TYPE = {"shell": "shell", "default": "shell", "local": "local_shell", "shell_command": "shell_command"}


def offered_tool(facts: TurnFacts) -> str | None:
    """The name of the tool to offer, or None: one family of command tools is offered in a turn, and it may be another one.

    ``features.shell_tool = false`` and a model without command tools switch all off; ``features.unified_exec = true`` prefers the
    other family. A model that is made for that family gets ``shell_command`` where it is switched off.
    """
    features = facts.config.get("features") or {}
    shell_type = facts.model.shell_type
    unified = features.get("unified_exec")
    if features.get("shell_tool") is False or shell_type == "disabled" or unified:
        return None
    if shell_type == "unified_exec":
        return "shell_command" if unified is not None else None
    return _BY_SHELL_TYPE.get(shell_type)
