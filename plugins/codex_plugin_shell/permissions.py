"""What all three tools share: arguments about permissions, and the way to run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codex_framework import Argument, CommandRequest, CommandResult, ToolContext, ToolError, ToolRefused

__all__ = ["ARGUMENTS", "DEFAULT_TIMEOUT_MS", "SCHEMA", "permissions", "run_to_end"]

DEFAULT_TIMEOUT_MS = 10_000
"""``timeout_ms`` where the model does not say (Codex)."""

ARGUMENTS = {
    "sandbox_permissions": Argument(
        "string", choices=("use_default", "require_escalated", "with_additional_permissions")
    ),
    "with_escalated_permissions": Argument("boolean"),
    "justification": Argument("string"),
    "prefix_rule": Argument("strings"),
}

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


def permissions(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a :class:`CommandRequest` that say what the command may do.

    ``with_escalated_permissions`` is the older name of ``sandbox_permissions = "require_escalated"``.
    """
    older = "require_escalated" if arguments.get("with_escalated_permissions") else "use_default"
    rule = arguments.get("prefix_rule")
    return {
        "escalate": arguments.get("sandbox_permissions", older),
        "justification": arguments.get("justification"),
        "prefix_rule": None if rule is None else tuple(rule),
    }


async def run_to_end(request: CommandRequest, context: ToolContext) -> CommandResult:
    """Run a command.

    Raises:
        ToolRefused: It may not run.
        ToolError: It could not be started; the text says so.
    """
    try:
        return await context.run(request)
    except ToolRefused:
        raise
    except ToolError as error:
        raise ToolError(f"execution error: {error.fact}", slug=error.slug, hint=error.hint) from error
