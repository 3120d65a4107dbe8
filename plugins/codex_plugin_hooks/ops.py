"""The op ``list_hooks``."""

from __future__ import annotations

from typing import ClassVar, Literal

from codex_framework import Op, OpHandler, PluginContext, ThreadContext

__all__ = ["ListHooks", "ListHooksHandler"]


class ListHooks(Op):
    """List the configured hooks, whether they run or not. The answer is the event ``list_hooks_response``."""

    type: ClassVar[Literal["list_hooks"]] = "list_hooks"


class ListHooksHandler(OpHandler[ListHooks]):
    """Reads the hooks again, and answers with them.

    Args:
        plugin: The plugin's context.
    """

    op = ListHooks

    def __init__(self, plugin: PluginContext) -> None:
        self._plugin = plugin

    async def handle(self, op: ListHooks, thread: ThreadContext, id: str) -> None:  # noqa: A002, ARG002  # the wire's name
        """Answer under the submission's id."""
        from codex_plugin_hooks.definitions import known_definitions
        from codex_plugin_hooks.events import HookProblem, ListHooksResponseEvent
        from codex_plugin_hooks.wire import hook_wire

        found = known_definitions(self._plugin)
        thread.emit(
            ListHooksResponseEvent(
                hooks=tuple(map(hook_wire, found.known)),
                warnings=found.warnings,
                errors=tuple(
                    HookProblem(str(error.path), str(error)) for error in found.errors if error.slug != "hook-trust"
                ),
            ),
            id=id,
        )
