"""Whether the tools of this plugin are offered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codex_framework import TurnFacts

__all__ = ["is_offered"]


def is_offered(facts: TurnFacts) -> bool:
    """As ``[framework.plugins.read_file] offer`` says; else to models that have no command sessions (``exec_command``)."""
    table: Any = facts.config
    for key in ("framework", "plugins", "read_file"):
        table = table.get(key) if isinstance(table, Mapping) else None
    setting = table.get("offer") if isinstance(table, Mapping) else None
    return facts.model.shell_type != "unified_exec" if setting is None else bool(setting)
