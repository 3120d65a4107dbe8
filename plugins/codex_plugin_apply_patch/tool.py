"""The ``apply_patch`` tool."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codex_framework import (
    CallView,
    FreeformFormat,
    FreeformSpec,
    FunctionSpec,
    Tool,
    ToolCall,
    ToolContext,
    ToolOutput,
    ToolSpec,
    TurnFacts,
    arguments_schema,
)
from codex_lib_confinement.standalone import standalone_argv
from codex_plugin_apply_patch.descriptions import ARGUMENTS, FREEFORM, FUNCTION, LARK, LARK_WITH_ENVIRONMENT

if TYPE_CHECKING:
    from codex_framework.contract.protocol.events.command import PatchApplyUpdatedEvent
    from codex_plugin_apply_patch.preview import Previews

__all__ = ["ApplyPatch"]

_NAME = "apply_patch"

_FREEFORM = FreeformSpec(_NAME, FREEFORM, FreeformFormat("lark", LARK))
_SEVERAL = FreeformSpec(_NAME, FREEFORM, FreeformFormat("lark", LARK_WITH_ENVIRONMENT))
_FUNCTION = FunctionSpec(_NAME, FUNCTION, arguments_schema(ARGUMENTS))


class ApplyPatch(Tool):
    """Edits files by a patch. Freeform and function calls are both accepted, whichever form was offered.

    Args:
        clock: Returns the time in seconds, for the pace of previews.
    """

    reads = frozenset({"model", "environments"})
    spec: ToolSpec = _FREEFORM

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._previews: Previews | None = None
        argv = standalone_argv(str(Path(__file__).with_name("standalone.py")))  # starts in 10 ms
        self.programs = {"apply_patch": argv, "applypatch": argv}

    def offered(self, turn: TurnFacts) -> bool:
        """Return True for models that know the format."""
        return turn.model.apply_patch is not None

    def spec_for(self, turn: TurnFacts) -> ToolSpec:
        """Return the form that the model is used to."""
        if turn.model.apply_patch == "function":
            return _FUNCTION
        return _FREEFORM if len(turn.environments or ()) < 2 else _SEVERAL

    def preview(self, call_id: str, text: str) -> PatchApplyUpdatedEvent | None:
        """Return the changes so far, at most twice per second."""
        if self._previews is None:
            from codex_plugin_apply_patch.preview import Previews

            self._previews = Previews(self._clock)
        changes = self._previews.changes(call_id, text)
        if changes is None:
            return None
        from codex_framework.contract.protocol.events.command import PatchApplyUpdatedEvent

        return PatchApplyUpdatedEvent(call_id=call_id, changes=changes)

    def view(self, call: ToolCall) -> CallView:
        """Return the call with the patch as its command. Hooks of other agents know the tool as ``Write`` and ``Edit``."""
        from codex_plugin_apply_patch.calls import patch_of

        return CallView(name=_NAME, aliases=("Write", "Edit"), arguments={"command": patch_of(call)})

    def with_arguments(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolCall:
        """Return the call with another patch."""
        from codex_plugin_apply_patch.calls import with_patch

        return with_patch(call, arguments)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Run one call. Nothing is written unless the whole patch matches."""
        from codex_plugin_apply_patch.application import apply

        if self._previews is not None:
            self._previews.forget(call.call_id)
        return await apply(call, context)
