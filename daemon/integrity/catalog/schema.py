"""
The tables of the catalog, with the meaning of each column.

Decides names, types, constraints, and indexes. The numbered migrations build the same schema; a test compares both.
Invariants:

I1  The seal of a ``file`` row covers the inputs of a verdict (``seal.py``) and is written with the row, never later.
    Other rows are sealed as a whole by triggers (``row_seals.py``), except folders, which the seals of files cover.
I2  ``root.file_count`` and ``root.seal_xor`` are the number of the root's ``file`` rows and the XOR of their seals.
    They change in the same transaction as the rows.
I3  A file id is never reused: findings and history refer to files that are gone.
I4  No two unresolved findings have the same root, kind, path, and copy.
I5  Values that are summed up, counted, or looked up without checking a seal have a parity. SQLite computes it whenever
    a row is written; it is compared when a catalog is opened (``row_seals.py``).

Paths are BLOB (R10: sqlite3 rejects a name that is not UTF-8 as TEXT). Enumerations of ``model.py`` are stored as text,
readable in the file. Flags are 0 or 1, which SQLite stores in the record header. Times ``*_at`` are seconds UTC,
``*_ns`` nanoseconds from stat.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from integrity.hashing.algorithms import STORED

SCHEMA_REVISION = "0011"
"""The newest migration: the revision that this program reads and writes."""

APPLICATION_ID = 0x696E7467
"""``intg``, in the header of the SQLite file: distinguishes a catalog from other databases."""

metadata = sa.MetaData()

# In SQLite, INTEGER has 64 bits, and only this spelling makes a rowid; other databases need BIGINT for this range.
_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _int(name: str, comment: str, *args: Any, null: bool = False) -> sa.Column[Any]:
    return sa.Column(name, _INTEGER, *args, nullable=null, comment=comment)


def _id(name: str, comment: str, *args: Any) -> sa.Column[Any]:
    return sa.Column(name, _INTEGER, *args, primary_key=True, nullable=False, comment=comment)


def _text(name: str, comment: str, *args: Any, null: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Text, *args, nullable=null, comment=comment)


def _blob(name: str, comment: str, *, length: int | None = None, null: bool = False) -> sa.Column[Any]:
    check = () if length is None else (sa.CheckConstraint(f"length({name}) = {length}"),)
    return sa.Column(name, sa.LargeBinary, *check, nullable=null, comment=comment)


def _witness(*, null: bool = False) -> tuple[sa.Column[Any], ...]:
    return (
        _int("size_bytes", "size when the digests were taken", null=null),
        _int("mtime_ns", "mtime when the digests were taken", null=null),
        _int("ctime_ns", "ctime when the digests were taken", null=null),
        _int("inode", "inode number when the digests were taken", null=null),
        _int("is_racy", "1: mtime or ctime lay within a granule of the moment of hashing (R1)", null=null),
    )


def _digests(*, is_appended: bool = False) -> Iterator[sa.Column[Any]]:
    for digest in STORED:
        if digest.is_appended == is_appended:
            comment = f"{digest.title} of the whole file; null {digest.is_null_if}"
            yield _blob(digest.name, comment, length=digest.algorithm.digest_bytes, null=True)


def _crc64nvme_of_blocks() -> sa.Column[Any]:
    # The default lets a migration add the column to existing rows.
    return sa.Column(
        "crc64nvme",
        sa.LargeBinary,
        nullable=False,
        server_default=sa.text("x''"),
        comment="CRC-64/NVME of the blocks, 8 bytes each in order, as md5; empty: none taken",
    )


def _seal() -> sa.Column[Any]:
    # Triggers write it (row_seals.py). The default is for inserts, and for migrations that add the column.
    return sa.Column(
        "seal",
        sa.LargeBinary,
        sa.CheckConstraint("length(seal) = 16"),
        nullable=False,
        server_default=sa.text(f"x'{bytes(16).hex()}'"),
        comment="see row_seals.py",
    )


def _parity(*numbers: str) -> sa.Column[Any]:
    """
    Make the column that changes with each bit of some numbers; "?" at the end of a name: the column may be null.

    A bit flip changes the sum by a power of two, which 127 never divides.
    """
    terms = (f"coalesce({name[:-1]}, 0)" if name.endswith("?") else name for name in numbers)
    parity = sa.Computed(f"({' + '.join(terms)}) % 127", persisted=True)
    return sa.Column("parity", _INTEGER, parity, nullable=False, comment="of what is summed up or looked up (I5)")


meta = sa.Table(
    "meta",
    metadata,
    _text(
        "key",
        "uuid, created_at, next_file_id, seal_check, last_backup_at, days_run;"
        " import/..., report/..., space/..., disk/...",
    ),
    _text("value", "its value as text"),
    _seal(),
    sa.PrimaryKeyConstraint("key"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

root = sa.Table(
    "root",
    metadata,
    _id("id", "number of the root"),
    _blob("token", "random; goes into the seals, so that rows cannot change roots", length=16),
    _blob("path", "absolute real path"),
    _text("fs_id", "identity (R5): uuid of the file system and facts of its disk, or type:source; see same_place.py"),
    _int("folder_inode", "identity (R5): inode number of the folder, or that of its path; see same_place.py"),
    _text("fs_type", "type of the file system, for people"),
    _text("state", "RootState"),
    _text("state_reason", "why it is suspended or paused, for people", null=True),
    _int("created_at", "when it became a root"),
    _int("file_count", "number of its file rows (I2)"),
    _blob("seal_xor", "XOR of the seals of its file rows (I2)", length=16),
    _seal(),
    sa.UniqueConstraint("path"),
    sqlite_strict=True,
)

nested_mount = sa.Table(
    "nested_mount",
    metadata,
    _int("root_id", "the root, which crosses mounts", sa.ForeignKey("root.id")),
    _blob("path", "where something is mounted, relative to the root"),
    _text("identity", "identity (R5): that of its file system, and inode number of the folder that it shows"),
    _seal(),
    sa.PrimaryKeyConstraint("root_id", "path"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

configured_root = sa.Table(
    "configured_root",
    metadata,
    sa.Column(
        "root_id",
        _INTEGER,
        sa.ForeignKey("root.id"),
        primary_key=True,
        autoincrement=False,
        comment="a root that the service has seen in its configuration: taken out of there it is paused",
    ),
    _seal(),
    sqlite_strict=True,
)

boot = sa.Table(
    "boot",
    metadata,
    _id("id", "number of the boot or mount, in the order they were seen"),
    _text("uuid", "boot_id of the kernel"),
    _text("fs_id", "name of the file system that was mounted, as of a root; empty: the boot as a whole"),
    _text("mount", "which mount of it in this boot, see mount_state.py; empty: not known, or the boot as a whole"),
    _int("mount_count", "how often it had been mounted for writing by then; null: not known", null=True),
    _int("first_seen_at", "when a program of ours first ran in it"),
    _int("stopped_cleanly_at", "when its clean end was marked; null: it may have crashed", null=True),
    _seal(),
    sa.UniqueConstraint("uuid", "fs_id", "mount"),
    sqlite_strict=True,
)

folder = sa.Table(
    "folder",
    metadata,
    _id("id", "number of the folder"),
    _int("root_id", "its root", sa.ForeignKey("root.id")),
    _blob("path", "relative to the root; empty for the root's own"),
    _blob("fingerprint", "Listing.fingerprint of its recorded files; null: not taken since one changed", null=True),
    _parity("id", "root_id"),
    sa.UniqueConstraint("root_id", "path"),
    sqlite_strict=True,
)

file = sa.Table(
    "file",
    metadata,
    _id("id", "number of the file, never given twice (I3)"),
    _int("folder_id", "the folder that it lies in", sa.ForeignKey("folder.id")),
    _blob("name", "its name in the folder"),
    *_witness(),
    *_digests(),
    _int("block_size_bytes", "size of its blocks; null: it fits one block and has none", null=True),
    _int("version", "1 for the first baseline, one more each time it is replaced"),
    _int("recorded_at", "when the present baseline was taken"),
    _text("reason", "BaselineReason: why it was taken"),
    _int("verified_at", "when its content was last found equal to the baseline; null: never re-read", null=True),
    _text("read_how", "ReadHow of the last verification, or of the recording", null=True),
    _int(
        "boot_id", "newest boot or mount when it was last found intact or recorded", sa.ForeignKey("boot.id"), null=True
    ),
    _int("is_suspect", "1: ctime or inode moved since; scrubs read it early (R2)"),
    _int("is_frozen", "1: a finding on its content is open; the baseline stays (R6)"),
    _blob("seal", "see seal.py (I1)", length=16),
    *_digests(is_appended=True),
    sa.Column(
        "state_seal",
        sa.LargeBinary,
        sa.CheckConstraint("length(state_seal) = 16"),
        nullable=False,
        server_default=sa.text(f"x'{bytes(16).hex()}'"),
        comment="of what is no part of the baseline, see row_seals.py",
    ),
    _int("seen_inode", "of a suspect: its inode when it was last seen, unread; null: none, or unknown", null=True),
    _int("seen_ctime_ns", "of a suspect: the ctime of that", null=True),
    _parity("id", "folder_id", "size_bytes", "version", "recorded_at", "verified_at?", "is_suspect", "is_frozen"),
    sa.UniqueConstraint("folder_id", "name"),
    sqlite_strict=True,
)
sa.Index("file_inode", file.c.inode)  # finds renamed files
sa.Index("file_seen_inode", file.c.seen_inode, sqlite_where=file.c.seen_inode.is_not(None))

block_run = sa.Table(
    "block_run",
    metadata,
    # No foreign key: rows of old versions stay while history needs them, even if the file is gone.
    _int("file_id", "the file"),
    _int("version", "version of the baseline that they belong to; 0: the candidate's"),
    _int("run", "number of the first run that this row covers; run n begins at block 1024 * n"),
    _int("block_count", "blocks that this row covers: up to 1024, or any number if all have equal digests"),
    _blob("md5", "MD5 of the blocks, 16 bytes each in order; empty: none taken; one for all if they are equal"),
    _blob("xxh3_128", "XXH3-128 of the blocks, 16 bytes each in order; one for all if they are equal"),
    _blob("seal", "see seal.py", length=16),
    _crc64nvme_of_blocks(),
    sa.PrimaryKeyConstraint("file_id", "version", "run"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

run = sa.Table(
    "run",
    metadata,
    _id("id", "number of the run"),
    _int("root_id", "the root that it worked on", sa.ForeignKey("root.id")),
    _text("job", "Job"),
    _int("started_at", "when it began"),
    _int("finished_at", "when it ended; null: it works, or died", null=True),
    _text("outcome", "Outcome; null: it works, or died", null=True),
    _int("boot_id", "boot in which it ran", sa.ForeignKey("boot.id")),
    _int("pid", "process that ran it"),
    _int("verified", "names found intact"),
    _int("new", "names recorded for the first time"),
    _int("changed", "names whose baseline was replaced"),
    _int("damaged", "names with an open content finding"),
    _int("missing", "names that are gone"),
    _int("unreadable", "names that could not be read"),
    _int("unstable", "names that kept changing while they were read"),
    _int("skipped", "names that were left out, with a reason"),
    _int("not_due", "names that were not looked into"),
    _int("moved", "of which: recognised under another name"),
    _int("bytes_read", "bytes read from files"),
    _int("findings_opened", "findings that it opened"),
    _int("findings_open", "findings open at its end"),
    sa.Column("duration_s", sa.REAL, nullable=True, comment="how long it worked, by the monotonic clock"),
    _text("error", "why it failed, for people", null=True),
    _text("copy", "name of the copy that was compared; null for other jobs", null=True),
    _int("last_file_id", "highest number of a file when it ended; null: it works, or died", null=True),
    _seal(),
    _parity(
        "id",
        "root_id",
        "started_at",
        "finished_at?",
        "boot_id",
        "pid",
        "verified",
        "new",
        "changed",
        "damaged",
        "missing",
        "unreadable",
        "unstable",
        "skipped",
        "not_due",
        "moved",
        "bytes_read",
        "findings_opened",
        "findings_open",
        "last_file_id?",
    ),
    sqlite_strict=True,
)
sa.Index("run_root", run.c.root_id)

candidate = sa.Table(
    "candidate",
    metadata,
    sa.Column("file_id", _INTEGER, sa.ForeignKey("file.id"), primary_key=True, autoincrement=False, comment="the file"),
    _text("kind", "change: newer content; removal: the name is gone; times: the recorded content under another time"),
    *_witness(null=True),
    *_digests(),
    _int("block_size_bytes", "size of its blocks; null: none", null=True),
    _int("version", "version that its block runs are stored under"),
    _text("verdict", "what judging said of it"),
    _text("because", "BaselineReason with which it may become the baseline, if judging gave one", null=True),
    _text("read_how", "ReadHow of the reading; null for removals, and for times that are not taken over", null=True),
    _int("seen_at", "start of the run that saw it"),
    _int("run_id", "run that saw it", sa.ForeignKey("run.id")),
    _text("state", "staged: its run decides; frozen: waits for a finding; held: waits for a person"),
    _blob("seal", "see seal.py", length=16),
    *_digests(is_appended=True),
    _parity("file_id", "size_bytes?", "mtime_ns?", "ctime_ns?", "inode?", "version", "seen_at", "run_id"),
    sqlite_strict=True,
)
sa.Index("candidate_run", candidate.c.run_id)

history = sa.Table(
    "history",
    metadata,
    _id("id", "number of the entry"),
    _int("root_id", "the root", sa.ForeignKey("root.id")),
    _int("file_id", "the file; it may be gone", null=True),
    _blob("path", "its path; follows the file when it is moved"),
    _int("size_bytes", "size of the old content"),
    _int("mtime_ns", "mtime of the old content"),
    *_digests(),
    _int("version", "version of the old baseline"),
    _int("recorded_at", "when the old baseline had been taken"),
    _text("reason", "BaselineReason: why it had been taken"),
    _int("replaced_at", "when it was replaced or removed"),
    _text("replaced_because", "BaselineReason: why it was replaced or removed"),
    _text("note", "what a person said", null=True),
    *_digests(is_appended=True),
    _int("block_size_bytes", "size of its blocks; null: it fitted one block, or they are not kept", null=True),
    _int("is_racy", "is_racy of the old baseline; null: older than this column", null=True),
    _int("ctime_ns", "ctime of the old content; null: older than this column", null=True),
    _int("inode", "inode that had it; null: older than this column", null=True),
    _seal(),
    _parity("id", "root_id", "file_id?", "size_bytes", "mtime_ns", "version", "recorded_at", "replaced_at", "inode?"),
    sqlite_strict=True,
)
sa.Index("history_inode", history.c.inode, sqlite_where=history.c.inode.is_not(None))
sa.Index("history_path", history.c.root_id, history.c.path)
sa.Index("history_file", history.c.file_id)
sa.Index("history_replaced", history.c.root_id, history.c.replaced_at)
sa.Index(
    "history_deleted",
    history.c.root_id,
    history.c.size_bytes,
    history.c.md5,
    sqlite_where=history.c.replaced_because == sa.literal_column("'deleted'"),
)
sa.Index(
    "history_deleted_time",
    history.c.root_id,
    history.c.size_bytes,
    history.c.mtime_ns,
    sqlite_where=history.c.replaced_because == sa.literal_column("'deleted'"),
)

finding = sa.Table(
    "finding",
    metadata,
    _id("id", "number of the finding, never given twice: people write it down"),
    _int("root_id", "the root", sa.ForeignKey("root.id")),
    _int("file_id", "the file; it may be gone", null=True),
    _blob("path", "relative to the root; empty when it is about the root"),
    _text("kind", "FindingKind"),
    _text("certainty", "Certainty", null=True),
    _text("state", "FindingState"),
    _int("opened_at", "when it was opened"),
    _int("updated_at", "when anything of it last changed"),
    _int("resolved_at", "when it was resolved", null=True),
    _text("resolution", "why it was resolved, for people", null=True),
    _int("muted_until", "no reminders until then", null=True),
    _text("blocks", "damaged blocks, JSON list of numbers"),
    _int("block_size_bytes", "size of these blocks", null=True),
    _text("ranges", "damaged bytes, JSON list of [offset, length]"),
    _int("confirmed_reads", "re-reads that agreed (R3)"),
    _text("message", "what it says, for people"),
    _int("run_id", "run that last said so", sa.ForeignKey("run.id"), null=True),
    sa.Column(
        "copy",
        sa.Text,
        nullable=False,
        server_default=sa.text("''"),
        comment="name of the copy that it is about; empty: the file itself, or the root",
    ),
    _text("step", "what to do next, for people; null: as for all of its kind", null=True),
    _text("command", "what does that; null: as for all of its kind, or nothing", null=True),
    _int("opened_by", "run that opened it; null: none did, or it is older than this column", null=True),
    _int("incident", "finding about another name of the same file that this one belongs to; null: itself", null=True),
    _seal(),
    sqlite_strict=True,
    sqlite_autoincrement=True,
)
sa.Index(
    "finding_unresolved",
    finding.c.root_id,
    finding.c.kind,
    finding.c.path,
    finding.c.copy,
    unique=True,
    sqlite_where=finding.c.state != sa.literal_column("'resolved'"),
)
sa.Index("finding_file", finding.c.file_id)
sa.Index("finding_incident", finding.c.incident, sqlite_where=finding.c.state != sa.literal_column("'resolved'"))

checkpoint = sa.Table(
    "checkpoint",
    metadata,
    _id("id", "number of the checkpoint"),
    _int("root_id", "the root", sa.ForeignKey("root.id")),
    _blob("path", "the file that was being read"),
    _text("purpose", "record or verify"),
    *_witness(),
    _int("offset_bytes", "everything before it is done"),
    _blob("md5_state", "exported state of the MD5 up to the offset; null when verifying", null=True),
    _text("bad_blocks", "blocks that did not match so far, JSON list of numbers"),
    _int("block_size_bytes", "size of its blocks"),
    _int("saved_at", "when it was saved"),
    _blob("seal", "see seal.py", length=16),
    sa.UniqueConstraint("root_id", "path", "purpose"),
    sqlite_strict=True,
)

checkpoint_run = sa.Table(
    "checkpoint_run",
    metadata,
    _int("checkpoint_id", "the checkpoint", sa.ForeignKey("checkpoint.id")),
    _int("run", "as in block_run"),
    _int("block_count", "as in block_run"),
    _blob("md5", "as in block_run"),
    _blob("xxh3_128", "as in block_run"),
    _blob("seal", "as in block_run", length=16),
    _crc64nvme_of_blocks(),
    sa.PrimaryKeyConstraint("checkpoint_id", "run"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

schedule_run = sa.Table(
    "schedule_run",
    metadata,
    _id("id", "number of the entry"),
    _text("schedule", "which schedule: scan, scrub, compare, ..."),
    _int("root_id", "the root that it was for; null: for all. It may be gone", null=True),
    _int("due_at", "when it should have begun; null: asked for, not scheduled", null=True),
    _int("started_at", "when it began"),
    _int("finished_at", "when it ended; null: it works, or died", null=True),
    _text("outcome", "how it ended; null: it works, or died", null=True),
    _seal(),
    _parity("id", "root_id?", "due_at?", "started_at", "finished_at?"),
    sqlite_strict=True,
)
sa.Index("schedule_run_last", schedule_run.c.schedule, schedule_run.c.root_id, schedule_run.c.started_at)

alert = sa.Table(
    "alert",
    metadata,
    _id("id", "number of the message"),
    _text("kind", "AlertKind"),
    _text("message_id", "Message-ID of its mails: the same however often it is sent"),
    _text("subject", "one line for people"),
    _text("body", "the message as plain text"),
    _text("html", "the message as HTML"),
    _text("facts", "the message for programs, JSON"),
    _text("incidents", "numbers of the findings that it is about, with blanks between them"),
    _int("created_at", "when it was written; the Date of its mails"),
    _seal(),
    _parity("id", "created_at"),
    sa.UniqueConstraint("message_id"),
    sqlite_strict=True,
)

delivery = sa.Table(
    "delivery",
    metadata,
    _int("alert_id", "the message", sa.ForeignKey("alert.id")),
    _text("channel", "name of the channel that it shall go through"),
    _int("attempts", "how often sending it failed"),
    _int("next_try_at", "not to be tried before"),
    _int("sent_at", "when the channel took it; null: not yet", null=True),
    _text("last_error", "why the last attempt failed, for people", null=True),
    _seal(),
    _parity("alert_id", "attempts", "next_try_at", "sent_at?"),
    sa.PrimaryKeyConstraint("alert_id", "channel"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

told = sa.Table(
    "told",
    metadata,
    # No foreign key: removing a root deletes its findings before the notification of their end.
    sa.Column("finding_id", _INTEGER, primary_key=True, autoincrement=False, comment="the incident that was told"),
    _text("certainty", "its certainty as told", null=True),
    _text("blocks", "its blocks as told"),
    _text("ranges", "its ranges as told"),
    _int("first_told_at", "when it was told first"),
    _int("swallowed_by", "device_failing finding that was told in its place; null: told itself", null=True),
    _seal(),
    sqlite_strict=True,
)

channel = sa.Table(
    "channel",
    metadata,
    _text("name", "name of the channel"),
    _int("first_seen_at", "when it was first configured"),
    _int("good_at", "when it last worked; null: never", null=True),
    _int("failing_since", "first failure since it last worked; null: it works", null=True),
    _int("failed_at", "last failure; null: it works", null=True),
    _int("is_permanent", "1: the failure will not pass by itself"),
    _text("last_error", "why it failed last, for people; null: it works", null=True),
    _int("told_at", "when the failure was told through others; null: not yet", null=True),
    _seal(),
    sa.PrimaryKeyConstraint("name"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

copy = sa.Table(
    "copy",
    metadata,
    _id("id", "number of the copy"),
    _int("root_id", "the root of which it holds files", sa.ForeignKey("root.id")),
    _blob("prefix", "the folder in the root that its top stands for; empty for the root's own"),
    _text("name", "its name in the configuration, or its URL without secrets"),
    _text("url", "where it is, without secrets"),
    _text("identity", "the disk and folder of a mounted one, as of a root; null: none, or not seen yet", null=True),
    _int("has_bytes", "0: it has digests only, so nothing can be repaired from it"),
    _int("created_at", "when it was first compared"),
    _int("listed_at", "when it was last listed as a whole; null: never", null=True),
    _text("disk", "which of several disks that take turns at one place, as people read it; null: the first", null=True),
    _seal(),
    sa.UniqueConstraint("root_id", "prefix", "name"),
    sqlite_strict=True,
)

copy_file = sa.Table(
    "copy_file",
    metadata,
    _int("copy_id", "the copy", sa.ForeignKey("copy.id")),
    _int("file_id", "the file; it may be gone"),
    _int("version", "version of the baseline that the copy was held against"),
    _text("vote", "CopyVote: what the copy said"),
    _int("compared_at", "when"),
    _int("read_at", "when its bytes were last read; null: never, or less than that told otherwise since", null=True),
    _blob(
        "stated",
        "XXH3-128 of what the copy stated when reading the file proved it right; else null",
        length=16,
        null=True,
    ),
    _int("found_version", "version of the baseline that the copy had when this file of it was first read", null=True),
    _blob("found_digest", "XXH3-128 of what it had, if that was no recorded version", length=16, null=True),
    _int("found_size_bytes", "the size of that; null: it was a recorded version", null=True),
    _int("found_at", "when; null: never", null=True),
    _int("found_mtime_ns", "the time that the copy had then; null: it keeps none, or older than 0011", null=True),
    _int("found_ctime_ns", "its ctime; null: the copy's file system has none to be trusted", null=True),
    _int("found_inode", "its inode; null: the copy's file system numbers files anew", null=True),
    _blob("found_as", "path in the root under whose name the copy had it; null: under its own", null=True),
    _seal(),
    _parity("copy_id", "file_id", "version", "compared_at", "read_at?"),
    sa.PrimaryKeyConstraint("copy_id", "file_id"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

copy_reading = sa.Table(
    "copy_reading",
    metadata,
    _int("copy_id", "the copy", sa.ForeignKey("copy.id")),
    _int("file_id", "the file whose copy was being read; it may be gone"),
    _int("version", "version of the baseline that it was held against"),
    *_witness(),
    _int("offset_bytes", "everything before it is done"),
    _text("bad_blocks", "blocks that did not match so far, JSON list of numbers"),
    _blob("seal", "see seal.py", length=16),
    sa.PrimaryKeyConstraint("copy_id", "file_id"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

gate = sa.Table(
    "gate",
    metadata,
    _int("root_id", "the root", sa.ForeignKey("root.id")),
    _blob("prefix", "the part of the root that was asked for; empty for all of it"),
    _int("passed_at", "when it was last let through, or its state taken as seen"),
    _int("last_history_id", "the last entry of history then: what came after it is looked at"),
    _int("last_file_id", "the last number given to a file then"),
    _seal(),
    sa.PrimaryKeyConstraint("root_id", "prefix"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

action = sa.Table(
    "action",
    metadata,
    _id("id", "number of the action; rises"),
    _int("at", "when it was done"),
    _text("who", "name of the user who asked for it, for people"),
    _text("address", 'where the request came from: an IP address, or "command line"'),
    _text("verb", "ActionVerb"),
    # No foreign key: the action outlives the root, which may be forgotten.
    _blob("root", "absolute path of the root then; null: it concerned no root", null=True),
    _blob("path", "file or folder, relative to the root; null: the whole root, or none", null=True),
    _text("findings", "findings it concerned, JSON list of numbers"),
    _text("reason", "reason that the user gave; empty: none"),
    _text("outcome", "what was done, for people"),
    _seal(),
    _parity("id", "at"),
    sqlite_strict=True,
)

report_state = sa.Table(
    "report_state",
    metadata,
    sa.Column(
        "id", _INTEGER, primary_key=True, autoincrement=False, comment="1; while it is there, changes are queued"
    ),
    _text("url", "the hub that the box reports to"),
    _blob("stream", "number of the stream of messages, random", length=16),
    _int("started_at", "when the stream began"),
    _int("confirmed", "number of the last message that the hub has stored; 0: none"),
    _blob("chain", "chain up to that message (reporting/protocol.py)", length=16),
    _int("complete_at", "when the hub last had everything; null: never", null=True),
    _int("failing_since", "first failure since a report was last complete; null: none", null=True),
    _text("last_error", "why reporting fails, for people; null: it works", null=True),
    _seal(),
    _parity("id", "started_at", "confirmed", "complete_at?", "failing_since?"),
    sqlite_strict=True,
)

report_change = sa.Table(
    "report_change",
    metadata,
    _id("id", "place in the queue"),
    _text("kind", "finding | run | action | state: what is to be reported as it is when the message is written"),
    _int("item_id", "number of the finding, run, or action, which may be gone; 0: none"),
    _seal(),
    _parity("id", "item_id"),
    sa.UniqueConstraint("kind", "item_id"),
    sqlite_strict=True,
)

report_message = sa.Table(
    "report_message",
    metadata,
    sa.Column("number", _INTEGER, primary_key=True, autoincrement=False, comment="number in the stream"),
    _int("at", "when what it reports happened"),
    _text("kind", "as in report_change"),
    _int("item_id", "as in report_change"),
    _text("body", "as it is sent, however often: JSON"),
    _seal(),
    _parity("number", "at", "item_id"),
    sqlite_strict=True,
)

report_folder = sa.Table(
    "report_folder",
    metadata,
    sa.Column(
        "folder_id", _INTEGER, sa.ForeignKey("folder.id"), primary_key=True, autoincrement=False, comment="the folder"
    ),
    _blob("own", "digest of its files (reporting/digest_tree.py); null: being computed", length=16, null=True),
    _blob("content", "the same of their contents; null: being computed", length=16, null=True),
    _seal(),
    _parity("folder_id"),
    sqlite_strict=True,
)

alembic_version = sa.Table(
    "alembic_version",
    sa.MetaData(),  # belongs to Alembic: compared and created separately
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
