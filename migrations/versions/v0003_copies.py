"""
Add backup copies, their answers about each file, and the last pass of the gate.

Adds CRC-64/NVME to the digests, because S3 stores it for whole objects. Existing rows have none and keep their seals.
Findings can name a copy, because one file may be missing from two copies.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add columns to seven tables and create four."""
    # As SQL: SQLite accepts a CHECK only in the column definition, and Alembic would drop it.
    for table in ("file", "history", "candidate"):
        op.execute(f"ALTER TABLE {table} ADD COLUMN crc64nvme BLOB CHECK (length(crc64nvme) = 8)")
    for table in ("block_run", "checkpoint_run"):
        op.execute(f"ALTER TABLE {table} ADD COLUMN crc64nvme BLOB DEFAULT (x'') NOT NULL")
    op.execute("ALTER TABLE run ADD COLUMN copy TEXT")
    _let_findings_name_a_copy()
    _create_copy()
    _create_copy_file()
    _create_copy_reading()
    _create_gate()


def _let_findings_name_a_copy() -> None:
    op.execute("ALTER TABLE finding ADD COLUMN copy TEXT DEFAULT '' NOT NULL")
    op.execute("ALTER TABLE finding ADD COLUMN step TEXT")
    op.execute("ALTER TABLE finding ADD COLUMN command TEXT")
    op.drop_index("finding_unresolved", "finding")
    op.create_index(
        "finding_unresolved",
        "finding",
        ["root_id", "kind", "path", "copy"],
        unique=True,
        sqlite_where=sa.text("state != 'resolved'"),
    )


def _create_copy() -> None:
    op.create_table(
        "copy",
        sa.Column("id", _INTEGER, primary_key=True, nullable=False, comment="number of the copy"),
        sa.Column(
            "root_id", _INTEGER, sa.ForeignKey("root.id"), nullable=False, comment="the root of which it holds files"
        ),
        sa.Column(
            "prefix",
            sa.LargeBinary(),
            nullable=False,
            comment="the folder in the root that its top stands for; empty for the root's own",
        ),
        sa.Column(
            "name", sa.Text(), nullable=False, comment="its name in the configuration, or its URL without secrets"
        ),
        sa.Column("url", sa.Text(), nullable=False, comment="where it is, without secrets"),
        sa.Column(
            "identity",
            sa.Text(),
            nullable=True,
            comment="what a mounted one is recognised by, as that of a root; null: none, or not seen yet",
        ),
        sa.Column(
            "has_bytes",
            _INTEGER,
            nullable=False,
            comment="0: it has digests only, so nothing can be repaired from it",
        ),
        sa.Column("created_at", _INTEGER, nullable=False, comment="when it was first compared"),
        sa.Column("listed_at", _INTEGER, nullable=True, comment="when it was last listed as a whole; null: never"),
        sa.UniqueConstraint("root_id", "prefix", "name"),
        sqlite_strict=True,
    )


def _create_copy_file() -> None:
    op.create_table(
        "copy_file",
        sa.Column("copy_id", _INTEGER, sa.ForeignKey("copy.id"), nullable=False, comment="the copy"),
        sa.Column("file_id", _INTEGER, nullable=False, comment="the file; it may be gone"),
        sa.Column(
            "version", _INTEGER, nullable=False, comment="version of the baseline that the copy was held against"
        ),
        sa.Column("vote", sa.Text(), nullable=False, comment="CopyVote: what the copy said"),
        sa.Column("compared_at", _INTEGER, nullable=False, comment="when"),
        sa.Column(
            "read_at",
            _INTEGER,
            nullable=True,
            comment="when its bytes were last read and were those of that version; null: never",
        ),
        sa.Column(
            "stated",
            sa.LargeBinary(),
            sa.CheckConstraint("length(stated) = 16"),
            nullable=True,
            comment="XXH3-128 of what the copy stated when reading the file proved it right; else null",
        ),
        sa.PrimaryKeyConstraint("copy_id", "file_id"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )


def _create_copy_reading() -> None:
    op.create_table(
        "copy_reading",
        sa.Column("copy_id", _INTEGER, sa.ForeignKey("copy.id"), nullable=False, comment="the copy"),
        sa.Column("file_id", _INTEGER, nullable=False, comment="the file whose copy was being read; it may be gone"),
        sa.Column("version", _INTEGER, nullable=False, comment="version of the baseline that it was held against"),
        sa.Column("size_bytes", _INTEGER, nullable=False, comment="size when the digests were taken"),
        sa.Column("mtime_ns", _INTEGER, nullable=False, comment="mtime when the digests were taken"),
        sa.Column("ctime_ns", _INTEGER, nullable=False, comment="ctime when the digests were taken"),
        sa.Column("inode", _INTEGER, nullable=False, comment="inode number when the digests were taken"),
        sa.Column(
            "is_racy",
            _INTEGER,
            nullable=False,
            comment="1: mtime or ctime lay within a granule of the moment of hashing (R1)",
        ),
        sa.Column("offset_bytes", _INTEGER, nullable=False, comment="everything before it is done"),
        sa.Column(
            "bad_blocks", sa.Text(), nullable=False, comment="blocks that did not match so far, JSON list of numbers"
        ),
        sa.Column(
            "seal", sa.LargeBinary(), sa.CheckConstraint("length(seal) = 16"), nullable=False, comment="see seal.py"
        ),
        sa.PrimaryKeyConstraint("copy_id", "file_id"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )


def _create_gate() -> None:
    op.create_table(
        "gate",
        sa.Column("root_id", _INTEGER, sa.ForeignKey("root.id"), nullable=False, comment="the root"),
        sa.Column(
            "prefix",
            sa.LargeBinary(),
            nullable=False,
            comment="the part of the root that was asked for; empty for all of it",
        ),
        sa.Column(
            "passed_at",
            _INTEGER,
            nullable=False,
            comment="when it was last let through, or its state taken as seen",
        ),
        sa.Column(
            "last_history_id",
            _INTEGER,
            nullable=False,
            comment="the last entry of history then: what came after it is looked at",
        ),
        sa.Column("last_file_id", _INTEGER, nullable=False, comment="the last number given to a file then"),
        sa.PrimaryKeyConstraint("root_id", "prefix"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
