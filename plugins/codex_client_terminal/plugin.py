"""The plugin ``terminal``: the service with which other plugins extend the terminal. The terminal itself is not a part of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from codex_framework import Component, KernelContext, ServiceKey, hookimpl

if TYPE_CHECKING:
    from codex_client_terminal.extensions import Extensions
    from codex_framework import ThreadStore

__all__ = ["TERMINAL", "codex_components", "codex_settings"]

TERMINAL: ServiceKey[Extensions] = ServiceKey("terminal")
"""The key of the service."""


class TerminalComponent(Component):
    """Provides the service. Without a terminal, additions have no effect.

    Attributes:
        extensions: The additions of other plugins.
    """

    name = "terminal"
    provides = (TERMINAL,)

    def __init__(self) -> None:
        from codex_client_terminal.extensions import Extensions

        self.extensions = Extensions()

    async def start(self, kernel: KernelContext) -> Mapping[ServiceKey[Any], object]:  # noqa: ARG002  # the role's
        """Provide the service."""
        return {TERMINAL: self.extensions}

    def choose_session(self, title: str, store: ThreadStore, home: str, folder: str) -> str | None:
        """Let the person at the terminal choose a stored session, for a command. Return its id, or None."""
        if os.environ.get("TERM", "dumb") == "dumb":
            from codex_client_terminal.plain import choose_session
        else:
            from codex_client_terminal.choosing import choose_session

        return choose_session(title, store, home, folder)


@hookimpl
def codex_components() -> Iterable[Component]:
    """Offer the service."""
    return [TerminalComponent()]


@hookimpl
def codex_settings() -> type[Any]:
    """Declare the table ``[framework.plugins.terminal]``."""
    from codex_client_terminal.settings import Settings

    return Settings
