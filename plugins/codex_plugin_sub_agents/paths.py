"""The names of agents in a team: paths such as ``/root/survey/tests``, from the root thread down."""

from __future__ import annotations

import re

from codex_framework import ToolError

__all__ = ["MAX_NAME", "ROOT", "check_name", "is_below", "resolved"]

ROOT = "/root"
"""The path of the root thread."""

MAX_NAME = 64
"""Maximum length of one name, in characters. Names are repeated in every message, so they are bounded (Codex has no limit)."""

_MAX_PATH = 1024

_NAME = re.compile(r"[a-z0-9_]+")


def check_name(name: str) -> str:
    """Return the name of an agent. The errors are Codex's where it has one.

    Raises:
        ToolError: It cannot be a part of a path.
    """
    if not name:
        raise ToolError("agent_name must not be empty")
    if len(name) > MAX_NAME:
        raise ToolError(f"agent_name must have at most {MAX_NAME} characters")
    if name in ("root", ".", ".."):
        raise ToolError(f"agent_name `{name}` is reserved")
    if "/" in name:
        raise ToolError("agent_name must not contain `/`")
    if not _NAME.fullmatch(name):
        raise ToolError("agent_name must use only lowercase letters, digits, and underscores")
    return name


def resolved(reference: str, base: str) -> str:
    """Return the path that a reference means.

    Args:
        reference: A path from the root, or one below ``base``.
        base: The path of the agent that uses it.

    Raises:
        ToolError: It is not a path.
    """
    if not reference:
        raise ToolError("agent path must not be empty")
    if len(reference) > _MAX_PATH:
        raise ToolError(f"agent path must have at most {_MAX_PATH} characters")
    if reference == ROOT:
        return ROOT
    if not reference.startswith("/"):
        return "/".join((base, *_names(reference, "relative")))
    if not reference.startswith(f"{ROOT}/"):
        raise ToolError(f"absolute agent paths must start with `{ROOT}`")
    return "/".join((ROOT, *_names(reference.removeprefix(f"{ROOT}/"), "absolute")))


def _names(text: str, kind: str) -> list[str]:
    if text.endswith("/") or not text:
        raise ToolError(f"{kind} agent path must not end with `/`")
    return [check_name(name) for name in text.split("/")]


def is_below(path: str, above: str) -> bool:
    """Return whether an agent was started by another one, directly or indirectly."""
    return path.startswith(f"{above}/")
