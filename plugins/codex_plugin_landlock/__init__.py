"""The Linux sandbox: namespaces, Landlock and seccomp, without compiled code and without starting an interpreter per command."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework import Sandbox, hookimpl

__all__ = ["codex_sandboxes"]


@hookimpl
def codex_sandboxes() -> Iterable[Sandbox]:
    """Offer the ``landlock`` sandbox."""
    from codex_plugin_landlock.sandbox import LandlockSandbox

    return [LandlockSandbox()]
