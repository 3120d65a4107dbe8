"""The ``apply_patch`` tool, its interception in shell calls, and the ``apply_patch`` command for shells."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework import Interceptor, Tool, hookimpl

__all__ = ["codex_interceptors", "codex_tools"]


@hookimpl
def codex_tools() -> Iterable[Tool]:
    """Offer ``apply_patch``."""
    from codex_plugin_apply_patch.tool import ApplyPatch

    return [ApplyPatch()]


@hookimpl
def codex_interceptors() -> Iterable[Interceptor]:
    """Turn shell calls that only run ``apply_patch`` into calls of the tool."""
    from codex_plugin_apply_patch.interception import PatchInterceptor

    return [PatchInterceptor()]
