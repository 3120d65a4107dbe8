"""Commands that a distribution adds without a plugin: the entry points of the group ``codex_framework.commands``.

They are found without the configuration, so they work even if it is invalid. The settings of plugins do not affect them.
"""

from __future__ import annotations

from typing import Any

from codex_framework.contract.errors import CodexError
from codex_framework.loader.discovery import PluginSource, discover

__all__ = [
    "BUILT_IN_COMMANDS",
    "bundled_commands",
    "is_click_command",
    "load_command",
    "name_problems",
    "static_commands",
    "unavailable_commands",
]

_GROUP = "codex_framework.commands"
_RESERVED = "codex_framework.reserved_commands"
"""The commands that bundled plugins offer by a hook, so that they are known without loading plugins."""

BUILT_IN_COMMANDS = frozenset(
    {"exec", "e", "resume", "fork", "init", "config", "trust", "plugins", "completion", "help", "version"}
)
"""Names of the command line that nothing installed can take."""


def static_commands() -> dict[str, PluginSource]:
    """Return the commands by name. For a name, a bundled command wins, then the first distribution in alphabetical order."""
    by_name = {source.name: source for source in reversed(discover(_GROUP))}
    return {name: by_name[name] for name in sorted(by_name.keys() - bundled_commands())}


def bundled_commands() -> set[str]:
    """Return the names of the commands that are built in or that bundled plugins offer by a hook."""
    return {*BUILT_IN_COMMANDS, *(source.name for source in discover(_RESERVED) if source.bundled)}


def unavailable_commands() -> list[str]:
    """Return a sentence for each installed command whose name is taken."""
    available = static_commands().values()
    rejected = (source for source in discover(_GROUP) if source not in available)
    return [f"the command {source.name!r} of {source.origin} cannot be used: its name is taken" for source in rejected]


def name_problems(name: object) -> list[str]:
    """Return why the command of a plugin cannot have a name."""
    if name in BUILT_IN_COMMANDS:
        return [f"the command {name!r} is built in and cannot be replaced; give yours another name"]
    source = static_commands().get(str(name))
    return [f"the command {name!r} is one of {source.origin}; give yours another name"] if source else []


def load_command(source: PluginSource) -> Any:
    """Import a command, and return it: a click command, or a function that takes the arguments and returns the exit status.

    Raises:
        CodexError: It cannot be imported.
    """
    from codex_framework.loader.imports import import_plugin

    imported = import_plugin(source)
    fact = imported.problem.fact if imported.problem else "" if callable(imported.plugin) else "it is not callable"
    if fact:
        raise CodexError(
            f"the command {source.name!r} of {source.origin} cannot be used: {fact}",
            slug="command",
            hint=f"Reinstall {source.distribution or 'its distribution'}, or report this to its author.",
        )
    return imported.plugin


def is_click_command(command: object) -> bool:
    """Return whether an object is a command of click, without importing click."""
    return all(hasattr(command, name) for name in ("name", "invoke", "main"))
