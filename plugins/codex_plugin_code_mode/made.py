"""The objects of one kernel: the tools and the component, and their shared state."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from codex_framework import Tool
from codex_plugin_code_mode.component import CodeMode
from codex_plugin_code_mode.tools import Exec, Wait

if TYPE_CHECKING:
    from codex_plugin_code_mode.nesting import Nestings

__all__ = ["Made", "made"]


class Made(NamedTuple):
    """The objects of one kernel."""

    tools: tuple[Tool, ...]
    component: CodeMode


def made(folder: str) -> Made:
    """Return the objects of one kernel.

    Args:
        folder: The folder that the engine's package is in.
    """

    @cache
    def nestings() -> Nestings:
        from codex_plugin_code_mode.nesting import Nestings  # only where a turn is in code mode

        return Nestings()

    return Made((Exec(nestings), Wait()), CodeMode(nestings, folder))
