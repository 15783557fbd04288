"""Note which processes report with the token of a box, so that two machines with one token are told from one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the table and the column."""
    op.create_table(
        "box_run",
        sa.Column("box_id", _INTEGER, sa.ForeignKey("box.id"), nullable=False),
        sa.Column("run", sa.LargeBinary, nullable=False),
        sa.Column("machine", sa.LargeBinary, nullable=True),
        sa.Column("hostname", sa.Text, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("first_at", _INTEGER, nullable=False),
        sa.Column("seen_at", _INTEGER, nullable=False),
        sa.Column("is_accepted", sa.SmallInteger, nullable=False),
        sa.PrimaryKeyConstraint("box_id", "run"),
    )
    op.add_column("box", sa.Column("shared_by", sa.Text, nullable=True))
