"""Launchers of this machine: ``in-process``, which runs sessions in the process of the program that starts them."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework import hookimpl
from codex_framework.contract.roles.launchers import Launcher

__all__ = ["codex_launchers"]


@hookimpl
def codex_launchers() -> Iterable[Launcher]:
    """Offer the launchers."""
    from codex_plugin_launchers.in_process import InProcessLauncher

    return [InProcessLauncher()]
