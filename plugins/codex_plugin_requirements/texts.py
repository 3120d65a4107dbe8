"""The sentences about values that are not allowed. Their form is Codex's, which clients look for."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["invalid", "replaced"]

_NAMES = {
    "untrusted": "UnlessTrusted",
    "on-request": "OnRequest",
    "never": "Never",
    "granular": "Granular",
    "read-only": "ReadOnly",
    "workspace-write": "WorkspaceWrite",
    "danger-full-access": "DangerFullAccess",
    "external-sandbox": "ExternalSandbox",
    "user": "User",
    "auto_review": "AutoReview",
    "disabled": "Disabled",
    "cached": "Cached",
    "live": "Live",
}
"""The names of values in Codex's messages."""


def invalid(key: str, word: str, allowed: Iterable[str], path: str) -> str:
    """Return the sentence for a value that is not allowed."""
    names = ", ".join(_NAMES[each] for each in allowed)
    return f"invalid value for `{key}`: `{_NAMES.get(word, word)}` is not in the allowed set [{names}] (set by {path})"


def replaced(key: str, instead: str, why: str) -> str:
    """Return the sentence for a configured value that is replaced."""
    return (
        f"Configured value for `{key}` is disallowed by requirements; falling back to required value {_NAMES[instead]}."
        f" Details: {why}"
    )
