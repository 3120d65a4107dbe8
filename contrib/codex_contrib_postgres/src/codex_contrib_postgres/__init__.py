"""The plugin ``postgres``: a thread store and shared rate limits in a database. Slow imports are in the functions that need them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from codex_framework import Component, Interceptor, Plugin, ThreadStore, hookimpl

if TYPE_CHECKING:
    import click

    from codex_contrib_postgres.store import DatabaseStore

__all__ = ["Postgres"]


class Postgres(Plugin):
    """Offers the thread store ``postgres`` to kernels whose configuration selects it. Others do not import SQLAlchemy."""

    @cached_property
    def _store(self) -> DatabaseStore | None:
        framework = self.context.config.get("framework")
        if not isinstance(framework, Mapping) or framework.get("thread_store") != "postgres":
            return None
        from codex_contrib_postgres.settings import PostgresSettings
        from codex_contrib_postgres.store import DatabaseStore

        settings = self.context.settings(PostgresSettings)
        return DatabaseStore(settings.url or self.context.environ.get("CODEX_DATABASE_URL", ""), settings)

    @hookimpl
    def codex_interceptors(self) -> Iterable[Interceptor]:
        """Offer what lets requests wait for rate limits, if there are limits. Raises ConfigError as for the store."""
        framework = self.context.config.get("framework")
        table = framework.get("plugins", {}).get("postgres", {}) if isinstance(framework, Mapping) else {}
        if not table.get("rate_limits"):
            return []
        from codex_contrib_postgres.database import Database
        from codex_contrib_postgres.rate_limits import BucketTable, DatabaseLimiter
        from codex_contrib_postgres.settings import PostgresSettings

        settings = self.context.settings(PostgresSettings)
        database = Database(settings.url or self.context.environ.get("CODEX_DATABASE_URL", ""))
        return [DatabaseLimiter(settings.rate_limits, BucketTable(database), self.context.environ)]

    @hookimpl
    def codex_settings(self) -> type[Any]:
        """Declare the table ``[framework.plugins.postgres]``."""
        from codex_contrib_postgres.settings import PostgresSettings

        return PostgresSettings

    @hookimpl
    def codex_thread_stores(self) -> Iterable[ThreadStore]:
        """Offer the store. Raises ConfigError if the database has no usable URL."""
        return [] if self._store is None else [self._store]

    @hookimpl
    def codex_commands(self) -> Iterable[click.Command]:
        """Offer ``codex-framework database``, if the configuration selects the store."""
        store = self._store
        if store is None:
            return []
        import click

        @click.group("database", short_help="Manage the database of sessions.")
        def database() -> None:
            """Manage the database that keeps the sessions."""

        @database.command("upgrade")
        def upgrade() -> None:
            """Bring the tables of an older version to the version of this package. Stop all programs that use them before."""
            before, after = store.upgrade()
            click.echo(
                f"{store.address}: {before or 'empty'} -> {after}"
                if before != after
                else f"{store.address}: {after}, up to date"
            )

        return [database]

    @hookimpl
    def codex_components(self) -> Iterable[Component]:
        """Offer the component that saves at the end of the kernel what could not be saved before."""
        return [] if self._store is None else [_Closing(self._store)]


class _Closing(Component):
    name = "postgres"

    def __init__(self, store: DatabaseStore) -> None:
        self._store = store
        self.close_timeout_s = store.patience_s + 10

    async def aclose(self) -> None:
        """Wait for the database, and close its connections."""
        if unsaved := await asyncio.to_thread(self._store.close):
            logging.getLogger(__name__).error(
                "%s: the last entries of %d threads are not saved", self._store.address, unsaved
            )
