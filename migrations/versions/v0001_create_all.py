"""
Create all tables.

The definitions are written out, not imported: this step must not change when the program's tables change.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create the tables of an empty catalog."""
    _create_block_run()
    _create_boot()
    _create_meta()
    _create_root()
    _create_nested_mount()
    _create_checkpoint()
    _create_folder()
    _create_history()
    _create_run()
    _create_checkpoint_run()
    _create_file()
    _create_finding()
    _create_candidate()


def _create_block_run() -> None:
    op.create_table(
        "block_run",
        sa.Column("file_id", _INTEGER, nullable=False, comment="the file"),
        sa.Column(
            "version",
            _INTEGER,
            nullable=False,
            comment="version of the baseline that they belong to; 0: the candidate's",
        ),
        sa.Column(
            "run",
            _INTEGER,
            nullable=False,
            comment="number of the first run that this row covers; run n begins at block 1024 * n",
        ),
        sa.Column(
            "block_count",
            _INTEGER,
            nullable=False,
            comment="blocks that this row covers: up to 1024, or any number if all have equal digests",
        ),
        sa.Column(
            "md5",
            sa.LargeBinary(),
            nullable=False,
            comment="MD5 of the blocks, 16 bytes each in order; empty: none taken; one for all if they are equal",
        ),
        sa.Column(
            "xxh3_128",
            sa.LargeBinary(),
            nullable=False,
            comment="XXH3-128 of the blocks, 16 bytes each in order; one for all if they are equal",
        ),
        sa.Column(
            "seal", sa.LargeBinary(), sa.CheckConstraint("length(seal) = 16"), nullable=False, comment="see seal.py"
        ),
        sa.PrimaryKeyConstraint("file_id", "version", "run"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )


def _create_nested_mount() -> None:
    op.create_table(
        "nested_mount",
        sa.Column("root_id", _INTEGER, nullable=False, comment="the root, which crosses mounts"),
        sa.Column("path", sa.LargeBinary(), nullable=False, comment="where something is mounted, relative to the root"),
        sa.Column(
            "identity",
            sa.Text(),
            nullable=False,
            comment="identity (R5): that of its file system, and inode number of the folder that it shows",
        ),
        sa.ForeignKeyConstraint(["root_id"], ["root.id"]),
        sa.PrimaryKeyConstraint("root_id", "path"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )


def _create_boot() -> None:
    op.create_table(
        "boot",
        sa.Column(
            "id", _INTEGER, primary_key=True, nullable=False, comment="number of the boot, in the order they were seen"
        ),
        sa.Column("uuid", sa.Text(), nullable=False, comment="boot_id of the kernel"),
        sa.Column("first_seen_at", _INTEGER, nullable=False, comment="when a program of ours first ran in it"),
        sa.Column(
            "stopped_cleanly_at",
            _INTEGER,
            nullable=True,
            comment="when its clean end was marked; null: it may have crashed",
        ),
        sa.UniqueConstraint("uuid"),
        sqlite_strict=True,
    )


def _create_meta() -> None:
    op.create_table(
        "meta",
        sa.Column(
            "key", sa.Text(), nullable=False, comment="uuid, created_at, next_file_id, seal_check, last_backup_at"
        ),
        sa.Column("value", sa.Text(), nullable=False, comment="its value as text"),
        sa.PrimaryKeyConstraint("key"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )


def _create_root() -> None:
    op.create_table(
        "root",
        sa.Column("id", _INTEGER, primary_key=True, nullable=False, comment="number of the root"),
        sa.Column(
            "token",
            sa.LargeBinary(),
            sa.CheckConstraint("length(token) = 16"),
            nullable=False,
            comment="random; goes into the seals, so that rows cannot change roots",
        ),
        sa.Column("path", sa.LargeBinary(), nullable=False, comment="absolute real path"),
        sa.Column("fs_id", sa.Text(), nullable=False, comment="identity (R5): uuid of the file system, or type:source"),
        sa.Column("folder_inode", _INTEGER, nullable=False, comment="identity (R5): inode number of the folder"),
        sa.Column("fs_type", sa.Text(), nullable=False, comment="type of the file system, for people"),
        sa.Column("state", sa.Text(), nullable=False, comment="RootState"),
        sa.Column("state_reason", sa.Text(), nullable=True, comment="why it is suspended or paused, for people"),
        sa.Column("created_at", _INTEGER, nullable=False, comment="when it became a root"),
        sa.Column("file_count", _INTEGER, nullable=False, comment="number of its file rows (I2)"),
        sa.Column(
            "seal_xor",
            sa.LargeBinary(),
            sa.CheckConstraint("length(seal_xor) = 16"),
            nullable=False,
            comment="XOR of the seals of its file rows (I2)",
        ),
        sa.UniqueConstraint("path"),
        sqlite_strict=True,
    )


def _create_checkpoint() -> None:
    op.create_table(
        "checkpoint",
        sa.Column("id", _INTEGER, primary_key=True, nullable=False, comment="number of the checkpoint"),
        sa.Column("root_id", _INTEGER, sa.ForeignKey("root.id"), nullable=False, comment="the root"),
        sa.Column("path", sa.LargeBinary(), nullable=False, comment="the file that was being read"),
        sa.Column("purpose", sa.Text(), nullable=False, comment="record or verify"),
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
            "md5_state",
            sa.LargeBinary(),
            nullable=True,
            comment="exported state of the MD5 up to the offset; null when verifying",
        ),
        sa.Column(
            "bad_blocks", sa.Text(), nullable=False, comment="blocks that did not match so far, JSON list of numbers"
        ),
        sa.Column("block_size_bytes", _INTEGER, nullable=False, comment="size of its blocks"),
        sa.Column("saved_at", _INTEGER, nullable=False, comment="when it was saved"),
        sa.Column(
            "seal", sa.LargeBinary(), sa.CheckConstraint("length(seal) = 16"), nullable=False, comment="see seal.py"
        ),
        sa.UniqueConstraint("root_id", "path", "purpose"),
        sqlite_strict=True,
    )


def _create_folder() -> None:
    op.create_table(
        "folder",
        sa.Column("id", _INTEGER, primary_key=True, nullable=False, comment="number of the folder"),
        sa.Column("root_id", _INTEGER, sa.ForeignKey("root.id"), nullable=False, comment="its root"),
        sa.Column("path", sa.LargeBinary(), nullable=False, comment="relative to the root; empty for the root's own"),
        sa.UniqueConstraint("root_id", "path"),
        sqlite_strict=True,
    )


def _create_history() -> None:
    op.create_table(
        "history",
        sa.Column("id", _INTEGER, primary_key=True, nullable=False, comment="number of the entry"),
        sa.Column("root_id", _INTEGER, sa.ForeignKey("root.id"), nullable=False, comment="the root"),
        sa.Column("file_id", _INTEGER, nullable=True, comment="the file; it may be gone"),
        sa.Column("path", sa.LargeBinary(), nullable=False, comment="its path; follows the file when it is moved"),
        sa.Column("size_bytes", _INTEGER, nullable=False, comment="size of the old content"),
        sa.Column("mtime_ns", _INTEGER, nullable=False, comment="mtime of the old content"),
        sa.Column(
            "md5",
            sa.LargeBinary(),
            sa.CheckConstraint("length(md5) = 16"),
            nullable=True,
            comment="MD5 of the whole file; null for very sparse files",
        ),
        sa.Column(
            "xxh3_128",
            sa.LargeBinary(),
            sa.CheckConstraint("length(xxh3_128) = 16"),
            nullable=True,
            comment="XXH3-128 of the whole file; null if resumed in mid-file",
        ),
        sa.Column(
            "blake3",
            sa.LargeBinary(),
            sa.CheckConstraint("length(blake3) = 32"),
            nullable=True,
            comment="BLAKE3 of the whole file; null unless configured",
        ),
        sa.Column("version", _INTEGER, nullable=False, comment="version of the old baseline"),
        sa.Column("recorded_at", _INTEGER, nullable=False, comment="when the old baseline had been taken"),
        sa.Column("reason", sa.Text(), nullable=False, comment="BaselineReason: why it had been taken"),
        sa.Column("replaced_at", _INTEGER, nullable=False, comment="when it was replaced or removed"),
        sa.Column(
            "replaced_because", sa.Text(), nullable=False, comment="BaselineReason: why it was replaced or removed"
        ),
        sa.Column("note", sa.Text(), nullable=True, comment="what a person said"),
        sqlite_strict=True,
    )
    op.create_index(
        "history_deleted",
        "history",
        ["root_id", "size_bytes", "md5"],
        sqlite_where=sa.text("replaced_because = 'deleted'"),
    )
    op.create_index("history_file", "history", ["file_id"])
    op.create_index("history_path", "history", ["root_id", "path"])
    op.create_index("history_replaced", "history", ["root_id", "replaced_at"])


def _create_run() -> None:
    op.create_table(
        "run",
        sa.Column("id", _INTEGER, primary_key=True, nullable=False, comment="number of the run"),
        sa.Column("root_id", _INTEGER, sa.ForeignKey("root.id"), nullable=False, comment="the root that it worked on"),
        sa.Column("job", sa.Text(), nullable=False, comment="Job"),
        sa.Column("started_at", _INTEGER, nullable=False, comment="when it began"),
        sa.Column("finished_at", _INTEGER, nullable=True, comment="when it ended; null: it works, or died"),
        sa.Column("outcome", sa.Text(), nullable=True, comment="Outcome; null: it works, or died"),
        sa.Column("boot_id", _INTEGER, sa.ForeignKey("boot.id"), nullable=False, comment="boot in which it ran"),
        sa.Column("pid", _INTEGER, nullable=False, comment="process that ran it"),
        sa.Column("verified", _INTEGER, nullable=False, comment="names found intact"),
        sa.Column("new", _INTEGER, nullable=False, comment="names recorded for the first time"),
        sa.Column("changed", _INTEGER, nullable=False, comment="names whose baseline was replaced"),
        sa.Column("damaged", _INTEGER, nullable=False, comment="names with an open content finding"),
        sa.Column("missing", _INTEGER, nullable=False, comment="names that are gone"),
        sa.Column("unreadable", _INTEGER, nullable=False, comment="names that could not be read"),
        sa.Column("unstable", _INTEGER, nullable=False, comment="names that kept changing while they were read"),
        sa.Column("skipped", _INTEGER, nullable=False, comment="names that were left out, with a reason"),
        sa.Column("not_due", _INTEGER, nullable=False, comment="names that were not looked into"),
        sa.Column("moved", _INTEGER, nullable=False, comment="of which: recognised under another name"),
        sa.Column("bytes_read", _INTEGER, nullable=False, comment="bytes read from files"),
        sa.Column("findings_opened", _INTEGER, nullable=False, comment="findings that it opened"),
        sa.Column("findings_open", _INTEGER, nullable=False, comment="findings open at its end"),
        sa.Column("duration_s", sa.REAL(), nullable=True, comment="how long it worked, by the monotonic clock"),
        sa.Column("error", sa.Text(), nullable=True, comment="why it failed, for people"),
        sqlite_strict=True,
    )
    op.create_index("run_root", "run", ["root_id"])


def _create_checkpoint_run() -> None:
    op.create_table(
        "checkpoint_run",
        sa.Column("checkpoint_id", _INTEGER, sa.ForeignKey("checkpoint.id"), nullable=False, comment="the checkpoint"),
        sa.Column("run", _INTEGER, nullable=False, comment="as in block_run"),
        sa.Column("block_count", _INTEGER, nullable=False, comment="as in block_run"),
        sa.Column("md5", sa.LargeBinary(), nullable=False, comment="as in block_run"),
        sa.Column("xxh3_128", sa.LargeBinary(), nullable=False, comment="as in block_run"),
        sa.Column(
            "seal", sa.LargeBinary(), sa.CheckConstraint("length(seal) = 16"), nullable=False, comment="as in block_run"
        ),
        sa.PrimaryKeyConstraint("checkpoint_id", "run"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )


def _create_file() -> None:
    op.create_table(
        "file",
        sa.Column(
            "id", _INTEGER, primary_key=True, nullable=False, comment="number of the file, never given twice (I3)"
        ),
        sa.Column(
            "folder_id", _INTEGER, sa.ForeignKey("folder.id"), nullable=False, comment="the folder that it lies in"
        ),
        sa.Column("name", sa.LargeBinary(), nullable=False, comment="its name in the folder"),
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
        sa.Column(
            "md5",
            sa.LargeBinary(),
            sa.CheckConstraint("length(md5) = 16"),
            nullable=True,
            comment="MD5 of the whole file; null for very sparse files",
        ),
        sa.Column(
            "xxh3_128",
            sa.LargeBinary(),
            sa.CheckConstraint("length(xxh3_128) = 16"),
            nullable=True,
            comment="XXH3-128 of the whole file; null if resumed in mid-file",
        ),
        sa.Column(
            "blake3",
            sa.LargeBinary(),
            sa.CheckConstraint("length(blake3) = 32"),
            nullable=True,
            comment="BLAKE3 of the whole file; null unless configured",
        ),
        sa.Column(
            "block_size_bytes",
            _INTEGER,
            nullable=True,
            comment="size of its blocks; null: it fits one block and has none",
        ),
        sa.Column(
            "version", _INTEGER, nullable=False, comment="1 for the first baseline, one more each time it is replaced"
        ),
        sa.Column("recorded_at", _INTEGER, nullable=False, comment="when the present baseline was taken"),
        sa.Column("reason", sa.Text(), nullable=False, comment="BaselineReason: why it was taken"),
        sa.Column(
            "verified_at",
            _INTEGER,
            nullable=True,
            comment="when its content was last found equal to the baseline; null: never re-read",
        ),
        sa.Column(
            "read_how", sa.Text(), nullable=True, comment="ReadHow of the last verification, or of the recording"
        ),
        sa.Column(
            "boot_id",
            _INTEGER,
            sa.ForeignKey("boot.id"),
            nullable=True,
            comment="boot in which it was last found intact or recorded",
        ),
        sa.Column(
            "is_suspect", _INTEGER, nullable=False, comment="1: ctime or inode moved since; scrubs read it early (R2)"
        ),
        sa.Column(
            "is_frozen",
            _INTEGER,
            nullable=False,
            comment="1: a finding on its content is open; the baseline stays (R6)",
        ),
        sa.Column(
            "seal",
            sa.LargeBinary(),
            sa.CheckConstraint("length(seal) = 16"),
            nullable=False,
            comment="see seal.py (I1)",
        ),
        sa.UniqueConstraint("folder_id", "name"),
        sqlite_strict=True,
    )
    op.create_index("file_inode", "file", ["inode"])


def _create_finding() -> None:
    op.create_table(
        "finding",
        sa.Column(
            "id",
            _INTEGER,
            primary_key=True,
            nullable=False,
            comment="number of the finding, never given twice: people write it down",
        ),
        sa.Column("root_id", _INTEGER, sa.ForeignKey("root.id"), nullable=False, comment="the root"),
        sa.Column("file_id", _INTEGER, nullable=True, comment="the file; it may be gone"),
        sa.Column(
            "path", sa.LargeBinary(), nullable=False, comment="relative to the root; empty when it is about the root"
        ),
        sa.Column("kind", sa.Text(), nullable=False, comment="FindingKind"),
        sa.Column("certainty", sa.Text(), nullable=True, comment="Certainty"),
        sa.Column("state", sa.Text(), nullable=False, comment="FindingState"),
        sa.Column("opened_at", _INTEGER, nullable=False, comment="when it was opened"),
        sa.Column("updated_at", _INTEGER, nullable=False, comment="when anything of it last changed"),
        sa.Column("resolved_at", _INTEGER, nullable=True, comment="when it was resolved"),
        sa.Column("resolution", sa.Text(), nullable=True, comment="why it was resolved, for people"),
        sa.Column("muted_until", _INTEGER, nullable=True, comment="no reminders until then"),
        sa.Column("blocks", sa.Text(), nullable=False, comment="damaged blocks, JSON list of numbers"),
        sa.Column("block_size_bytes", _INTEGER, nullable=True, comment="size of these blocks"),
        sa.Column("ranges", sa.Text(), nullable=False, comment="damaged bytes, JSON list of [offset, length]"),
        sa.Column("confirmed_reads", _INTEGER, nullable=False, comment="re-reads that agreed (R3)"),
        sa.Column("message", sa.Text(), nullable=False, comment="what it says, for people"),
        sa.Column("run_id", _INTEGER, sa.ForeignKey("run.id"), nullable=True, comment="run that last said so"),
        sqlite_strict=True,
        sqlite_autoincrement=True,
    )
    op.create_index("finding_file", "finding", ["file_id"])
    op.create_index(
        "finding_unresolved",
        "finding",
        ["root_id", "kind", "path"],
        unique=True,
        sqlite_where=sa.text("state != 'resolved'"),
    )


def _create_candidate() -> None:
    op.create_table(
        "candidate",
        sa.Column(
            "file_id",
            _INTEGER,
            sa.ForeignKey("file.id"),
            primary_key=True,
            autoincrement=False,
            nullable=False,
            comment="the file",
        ),
        sa.Column("kind", sa.Text(), nullable=False, comment="change: newer content; removal: the name is gone"),
        sa.Column("size_bytes", _INTEGER, nullable=True, comment="size when the digests were taken"),
        sa.Column("mtime_ns", _INTEGER, nullable=True, comment="mtime when the digests were taken"),
        sa.Column("ctime_ns", _INTEGER, nullable=True, comment="ctime when the digests were taken"),
        sa.Column("inode", _INTEGER, nullable=True, comment="inode number when the digests were taken"),
        sa.Column(
            "is_racy",
            _INTEGER,
            nullable=True,
            comment="1: mtime or ctime lay within a granule of the moment of hashing (R1)",
        ),
        sa.Column(
            "md5",
            sa.LargeBinary(),
            sa.CheckConstraint("length(md5) = 16"),
            nullable=True,
            comment="MD5 of the whole file; null for very sparse files",
        ),
        sa.Column(
            "xxh3_128",
            sa.LargeBinary(),
            sa.CheckConstraint("length(xxh3_128) = 16"),
            nullable=True,
            comment="XXH3-128 of the whole file; null if resumed in mid-file",
        ),
        sa.Column(
            "blake3",
            sa.LargeBinary(),
            sa.CheckConstraint("length(blake3) = 32"),
            nullable=True,
            comment="BLAKE3 of the whole file; null unless configured",
        ),
        sa.Column("block_size_bytes", _INTEGER, nullable=True, comment="size of its blocks; null: none"),
        sa.Column("version", _INTEGER, nullable=False, comment="version that its block runs are stored under"),
        sa.Column("verdict", sa.Text(), nullable=False, comment="what judging said of it"),
        sa.Column(
            "because",
            sa.Text(),
            nullable=True,
            comment="BaselineReason with which it may become the baseline, if judging gave one",
        ),
        sa.Column("read_how", sa.Text(), nullable=True, comment="ReadHow of the reading; null for removals"),
        sa.Column("seen_at", _INTEGER, nullable=False, comment="start of the run that saw it"),
        sa.Column("run_id", _INTEGER, sa.ForeignKey("run.id"), nullable=False, comment="run that saw it"),
        sa.Column(
            "state",
            sa.Text(),
            nullable=False,
            comment="staged: its run decides; frozen: waits for a finding; held: waits for a person",
        ),
        sa.Column(
            "seal", sa.LargeBinary(), sa.CheckConstraint("length(seal) = 16"), nullable=False, comment="see seal.py"
        ),
        sqlite_strict=True,
    )
    op.create_index("candidate_run", "candidate", ["run_id"])
