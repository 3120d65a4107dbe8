"""The settings of the plugin."""

from __future__ import annotations

from typing import Literal

from codex_framework import Value

__all__ = ["Settings"]


class Settings(Value, kw_only=True):
    """The table ``[framework.plugins.hooks]``.

    Attributes:
        unrunnable: The handling of a hook that cannot be run: it is not trusted, has an unknown event or an unsupported type.
            ``error`` refuses to start. ``skip`` continues without it, with a warning.
        bypass_trust: Whether hooks run without being trusted. Only for runs whose hooks have been checked in another way.
        env_vars: Names of environment variables that hooks get even if commands of the model do not, such as tokens.
    """

    unrunnable: Literal["error", "skip"] = "error"
    bypass_trust: bool = False
    env_vars: tuple[str, ...] = ()
