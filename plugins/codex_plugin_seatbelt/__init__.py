"""The macOS sandbox: commands run under Seatbelt profiles that are generated from the turn's access."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework import Sandbox, hookimpl

__all__ = ["codex_sandboxes"]


@hookimpl
def codex_sandboxes() -> Iterable[Sandbox]:
    """Offer the ``seatbelt`` sandbox."""
    from codex_plugin_seatbelt.sandbox import SeatbeltSandbox

    return [SeatbeltSandbox()]
