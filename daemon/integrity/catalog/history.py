"""
History: former baselines, with the reason why each was replaced or removed (R6); and the sources of imports.

During a run, a name can be reused before its old file is found under a new name with the same inode. That file is then
compared with the history of the inode.

Each import that recorded files has one row in ``meta``, instead of a column for each file: key
``import/ROOT_ID/FIRST_FILE_ID``, value the manifest's name. File ids rise and are never reused (I2 of ``schema.sql``),
and one job at a time works on a root. So an imported file belongs to the last import of its root that began at or
before its id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from integrity.catalog.days_run import is_outdated
from integrity.catalog.db import Connection, numbers
from integrity.catalog.gate_passes import follow_history
from integrity.catalog.rows import FileContent, FileRecord, read_word
from integrity.model import BaselineReason, Digests, FileId, RootId, Witness
from integrity.same_time import GRAINS_NS, is_same_time

KEEP_DELETED_DAYS = 90
"""How long deleted files are kept, to detect moves and restores (R2)."""

_DISCARDED = (BaselineReason.ACCEPTED, BaselineReason.FORGOTTEN)
_RECORDS = """
    SELECT
        id, root_id, file_id, path, size_bytes, mtime_ns, md5, xxh3_128, blake3, crc64nvme, version, recorded_at,
        reason, replaced_at, replaced_because, note, block_size_bytes, is_racy, ctime_ns, inode
    FROM history"""
# Sorted by "+replaced_at", so that SQLite takes the index of deleted files, not the one that sorts a root's history.
_DELETED = f"""{_RECORDS}
    WHERE root_id = ? AND size_bytes = ? AND replaced_because = 'deleted'
    AND NOT EXISTS (SELECT 1 FROM file WHERE file.id = history.file_id)"""  # noqa: S608 - ours


@dataclass(frozen=True, slots=True)
class HistoryRecord:
    """A former baseline."""

    id: int
    root_id: RootId
    file_id: FileId | None
    path: bytes
    size_bytes: int
    mtime_ns: int
    digests: Digests
    version: int
    recorded_at: int
    reason: BaselineReason  # why it had been taken
    replaced_at: int
    because: BaselineReason  # why it was replaced
    note: str | None
    block_size_bytes: int | None  # None: it fitted one block, or they are not kept
    is_racy: bool
    ctime_ns: int | None  # None: older than version 0004 of the catalog
    inode: int | None  # None: the same

    @classmethod
    def make(cls, *row: Any) -> HistoryRecord:
        """Make a record from the columns of ``_RECORDS``."""
        history_id, root_id, file_id, path, size_bytes, mtime_ns, md5, xxh3_128, blake3, crc64nvme, *rest = row
        version, recorded_at, reason, replaced_at, because, note, block_size_bytes, is_racy, ctime_ns, inode = rest
        return cls(
            *(history_id, root_id, file_id, path, size_bytes, mtime_ns),
            Digests(md5, xxh3_128, blake3, crc64nvme),
            *(version, recorded_at, read_word(BaselineReason, reason)),
            *(replaced_at, read_word(BaselineReason, because), note),
            *(block_size_bytes, bool(is_racy), ctime_ns, inode),
        )

    @property
    def witness(self) -> Witness:
        """Return the witness of the former content; 0 for fields that were not stored."""
        return Witness(self.size_bytes, self.mtime_ns, self.ctime_ns or 0, self.inode or 0, self.is_racy)


def add_history(
    c: Connection, records: Iterable[FileRecord], *, because: BaselineReason, now: int, note: str | None = None
) -> None:
    """Record baselines before they are replaced or removed."""
    query = """
        INSERT INTO history (
            root_id, file_id, path, size_bytes, mtime_ns, ctime_ns, inode, is_racy, md5, xxh3_128, blake3, crc64nvme,
            block_size_bytes, version, recorded_at, reason, replaced_at, replaced_because, note
        ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """
    end = now, because, note
    rows = (
        (
            *(one.root_id, one.id, one.path, *one.witness, *one.digests),
            *(one.block_size_bytes, one.version, one.recorded_at, one.reason, *end),
        )
        for one in records
    )
    c.run_many(query, rows)


def history_of(c: Connection, root_id: RootId, key: bytes | FileId) -> list[HistoryRecord]:
    """Return the former baselines of a path or of a file id, newest first."""
    condition = "path = ?" if isinstance(key, bytes) else "file_id = ?"
    return c.all(HistoryRecord.make, f"{_RECORDS} WHERE root_id = ? AND {condition} ORDER BY id DESC", root_id, key)


def find_deleted(c: Connection, root_id: RootId, size_bytes: int, md5: bytes) -> list[HistoryRecord]:
    """Return the deleted files with this content, last deleted first, without those that were recorded again."""
    query = f"{_DELETED} AND md5 = ? ORDER BY +replaced_at DESC, id DESC"
    return c.all(HistoryRecord.make, query, root_id, size_bytes, md5)


def find_deleted_of_time(c: Connection, root_id: RootId, seen: Witness) -> list[HistoryRecord]:
    """Return the deleted files with a witness's size and time, like ``find_deleted``."""
    query = f"{_DELETED} AND mtime_ns BETWEEN ? AND ? ORDER BY +replaced_at DESC, id DESC"
    found = c.all(HistoryRecord.make, query, root_id, seen.size_bytes, *_around(seen.mtime_ns))
    return [one for one in found if is_same_time(one.mtime_ns, seen.mtime_ns)]


def _around(mtime_ns: int) -> tuple[int, int]:
    """Return the first and the last time that may be the same as this one."""
    return mtime_ns - GRAINS_NS[0], mtime_ns + GRAINS_NS[0]


def find_former_of_inode(c: Connection, root_id: RootId, seen: Witness) -> HistoryRecord | None:
    """Return the newest former baseline with a witness's inode, size, and time; None if a user discarded it."""
    query = f"""{_RECORDS}
        WHERE root_id = ? AND inode = ? AND size_bytes = ? AND mtime_ns BETWEEN ? AND ? ORDER BY id DESC
        """
    found = c.all(HistoryRecord.make, query, root_id, seen.inode, seen.size_bytes, *_around(seen.mtime_ns))
    last = next((one for one in found if is_same_time(one.mtime_ns, seen.mtime_ns)), None)
    return None if last is None or last.because in _DISCARDED else last


class FormerFile(NamedTuple):
    """A file that had some content before and may be gone. ``path``: the last one that is known."""

    file_id: FileId | None
    path: bytes
    recorded_at: int
    ctime_ns: int | None
    was_damage: bool  # it inherited the damage of another file before that damage was known


def find_by_former_content(c: Connection, root_id: RootId, contents: Sequence[FileContent]) -> list[set[FormerFile]]:
    """
    Return, for each content, the files of a root that had it before, including deleted ones.

    History keeps no blocks of most files: content without whole-file digests is matched by size alone, so a file
    returned for it may have had different content.
    """
    query = """
        SELECT size_bytes, md5, xxh3_128, file_id, path, recorded_at, ctime_ns, replaced_because = 'inherited'
        FROM history
        WHERE root_id = ? AND size_bytes IN (SELECT value FROM json_each(?))
        """
    by_size: dict[int, set[FormerFile]] = {}
    by_digest: dict[tuple[int, bytes], set[FormerFile]] = {}
    sizes = numbers({content.size_bytes for content in contents})
    for size_bytes, md5, xxh3_128, file_id, path, recorded_at, ctime_ns, was_damage in c.rows(query, root_id, sizes):
        one = FormerFile(file_id, path, recorded_at, ctime_ns, bool(was_damage))
        by_size.setdefault(size_bytes, set()).add(one)
        for digest in filter(None, (md5, xxh3_128)):
            by_digest.setdefault((size_bytes, digest), set()).add(one)
    found: list[set[FormerFile]] = []
    for content in contents:
        size_bytes = content.size_bytes
        same = [by_digest.get((size_bytes, digest), set()) for digest in content.whole_digests]
        found.append(set().union(*same or [by_size.get(size_bytes, set())]))
    return found


def has_history(c: Connection, root_id: RootId) -> bool:
    """Return whether a root has any history."""
    return bool(c.value("SELECT EXISTS (SELECT 1 FROM history WHERE root_id = ?)", root_id))


def adopt_history(c: Connection, from_id: FileId, to_id: FileId) -> None:
    """Assign the history of a deleted file to another file, which has, or should have, its content (R2)."""
    # Versions of another file: they have no blocks under this id.
    c.run("UPDATE history SET file_id = ?, block_size_bytes = NULL WHERE file_id = ?", to_id, from_id)
    c.run("DELETE FROM block_run WHERE file_id = ?", from_id)


def drop_former_runs(c: Connection, record: FileRecord) -> None:
    """Delete the blocks of a file's earlier baselines, except of those without whole-file digests."""
    query = """
        DELETE FROM block_run WHERE file_id = ?1 AND version < ?2 AND version IN (
            SELECT version FROM history WHERE file_id = ?1 AND (md5 IS NOT NULL OR xxh3_128 IS NOT NULL)
        )
        """
    c.run(query, record.id, record.version)


def count_replaced(c: Connection, root_id: RootId, since: int, until: int) -> tuple[int, int]:
    """
    Return how many files were replaced and how many removed between two times.

    A file counts once, and not at all if its candidate waits for a decision, because it is counted there. Changes that
    a user approved do not count: they must not make the next normal change look like part of a mass change.
    """
    query = """
        SELECT count(*) FILTER (WHERE NOT is_removed), count(*) FILTER (WHERE is_removed)
        FROM (
            SELECT max(replaced_because = 'deleted') AS is_removed FROM history
            WHERE root_id = ? AND replaced_at BETWEEN ? AND ? AND replaced_because IN (
                'edited', 'rolled_back', 'grown', 'rotated', 'rewritten_in_place', 'deleted'
            ) AND NOT EXISTS (
                SELECT 1 FROM candidate
                WHERE candidate.file_id = history.file_id AND kind != 'times' AND state IN ('staged', 'held')
            )
            GROUP BY coalesce(file_id, -id)
        )
        """
    row = c.row(query, root_id, since, until)
    assert row is not None
    return row[0], row[1]


def find_outdated(c: Connection, now: int) -> list[FileId]:
    """Return the files that were deleted longer ago than ``KEEP_DELETED_DAYS``. Call it in a transaction."""
    query = f"""
        SELECT file_id FROM history
        WHERE replaced_because = 'deleted' AND file_id IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM file WHERE file.id = history.file_id)
        AND {is_outdated(c, "replaced_at", KEEP_DELETED_DAYS, now)}
        """  # noqa: S608 - ours
    return c.column(query)


def forget_deleted(c: Connection, ids: Iterable[FileId]) -> None:
    """Delete all history and blocks of deleted files."""
    these = numbers(ids)
    c.run("DELETE FROM block_run WHERE file_id IN (SELECT value FROM json_each(?))", these)
    c.run("DELETE FROM history WHERE file_id IN (SELECT value FROM json_each(?))", these)
    follow_history(c)


def keep_import(c: Connection, root_id: RootId, first_id: FileId, manifest: str) -> None:
    """
    Record the manifest of an import.

    Args:
        c: in the transaction that records the first file of the import.
        first_id: id of that file.
        manifest: its name, for people.
    """
    c.run("INSERT INTO meta (key, value) VALUES (?, ?)", f"import/{root_id}/{first_id}", manifest)


def find_import(c: Connection, root_id: RootId, file_id: FileId) -> str | None:
    """Return the manifest that an imported file came from; None if unknown. Call it for imported files only."""
    query = """
        SELECT value FROM meta
        WHERE key > ?1 AND key < ?2 AND CAST(substr(key, length(?1) + 1) AS INTEGER) <= ?3
        ORDER BY CAST(substr(key, length(?1) + 1) AS INTEGER) DESC LIMIT 1
        """
    manifest: str | None = c.value(query, f"import/{root_id}/", f"import/{root_id}0", file_id)  # "0" follows "/"
    return manifest
