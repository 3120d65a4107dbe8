"""The plugin ``terminal``: the service with which other plugins extend the terminal. The terminal itself is not a part of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from codex_framework import Component, KernelContext, ServiceKey, hookimpl

if TYPE_CHECKING:
    from codex_client_terminal.extensions import Extensions

__all__ = ["TERMINAL", "codex_components"]

TERMINAL: ServiceKey[Extensions] = ServiceKey("terminal")
"""The key of the service."""


class TerminalComponent(Component):
    """Provides the service. Without a terminal, what is added has no effect.

    Attributes:
        extensions: What other plugins have added.
    """

    name = "terminal"
    provides = (TERMINAL,)

    def __init__(self) -> None:
        from codex_client_terminal.extensions import Extensions

        self.extensions = Extensions()

    async def start(self, kernel: KernelContext) -> Mapping[ServiceKey[Any], object]:  # noqa: ARG002  # the role's
        """Provide the service."""
        return {TERMINAL: self.extensions}


@hookimpl
def codex_components() -> Iterable[Component]:
    """Offer the service."""
    return [TerminalComponent()]
