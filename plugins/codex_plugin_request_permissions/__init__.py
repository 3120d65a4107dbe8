"""The tool ``request_permissions``: the model requests further permissions for the turn or the session."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework import Tool, hookimpl

__all__ = ["codex_tools"]


@hookimpl
def codex_tools() -> Iterable[Tool]:
    """Offer ``request_permissions``."""
    from codex_plugin_request_permissions.tool import RequestPermissions

    return [RequestPermissions()]
