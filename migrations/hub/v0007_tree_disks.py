"""Note which disk each machine sees as a shared tree, and when the owner said that the next one is right."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the table and the column."""
    op.create_table(
        "tree_disk",
        sa.Column("tree_id", _INTEGER, sa.ForeignKey("shared_tree.id"), nullable=False),
        sa.Column("box_id", _INTEGER, sa.ForeignKey("box.id"), nullable=False),
        sa.Column("disk", sa.Text, nullable=False),
        sa.Column("learned_at", _INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("tree_id", "box_id"),
    )
    op.add_column("shared_tree", sa.Column("trusted_at", _INTEGER, nullable=True))
