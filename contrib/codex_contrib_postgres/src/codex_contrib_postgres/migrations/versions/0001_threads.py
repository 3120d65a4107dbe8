"""Create the tables of threads and entries."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables of version 0001. ``tables.py`` may change later; this stays."""
    op.create_table(
        "codex_threads",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("cwd", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("updated_at", sa.Double, nullable=False),
        sa.Column("name", sa.Text),
        sa.Column("preview", sa.Text),
        sa.Column("archived", sa.Boolean, nullable=False),
        sa.Column("parent_id", sa.Text),
        sa.Column("meta", sa.Text, nullable=False),
        sa.Column("entries", sa.BigInteger, nullable=False),
        sa.Column("writer", sa.Text),
        sa.Column("recorder", sa.Integer),
        sa.Column("writer_name", sa.Text),
        sa.Column("lease_until", sa.Double),
    )
    op.create_index("codex_threads_by_time", "codex_threads", ["scope", "updated_at", "id"])
    op.create_index("codex_threads_by_name", "codex_threads", ["scope", "name"])
    op.create_index("codex_threads_by_writer", "codex_threads", ["writer"])
    op.create_table(
        "codex_entries",
        sa.Column("thread_id", sa.Text, sa.ForeignKey("codex_threads.id", ondelete="CASCADE"), nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
        sa.Column("words", sa.Text),
        sa.PrimaryKeyConstraint("thread_id", "number"),
    )
