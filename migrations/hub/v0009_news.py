"""Mark the findings of which a channel may have to be sent something: nobody reads all others each minute."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column and its index; what was sent before is found out by the first look."""
    op.add_column("finding", sa.Column("is_news", sa.SmallInteger, nullable=False, server_default="1"))
    is_news = sa.text("is_news = 1")
    op.create_index("finding_news", "finding", ["id"], sqlite_where=is_news, postgresql_where=is_news)
