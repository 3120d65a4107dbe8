"""Whether the tools of this plugin are offered."""

from __future__ import annotations

from codex_framework import Tool, TurnFacts
from codex_plugin_read_file.settings import Settings, own_setting

__all__ = ["Offering"]


class Offering(Tool):
    """The part of a tool that decides whether it is offered.

    Args:
        settings: The plugin's settings.
    """

    reads = frozenset({"config", "model", "environments"})

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings or Settings()

    def offered(self, turn: TurnFacts) -> bool:
        """Return the thread's setting ``offer``.

        If it is not set, return True for models without command sessions (``exec_command``), and for models that know the tool.
        """
        offer = own_setting(turn.config, "offer", self._settings.offer)
        if offer is not None:
            return bool(offer)
        return turn.model.shell_type != "unified_exec" or self.spec.name in turn.model.extra_tools
