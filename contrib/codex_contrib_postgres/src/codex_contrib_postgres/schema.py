"""The version of the tables. An empty database gets them at its first use; an older one is changed only by a person."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect, text

from codex_framework.contract.errors import ThreadError

__all__ = ["check_schema", "upgrade_schema"]

_LOCK = 0x636F6465785F7371
"""The number of the advisory lock under which one process at a time changes the tables (the bytes of ``codex_sq``)."""

_VERSIONS = "codex_alembic_version"
"""The table with the version. A database of an application may have its own ``alembic_version``."""


def check_schema(engine: Engine, address: str) -> None:
    """Create the tables in an empty database.

    Raises:
        ThreadError: The tables are of an older or a newer version.
    """
    with engine.begin() as connection:
        found, newest = _version(connection), _newest()
        if found == newest:
            return
        if found is None:
            _upgrade(connection)
            return
    is_older = found in {script.revision for script in ScriptDirectory(str(_FOLDER)).walk_revisions()}
    fact = f"the tables in {address} have version {found}, and this version of codex-contrib-postgres needs {newest}"
    raise ThreadError(
        fact,
        slug="thread-unreadable",
        hint="Stop all programs that use the database, and run: codex-framework database upgrade"
        if is_older
        else "Upgrade codex-contrib-postgres here: another program uses a newer version.",
    )


def upgrade_schema(engine: Engine) -> tuple[str | None, str]:
    """Bring the tables to the version of this package, and return the versions before and after."""
    with engine.begin() as connection:
        before = _version(connection)
        _upgrade(connection)
        return before, _newest()


_FOLDER = Path(__file__).parent / "migrations"


def _newest() -> str:
    newest = ScriptDirectory(str(_FOLDER)).get_current_head()
    assert newest is not None
    return newest


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table(_VERSIONS):
        return None
    return MigrationContext.configure(connection, opts={"version_table": _VERSIONS}).get_current_revision()


def _upgrade(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _LOCK})
    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    config.attributes["version_table"] = _VERSIONS
    command.upgrade(config, "head")
