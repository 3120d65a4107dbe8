"""The script that Alembic runs for each upgrade: the connection and its transaction are ours."""

from __future__ import annotations

from alembic import context

attributes = context.config.attributes
context.configure(connection=attributes["connection"], version_table=attributes["version_table"])
context.run_migrations()
