"""Add what bounds the rows of one box, the age of events by the clock of the hub, and how large its tables are."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_SIZES = (
    ("member_folder", "member_folder", "1000000 100000 1"),
    ("member_folder", "member_folder_parent", "1000000 100000 10"),
    ("member_folder", "member_folder_folder", "1000000 3"),
    ("member_folder", "member_folder_unchecked", "1000000 100000"),
    ("file", "file", "10000000 1000000 10 1"),
)

_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _int(name: str, *args: Any, null: bool = False) -> sa.Column[Any]:
    return sa.Column(name, _INTEGER, *args, nullable=null)


def upgrade() -> None:
    """Add the tables and the indexes."""
    op.create_table(
        "box_usage",
        _int("box_id", sa.ForeignKey("box.id")),
        _int("stored_bytes"),
        _int("counted_at", null=True),
        _int("full_since", null=True),
        sa.PrimaryKeyConstraint("box_id"),
    )
    op.create_table("event_mark", _int("at"), _int("event_id"), sa.PrimaryKeyConstraint("at"))
    op.create_index("finding_set", "finding", ["set_id"])
    op.create_index("finding_tree", "finding", ["tree_id"])
    if op.get_bind().dialect.name == "sqlite":
        _describe_sizes()


def _describe_sizes() -> None:
    """
    Tell SQLite how many rows have equal values in an index; else it takes a member for one with ten folders.

    It then reads all folders of a member to find those in one folder. These numbers are of a large tree, see
    "The sqlite_stat1 table" in fileformat2.html of SQLite: rows, then those that are alike in 1, 2, ... columns.
    """
    op.execute("ANALYZE")  # makes the table
    stat = sa.table("sqlite_stat1", *map(sa.column, ("tbl", "idx", "stat")))
    op.execute(sa.delete(stat))
    op.bulk_insert(stat, [{"tbl": table, "idx": index, "stat": sizes} for table, index, sizes in _SIZES])
