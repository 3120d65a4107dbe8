"""The plugin ``ray``: a launcher that runs sessions on a Ray cluster. Ray is imported when the launcher is opened."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from codex_framework import Plugin, hookimpl
from codex_framework.contract.roles.launchers import Launcher

__all__ = ["Ray"]


class Ray(Plugin):
    """Offers the launcher ``ray``."""

    @hookimpl
    def codex_settings(self) -> type[Any]:
        """Declare the table ``[framework.plugins.ray]``."""
        from codex_contrib_ray.settings import RaySettings

        return RaySettings

    @hookimpl
    def codex_launchers(self) -> Iterable[Launcher]:
        """Offer the launcher. Raises ConfigError if its settings are invalid."""
        from codex_contrib_ray.launcher import RayLauncher
        from codex_contrib_ray.settings import RaySettings

        return [RayLauncher(self.context.settings(RaySettings))]
