"""The component, which keeps a kernel from starting with hooks that cannot be run."""

from __future__ import annotations

from codex_framework import Component, KernelContext, ThreadContext
from codex_plugin_hooks.definitions import Definitions

__all__ = ["HookComponent"]


class HookComponent(Component):
    """Reports what is wrong with the hooks."""

    name = "user-hooks"
    required = True

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions

    async def start(self, kernel: KernelContext) -> None:  # noqa: ARG002  # the role's
        """Check the hooks.

        Raises:
            ConfigError: A hook cannot be run.
        """
        if self._definitions.errors:
            raise self._definitions.errors[0]

    def for_thread(self, thread: ThreadContext) -> None:
        """Warn the user of what has no effect."""
        for text in self._definitions.warnings if not thread.depth else ():
            thread.warn(text)
