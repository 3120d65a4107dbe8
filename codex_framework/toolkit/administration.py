"""The location of the administrator's file with requirements."""

from __future__ import annotations

__all__ = ["REQUIREMENTS"]

REQUIREMENTS = "/etc/codex/requirements.toml"
"""The file with requirements. A kernel does not start if it exists and no plugin enforces it, which a plugin says by protecting it
(``codex_protected_paths``)."""
