"""The arguments that request permissions for a tool call. All tools that run commands share them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codex_framework.contract.errors import ToolError
from codex_framework.contract.permissions.profile import additional_from_wire
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.tool_specs import FunctionSpec
from codex_framework.toolkit.arguments import Argument, arguments_schema

__all__ = ["ARGUMENTS", "PERMISSIONS", "permission_fields", "with_additional"]

_PATHS: Mapping[str, Any] = {"type": "array", "items": {"type": "string"}}
PERMISSIONS = Argument(
    "any",
    schema={
        "type": "object",
        "properties": {
            "network": {
                "type": "object",
                "properties": {"enabled": {"type": "boolean"}},
                "additionalProperties": False,
            },
            "file_system": {
                "type": "object",
                "properties": {"read": _PATHS, "write": _PATHS},
                "additionalProperties": False,
            },
        },
        "additionalProperties": False,
    },
)
"""Permissions in an argument; :func:`~codex_framework.contract.permissions.profile.additional_from_wire` reads them.

Programs may also send entries, which models are not told of.
"""

_ADDITIONAL: Mapping[str, Argument] = {
    "sandbox_permissions": Argument(
        "string",
        "with_additional_permissions asks the user to grant additional_permissions to the command, which stays in the sandbox; "
        "prefer it. require_escalated asks the user to let the command run outside of the sandbox. Default use_default.",
        choices=("use_default", "require_escalated", "with_additional_permissions"),
        schema={"enum": ["use_default", "with_additional_permissions", "require_escalated"]},  # what is preferred first
    ),
    "additional_permissions": PERMISSIONS._replace(
        description="With with_additional_permissions: the additional permissions that the command needs, as few as possible.",
    ),
}
_ADDITIONAL_PROPERTIES: Mapping[str, Any] = arguments_schema(_ADDITIONAL)["properties"]

ARGUMENTS: Mapping[str, Argument] = {
    "sandbox_permissions": _ADDITIONAL["sandbox_permissions"]._replace(
        description="require_escalated asks the user to let the command run outside of the sandbox. Default use_default.",
        schema={"enum": ["use_default", "require_escalated"]},
    ),
    "with_escalated_permissions": Argument("boolean", hidden=True),
    "justification": Argument(
        "string", "With require_escalated: one question to the user that says why the command needs it."
    ),
    "prefix_rule": Argument(
        "strings",
        'With require_escalated: the first words of the command as a list, for example ["git", "pull"], '
        "so that the user can allow all commands that start with them.",
    ),
    "additional_permissions": _ADDITIONAL["additional_permissions"]._replace(hidden=True),
}
"""The fields. :func:`with_additional` tells models of additional permissions if the feature is on."""


def permission_fields(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a :class:`~codex_framework.contract.roles.commands.CommandRequest` that state its permissions.

    ``with_escalated_permissions`` is the older name of ``sandbox_permissions = "require_escalated"``.

    Raises:
        ToolError: The additional permissions have an invalid form; the message is for the model.
    """
    older = "require_escalated" if arguments.get("with_escalated_permissions") else "use_default"
    rule = arguments.get("prefix_rule")
    try:
        additional = additional_from_wire(arguments.get("additional_permissions"))
    except ValueError as error:
        raise ToolError(f"failed to parse function arguments: {error}") from error
    return {
        "escalate": arguments.get("sandbox_permissions", older),
        "additional": additional or None,
        "justification": arguments.get("justification"),
        "prefix_rule": None if rule is None else tuple(rule),
    }


def with_additional(spec: FunctionSpec, facts: TurnFacts) -> FunctionSpec:
    """Return a tool's spec for a turn: with ``additional_permissions`` if ``features.exec_permission_approvals`` is on."""
    if (facts.config.get("features") or {}).get("exec_permission_approvals") is not True:
        return spec
    properties = {**spec.parameters["properties"], **_ADDITIONAL_PROPERTIES}
    return spec.evolve(parameters={**spec.parameters, "properties": properties})
