"""The settings of the plugin."""

from __future__ import annotations

from typing import Literal

from codex_framework import Value

__all__ = ["Kind", "Settings"]

Kind = Literal["agent-turn-complete", "approval-requested", "turn-failed", "budget-reached"]


class Settings(Value, kw_only=True):
    """The table ``[framework.plugins.slack]``.

    Attributes:
        url_env_var: The variable with the URL of the incoming webhook, which is a secret. Commands of the model do not get it.
        kinds: The notifications that are posted.
        min_turn_s: Shortest turn whose end is posted, in seconds.
        mention: The mention to add unless a turn was completed: ``<!here>``, ``<@U012AB3CD>``, ... By default empty.
        content: Whether the model's message, the question or the error is posted.
    """

    url_env_var: str = ""
    kinds: tuple[Kind, ...] = ("agent-turn-complete", "approval-requested", "turn-failed", "budget-reached")
    min_turn_s: float = 0.0
    mention: str = ""
    content: bool = True
