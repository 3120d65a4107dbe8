"""The arguments by which a tool call asks for more than its turn may do: the same for every tool that runs commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codex_framework.arguments import Argument
from codex_framework.errors import ToolError
from codex_framework.permissions import additional_from_wire
from codex_framework.roles.tools import FunctionSpec, TurnFacts

__all__ = ["ARGUMENTS", "PERMISSIONS_SCHEMA", "SCHEMA", "permission_fields", "with_additional"]

ARGUMENTS: Mapping[str, Argument] = {
    "sandbox_permissions": Argument(
        "string", choices=("use_default", "require_escalated", "with_additional_permissions")
    ),
    "with_escalated_permissions": Argument("boolean"),
    "justification": Argument("string"),
    "prefix_rule": Argument("strings"),
    "additional_permissions": Argument("any"),
}
"""What such a call may say, for ``parse_arguments``."""

SCHEMA: Mapping[str, Any] = {
    "sandbox_permissions": {
        "type": "string",
        "enum": ["use_default", "require_escalated"],
        "description": "require_escalated asks the user to let the command run outside of the sandbox. Default use_default.",
    },
    "justification": {
        "type": "string",
        "description": "With require_escalated: one question to the user that says why the command needs it.",
    },
    "prefix_rule": {
        "type": "array",
        "items": {"type": "string"},
        "description": "With require_escalated: the beginning of the command as a list of words, such that the user could "
        'allow all commands that begin so, for example ["git", "pull"].',
    },
}
"""The same as JSON schema, for models; :func:`with_additional` adds the rest where it is switched on."""

_PATHS = {"type": "array", "items": {"type": "string"}}
PERMISSIONS_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "network": {"type": "object", "properties": {"enabled": {"type": "boolean"}}, "additionalProperties": False},
        "file_system": {
            "type": "object",
            "properties": {"read": _PATHS, "write": _PATHS},
            "additionalProperties": False,
        },
    },
    "additionalProperties": False,
}
"""What :func:`~codex_framework.permissions.additional_from_wire` reads, for models (entries are for programs)."""

_ADDITIONAL: Mapping[str, Any] = {
    "sandbox_permissions": {
        "type": "string",
        "enum": ["use_default", "with_additional_permissions", "require_escalated"],
        "description": "with_additional_permissions asks the user to let the command do what additional_permissions says, and "
        "keeps it in the sandbox: prefer that. require_escalated asks to let it run outside of the sandbox. Default "
        "use_default.",
    },
    "additional_permissions": {
        **PERMISSIONS_SCHEMA,
        "description": "With with_additional_permissions: what the command needs on top, as little as will do.",
    },
}


def permission_fields(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a :class:`~codex_framework.roles.tools.CommandRequest` that say what the command may do.

    ``with_escalated_permissions`` is the older name of ``sandbox_permissions = "require_escalated"``.

    Raises:
        ToolError: The additional permissions have another form; the text is for the model.
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
    """The form of a tool in a turn: with ``additional_permissions`` where ``features.exec_permission_approvals`` is on."""
    if (facts.config.get("features") or {}).get("exec_permission_approvals") is not True:
        return spec
    properties = {**spec.parameters["properties"], **_ADDITIONAL}
    return spec.evolve(parameters={**spec.parameters, "properties": properties})
