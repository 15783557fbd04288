"""Digest what each subtree holds; the digests follow when boxes have their trees settled again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column. Until it is filled, votes look into all folders, as before."""
    op.add_column("member_folder", sa.Column("subtree_content", sa.LargeBinary, nullable=True))
    op.execute("UPDATE member_folder SET is_checked = 0")
    op.execute("UPDATE member SET settled_tree = NULL")  # the boxes send nothing again, and ask whether all is there
