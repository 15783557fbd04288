"""
Record mounts in ``boot``: a file system can crash while the machine stays up. Existing rows stand for whole boots.

History stores what is needed to restore a baseline: block size, times, inode, and whether it was racy. Deleted files
are also found by size and mtime, because a file that returns with both must have the old content. Former baselines are
also found by inode, because the file may have another name now.

Runs record the highest file id at their end. Finished runs get the highest id of all, so that no file recorded before
this upgrade counts as new. Findings record the run that opened them. Together, both fields distinguish older changes
from those of a run.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Rebuild the table of boots, whose unique key grows; add columns and indexes."""
    op.execute("ALTER TABLE run ADD COLUMN last_file_id INTEGER")
    op.execute("UPDATE run SET last_file_id = (SELECT coalesce(max(id), 0) FROM file) WHERE finished_at IS NOT NULL")
    op.execute("ALTER TABLE finding ADD COLUMN opened_by INTEGER")
    # Not by renaming: SQLite would update the references of other tables.
    op.execute("CREATE TEMPORARY TABLE former_boot AS SELECT * FROM boot")
    op.drop_table("boot")
    _create_boot()
    op.execute(
        "INSERT INTO boot (id, uuid, fs_id, mount, first_seen_at, stopped_cleanly_at)"
        " SELECT id, uuid, '', '', first_seen_at, stopped_cleanly_at FROM former_boot"
    )
    op.execute("DROP TABLE former_boot")
    op.execute("ALTER TABLE history ADD COLUMN block_size_bytes INTEGER")
    op.execute("ALTER TABLE history ADD COLUMN is_racy INTEGER")
    op.execute("ALTER TABLE history ADD COLUMN ctime_ns INTEGER")
    op.execute("ALTER TABLE history ADD COLUMN inode INTEGER")
    op.create_index("history_inode", "history", ["inode"], sqlite_where=sa.text("inode IS NOT NULL"))
    op.create_index(
        "history_deleted_time",
        "history",
        ["root_id", "size_bytes", "mtime_ns"],
        sqlite_where=sa.text("replaced_because = 'deleted'"),
    )


def _create_boot() -> None:
    op.create_table(
        "boot",
        sa.Column(
            "id",
            _INTEGER,
            primary_key=True,
            nullable=False,
            comment="number of the boot or mount, in the order they were seen",
        ),
        sa.Column("uuid", sa.Text(), nullable=False, comment="boot_id of the kernel"),
        sa.Column(
            "fs_id",
            sa.Text(),
            nullable=False,
            comment="name of the file system that was mounted, as of a root; empty: the boot as a whole",
        ),
        sa.Column(
            "mount",
            sa.Text(),
            nullable=False,
            comment="which mount of it in this boot, see mount_state.py; empty: not known, or the boot as a whole",
        ),
        sa.Column(
            "mount_count",
            _INTEGER,
            nullable=True,
            comment="how often it had been mounted for writing by then; null: not known",
        ),
        sa.Column("first_seen_at", _INTEGER, nullable=False, comment="when a program of ours first ran in it"),
        sa.Column(
            "stopped_cleanly_at",
            _INTEGER,
            nullable=True,
            comment="when its clean end was marked; null: it may have crashed",
        ),
        sa.UniqueConstraint("uuid", "fs_id", "mount"),
        sqlite_strict=True,
    )
