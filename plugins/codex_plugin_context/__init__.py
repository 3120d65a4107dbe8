"""The context every thread starts with: permissions, developer instructions, AGENTS.md files and the environment."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework import ContextSource, hookimpl
from codex_plugin_context.agents_md import AgentsMd
from codex_plugin_context.environment import Environment
from codex_plugin_context.permissions import DeveloperInstructions, Permissions

__all__ = ["AgentsMd", "DeveloperInstructions", "Environment", "Permissions", "codex_context_sources"]


@hookimpl
def codex_context_sources() -> Iterable[ContextSource]:
    """Offer ``permissions``, ``developer_instructions``, ``agents_md`` and ``environment``."""
    return [Permissions(), DeveloperInstructions(), AgentsMd(), Environment()]
