"""Command policy: which commands are harmless, which are dangerous, and what people's ``.rules`` files say of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from codex_framework import CommandPolicy, ContextSource, hookimpl

if TYPE_CHECKING:
    import click

__all__ = ["codex_command_policies", "codex_commands", "codex_context_sources"]


@hookimpl
def codex_command_policies() -> Iterable[CommandPolicy]:
    """Offer the policy ``execpolicy``."""
    from codex_plugin_execpolicy.policy import ExecPolicy

    return [ExecPolicy()]


@hookimpl
def codex_context_sources() -> Iterable[ContextSource]:
    """Tell the model of allowed prefixes, and the person of rules that cannot be used."""
    from codex_plugin_execpolicy.announcement import RulesAnnouncement

    return [RulesAnnouncement()]


@hookimpl
def codex_commands() -> Iterable[click.Command]:
    """Offer ``codex-framework execpolicy``."""
    from codex_plugin_execpolicy.cli import execpolicy

    return [execpolicy]
