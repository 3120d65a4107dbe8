"""The hooks of the sandbox ``bubblewrap``. Slow imports are in the functions that need them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from codex_framework import PluginContext, Sandbox, hookimpl

__all__ = ["codex_sandboxes", "codex_settings"]


@hookimpl
def codex_settings() -> type[Any]:
    """Declare the table ``[framework.plugins.bubblewrap]``."""
    from codex_contrib_bubblewrap.settings import BubblewrapSettings

    return BubblewrapSettings


@hookimpl
def codex_sandboxes(plugin: PluginContext) -> Iterable[Sandbox]:
    """Offer the sandbox."""
    from codex_contrib_bubblewrap.sandbox import BubblewrapSandbox
    from codex_contrib_bubblewrap.settings import BubblewrapSettings

    return [BubblewrapSandbox(plugin.settings(BubblewrapSettings))]
