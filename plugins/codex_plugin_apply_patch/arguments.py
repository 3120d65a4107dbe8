"""The arguments of a function call of ``apply_patch``."""

from __future__ import annotations

from codex_framework import Argument

__all__ = ["ARGUMENTS"]

ARGUMENTS = {
    "input": Argument("string", "The whole patch, from '*** Begin Patch' on.", required=True),
    # What the interceptor adds.
    "workdir": Argument("string", hidden=True),
    "prefix": Argument("string", hidden=True),
}
