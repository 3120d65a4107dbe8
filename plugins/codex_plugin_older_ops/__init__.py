"""Operations of older Codex versions: they are accepted, and mean the operations of today."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from codex_framework import OpHandler, hookimpl

__all__ = ["codex_ops"]


@hookimpl
def codex_ops() -> Iterable[OpHandler[Any]]:
    """Offer the handlers of four older ops."""
    from codex_plugin_older_ops import ops

    return [ops.ConfigureHandler(), ops.TurnHandler(), ops.InputHandler(), ops.OverrideHandler()]
