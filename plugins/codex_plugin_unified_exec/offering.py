"""The choice whether the tools of this plugin are the command tools of a turn."""

from __future__ import annotations

from codex_framework import TurnFacts

__all__ = ["RESULT", "is_offered"]


def is_offered(facts: TurnFacts) -> bool:
    """Return whether this is the family of command tools that the turn offers.

    ``features.shell_tool = false`` and a model without command tools disable all of them. ``features.unified_exec`` decides if it
    is set, else the model's properties do.
    """
    features = facts.config.get("features") or {}
    if features.get("shell_tool") is False or facts.model.shell_type == "disabled":
        return False
    wanted = features.get("unified_exec")
    return facts.model.shell_type == "unified_exec" if wanted is None else bool(wanted)


RESULT = {
    "type": "object",
    "properties": {
        "chunk_id": {"type": "string", "description": "The id of this piece of output."},
        "wall_time_seconds": {"type": "number", "description": "How long the call has waited."},
        "exit_code": {"type": "number", "description": "The exit code of the command, if it has ended."},
        "session_id": {"type": "number", "description": "The session for write_stdin, if it is still running."},
        "original_token_count": {"type": "number", "description": "The length of the whole output in tokens."},
        "output": {
            "type": "string",
            "description": "What it has printed, shortened only if max_output_tokens is given.",
        },
    },
    "required": ["wall_time_seconds", "output"],
}
"""The schema of the result for programs. A program can cut long output itself, so it gets what there is."""
