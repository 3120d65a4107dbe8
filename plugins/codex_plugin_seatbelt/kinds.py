"""Sample accesses for trials, one for each kind of statement in profiles."""

from __future__ import annotations

from pathlib import Path

from codex_framework import AccessMode, FileAccess, NetworkMode, PathRule

__all__ = ["KINDS"]

_SOMEWHERE = Path("/private/var/empty")

KINDS = {
    "writing": FileAccess.writing(_SOMEWHERE, read_only=[_SOMEWHERE / ".git"]),
    "reading": FileAccess(otherwise=AccessMode.DENY, rules=(PathRule(_SOMEWHERE, AccessMode.READ),)),
    "patterns": FileAccess(denied_globs=(f"{_SOMEWHERE}/**/*.[k-m]ey?",)),
    "all files": FileAccess(full=True),
    "loopback": FileAccess(network=NetworkMode.LOOPBACK),
    "proxy": FileAccess(network=NetworkMode.PROXY),
    "network": FileAccess(network=NetworkMode.ON),
}
"""The sample accesses by name."""
