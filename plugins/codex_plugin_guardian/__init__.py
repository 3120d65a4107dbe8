"""Approval reviewer: a model decides about approval requests in place of the user."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from codex_framework import ApprovalReviewer, hookimpl

__all__ = ["codex_approval_reviewers", "codex_settings"]


@hookimpl
def codex_settings() -> type[Any]:
    """Declare the table ``[framework.plugins.guardian]``."""
    from codex_plugin_guardian.settings import Settings

    return Settings


@hookimpl
def codex_approval_reviewers() -> Iterable[ApprovalReviewer]:
    """Offer the reviewer ``guardian``."""
    from codex_plugin_guardian.reviewer import Guardian

    return [Guardian()]
