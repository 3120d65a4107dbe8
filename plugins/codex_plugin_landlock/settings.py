"""The settings of the plugin."""

from __future__ import annotations

from typing import Literal

from codex_framework import Value

__all__ = ["Settings"]


class Settings(Value, kw_only=True):
    """The table ``[framework.plugins.landlock]``.

    Attributes:
        level: ``namespaces`` refuses commands where namespaces are unavailable. ``landlock`` never uses them. By default, the
            strongest level that works is used.
        hosts_by_port: Whether a list of hosts may be enforced without namespaces. Landlock checks only port numbers, so a command
            can then connect to the ports of its proxy on any host. By default, such commands are refused.
    """

    level: Literal["namespaces", "landlock"] | None = None
    hosts_by_port: bool = False
