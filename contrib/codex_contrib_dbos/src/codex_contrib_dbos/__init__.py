"""The plugin ``dbos``: a launcher whose jobs are workflows of DBOS. Slow imports are in the functions that need them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from codex_framework import Plugin, hookimpl
from codex_framework.contract.roles.launchers import Launcher

__all__ = ["Dbos"]


class Dbos(Plugin):
    """Offers the launcher ``dbos``."""

    @hookimpl
    def codex_settings(self) -> type[Any]:
        """Declare the table ``[framework.plugins.dbos]``."""
        from codex_contrib_dbos.settings import DbosSettings

        return DbosSettings

    @hookimpl
    def codex_launchers(self) -> Iterable[Launcher]:
        """Offer the launcher. The database is not used before it is opened."""
        from codex_contrib_dbos.launcher import DbosLauncher
        from codex_contrib_dbos.settings import DbosSettings

        settings = self.context.settings(DbosSettings)
        return [DbosLauncher(settings, settings.url or self.context.environ.get("CODEX_DATABASE_URL", ""))]
