"""Enforces the administrator's requirements in ``/etc/codex/requirements.toml``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from codex_framework import Constraint, EventMsg, OpHandler, hookimpl
from codex_framework.toolkit import administration

__all__ = ["codex_constraints", "codex_events", "codex_ops", "codex_protected_paths"]


@hookimpl
def codex_constraints() -> Iterable[Constraint]:
    """Offer ``requirements``, if the file exists."""
    path = administration.REQUIREMENTS
    if not os.path.lexists(path):  # at every start
        return []
    from codex_plugin_requirements.constraint import RequirementsConstraint

    return [RequirementsConstraint(path)]


@hookimpl
def codex_protected_paths() -> Iterable[str]:
    """Protect the file, if it exists."""
    path = administration.REQUIREMENTS
    return [path] if os.path.lexists(path) else []  # at every start


@hookimpl
def codex_events() -> Iterable[type[EventMsg]]:
    """Declare ``requirements_response``, if the file exists."""
    if not os.path.lexists(administration.REQUIREMENTS):
        return []
    from codex_plugin_requirements.ops import RequirementsResponseEvent

    return [RequirementsResponseEvent]


@hookimpl
def codex_ops() -> Iterable[OpHandler[Any]]:
    """Offer the handler of the op ``read_requirements``, if the file exists."""
    if not os.path.lexists(administration.REQUIREMENTS):
        return []
    from codex_plugin_requirements.ops import ReadRequirementsHandler

    return [ReadRequirementsHandler()]
