"""The roles that are always there. A role of the user's with such a name replaces it."""

from __future__ import annotations

from typing import Any

from codex_framework import Agent

__all__ = ["BUILTIN"]

BUILTIN: tuple[Agent[Any], ...] = (
    Agent(name="default", description="Works as the thread that starts it."),
    Agent(
        name="explorer",
        description=(
            "Answers one specific question about the code, and changes nothing. Start several at once for independent"
            " questions, and rely on their answers instead of searching again."
        ),
    ),
    Agent(
        name="worker",
        description=(
            "Implements, fixes or refactors a part of the code. Say which files are its own, and that others work beside it,"
            " whose changes it must not revert."
        ),
    ),
)
