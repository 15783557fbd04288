"""Have each set count what changes in it, and which count its last vote saw; all sets that changed vote once more."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the counts."""
    for name in ("changes", "voted_changes"):
        op.add_column("replica_set", sa.Column(name, _INTEGER, nullable=False, server_default="0"))
    op.execute("UPDATE replica_set SET changes = 1 WHERE changed_at IS NOT NULL")
