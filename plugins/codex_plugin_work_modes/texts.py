"""The texts for the model about a mode."""

from __future__ import annotations

from collections.abc import Iterator

from codex_plugin_work_modes.modes import ModeRestrictions

__all__ = ["description"]


def description(name: str, restrictions: ModeRestrictions, instructions: str) -> str:
    """Return the text about a mode that restricts something."""
    sentences = [f"You work in the mode `{name}`, which is enforced.", *_limits(restrictions)]
    sentences.append("No approval lifts these limits, so do not ask for one; only the user can change the mode.")
    return " ".join((*sentences, instructions)).strip()


def _limits(restrictions: ModeRestrictions) -> Iterator[str]:
    if not restrictions.allow_command_exec:
        yield "You cannot run commands."
    if not restrictions.allow_file_write:
        yield "Nothing can be written: commands can only read, and patches are refused."
    elif restrictions.max_file_size is not None:
        yield f"Files that you write can have at most {restrictions.max_file_size:,} bytes."
    if not restrictions.allow_git_operations:
        yield "Git can be read, but no repository can be changed."
    if not restrictions.allow_network_access:
        yield "Commands have no network."
