"""The tool itself (spec: request_permissions)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codex_framework import (
    Argument,
    FunctionSpec,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolOutput,
    ToolRefused,
    TurnFacts,
    arguments_schema,
    parse_arguments,
)
from codex_framework.toolkit.environments import ENVIRONMENT_ID, in_environment, with_environments
from codex_framework.toolkit.permission_arguments import PERMISSIONS

__all__ = ["RequestPermissions"]

_ARGUMENTS = {
    "reason": Argument("string", "One sentence for the user that says what the permissions are needed for."),
    "permissions": PERMISSIONS._replace(description="The additional permissions, as few as possible.", required=True),
    "environment_id": ENVIRONMENT_ID,
}


_SPEC = FunctionSpec(
    "request_permissions",
    "Asks the user for more permissions: folders to read or write, or the network. What is granted applies to your later "
    "commands and patches, in this turn or for the whole session. The answer says what was granted, which can be less.",
    arguments_schema(_ARGUMENTS),
)


class RequestPermissions(Tool):
    """Asks the user, who may grant all, some or none of the permissions."""

    parallel_safe = False
    reads = frozenset({"config", "environments"})
    tells_clients = True
    spec = _SPEC

    def spec_for(self, turn: TurnFacts) -> FunctionSpec:
        """Return the spec, with a choice of the environment if there are several."""
        return with_environments(_SPEC, turn)

    def offered(self, turn: TurnFacts) -> bool:
        """Return whether ``features.request_permissions_tool`` is on. As in Codex, it is off by default."""
        return _is_on(turn.config)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Run one call. The output is ``{"permissions": {...}, "scope": "turn" | "session"}``."""
        import json

        from codex_framework.contract.permissions.profile import additional_from_wire, additional_to_wire

        if not _is_on(context.config):  # a plugin can call what is not offered
            raise ToolRefused(
                "request_permissions is switched off in the configuration (features.request_permissions_tool)"
            )
        arguments = parse_arguments(call.arguments, _ARGUMENTS)
        context = in_environment(context, arguments.get("environment_id"))
        try:
            wanted = additional_from_wire(arguments["permissions"])
        except ValueError as error:
            raise ToolError(f"failed to parse function arguments: {error}") from error
        if not wanted:
            raise ToolError("request_permissions needs at least one of network.enabled and file_system")
        granted, scope = await context.request_permissions(wanted, arguments.get("reason"))
        return ToolOutput(
            json.dumps({"permissions": additional_to_wire(granted) or {}, "scope": scope}), truncate=False
        )


def _is_on(config: Mapping[str, Any]) -> bool:
    return (config.get("features") or {}).get("request_permissions_tool") is True
