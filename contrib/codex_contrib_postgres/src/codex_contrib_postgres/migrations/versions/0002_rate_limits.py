"""Create the tables of rate limits."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the tables of version 0002. ``tables.py`` may change later; this stays."""
    op.create_table(
        "codex_rate_limits",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("requests_at", sa.Double, nullable=False),
        sa.Column("tokens_at", sa.Double, nullable=False),
        sa.Column("held_until", sa.Double, nullable=False),
    )
    op.create_table(
        "codex_rate_limit_users",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("process", sa.Text, nullable=False),
        sa.Column("seen_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("name", "process"),
    )
