"""
Versions of files that are not the baseline: what was seen last and waits for a decision (R5, R6), and what was before.

    staged   seen by a run that decides at its end
    frozen   waits for the end of a finding on the file
    held     waits for a person: too much changed at once
    former   was the baseline, or is known as right or wrong; kept with the reason

A version that is not former is the file's *candidate*: newer content, or its removal. Blocks belong to a file and the
number of a version, so that a candidate which becomes the baseline keeps them where they are. What was deleted stays
former for a while, to recognize moves and restores (R2). During a run, a name can be reused before its old file is
found under a new name with the same inode: that file is then compared with the former versions of the inode.

A file whose time moved while its content stayed has a candidate as well (``staged_times``), which no other module sees.

I1  A file has at most one candidate, the last one seen; its number is one more than that of the baseline.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import starmap
from typing import Any, NamedTuple

from integrity.catalog.blocks import load_blocks, save_runs
from integrity.catalog.db import Connection, Value, numbers
from integrity.catalog.rows import (
    FileContent,
    FileRecord,
    below,
    is_outdated,
    read_optional_word,
    read_word,
    require_current,
    unless_ahead,
)
from integrity.hashing.digests import have_equal_digests
from integrity.model import BaselineReason, Digests, FileId, ReadHow, Reading, RootId, RunId, Witness
from integrity.same_time import DOUBLE_NS, GRAINS_NS, is_same_time
from integrity.verdict import Verdict

KEEP_DELETED_DAYS = 90  # how long deleted files are kept, to detect moves and restores (R2)

IS_CANDIDATE = "version.state <> 'former'"
"""Spelled as in the indexes, which SQLite uses for a statement that says the same."""

SAME_CONTENT = "intact"  # verdict on a candidate that has the recorded content under another time
_GONE = "gone"
_DAMAGE = (Verdict.ROT.value, Verdict.SILENT_REWRITE.value)
_DISCARDED = (BaselineReason.ACCEPTED, BaselineReason.FORGOTTEN)

_VERSIONS = """
    SELECT
        version.id, version.root_id, version.file_id, version.path, version.number, version.state,
        version.size_bytes, version.mtime_ns, version.ctime_ns, version.inode, version.is_racy,
        version.md5, version.xxh3_128, version.blake3, version.crc64nvme,
        version.block_size_bytes, version.recorded_at, version.reason, version.read_how,
        version.verdict, version.run_id, run.boot_id, version.replaced_at, version.replaced_because, version.note
    FROM version LEFT JOIN run ON run.id = version.run_id"""
_FORMER = f"{_VERSIONS} WHERE version.state = 'former'"
_CANDIDATES = f"{_VERSIONS} WHERE {IS_CANDIDATE} AND version.verdict <> '{SAME_CONTENT}'"
IS_NEAR = f"""version.mtime_ns BETWEEN ?3 - {GRAINS_NS[0]} AND ?3 + {GRAINS_NS[0]} AND (
        abs(version.mtime_ns - ?3) < {DOUBLE_NS} OR version.mtime_ns % {GRAINS_NS[-1]} = 0 OR ?3 % {GRAINS_NS[-1]} = 0
    )"""
"""May be the same time as ?3. Decided by SQLite, because thousands of files of one size may be of the same minute."""


class VersionState(StrEnum):
    """What the version waits for, if for anything."""

    STAGED = "staged"
    FROZEN = "frozen"
    HELD = "held"
    FORMER = "former"


class FileVersion(NamedTuple):
    """
    One version of a file.

    The witness of a removal is all 0, and so is what an older catalog did not keep of the witness of a former version.
    """

    id: int
    root_id: RootId
    file_id: FileId
    path: bytes  # of a former one: the last known one of its file
    number: int
    state: VersionState
    witness: Witness
    digests: Digests
    block_size_bytes: int | None  # None: it fits one block, its blocks are not kept, or it is a removal
    recorded_at: int  # of a candidate: start of the run that saw it
    reason: BaselineReason | None  # why it was taken; of a candidate: with which it may be, if its verdict gave one
    read_how: ReadHow | None
    verdict: str  # on a candidate
    run_id: RunId | None  # that saw the candidate
    boot_id: int | None  # in which the candidate was seen
    replaced_at: int
    replaced_because: BaselineReason | None
    note: str | None  # what a person said

    @classmethod
    def make(cls, *row: Any) -> FileVersion:
        """Make a version from the columns of ``_VERSIONS``."""
        version_id, root_id, file_id, path, number, state, *rest = row
        size_bytes, mtime_ns, ctime_ns, inode, is_racy, md5, xxh3_128, blake3, crc64nvme, *rest = rest
        block_size_bytes, recorded_at, reason, read_how, verdict, run_id, boot_id, *rest = rest
        replaced_at, because, note = rest
        return cls(
            *(version_id, root_id, file_id, path, number, read_word(VersionState, state)),
            Witness(size_bytes or 0, mtime_ns or 0, ctime_ns or 0, inode or 0, bool(is_racy)),
            Digests(md5, xxh3_128, blake3, crc64nvme),
            *(block_size_bytes, recorded_at, read_optional_word(BaselineReason, reason)),
            read_optional_word(ReadHow, read_how),
            verdict or "",
            *(run_id, boot_id),
            replaced_at or 0,
            read_optional_word(BaselineReason, because),
            note,
        )

    @property
    def is_gone(self) -> bool:
        """Return whether this is the removal of the file."""
        return self.verdict == _GONE

    @property
    def is_damage(self) -> bool:
        """Return whether this content is the damage that a finding reports, and not a later write."""
        return self.verdict in _DAMAGE

    def holds(self, reading: Reading) -> bool:
        """Return whether a reading has this content, according to size and whole-file digests."""
        if self.is_gone or self.witness.size_bytes != reading.witness.size_bytes:
            return False
        return have_equal_digests(self.digests, reading.digests)


# Candidates


def stage_change(
    c: Connection,
    record: FileRecord,
    reading: Reading,
    verdict: str,
    run_id: RunId,
    state: VersionState,
    reason: BaselineReason | None = None,
) -> None:
    """
    Store a reading as the candidate of a file, replacing an older candidate.

    Args:
        record: the record that the reading was compared with; RecordSuperseded if it was replaced since.
        reason: with which it may become the baseline, if the verdict gave one.
    """
    content = *reading.witness, *reading.digests, reading.block_size_bytes
    number = _stage(c, record, content, verdict, reason, reading.how, run_id, state)
    if reading.blocks is not None:
        save_runs(c, record.id, number, reading.blocks)


def stage_removal(c: Connection, record: FileRecord, run_id: RunId) -> None:
    """Stage the removal of a file in place of a candidate, or raise RecordSuperseded; its run decides at its end."""
    _stage(c, record, (None,) * 10, _GONE, None, None, run_id, VersionState.STAGED)


def _stage(c: Connection, record: FileRecord, content: Sequence[Value], *values: Value) -> int:
    """Store a candidate, and return its number."""
    require_current(c, record)
    discard(c, [record.id])
    number = (record.stored or record).version + 1
    query = """
        INSERT INTO version (
            root_id, file_id, path, number, size_bytes, mtime_ns, ctime_ns, inode, is_racy,
            md5, xxh3_128, blake3, crc64nvme, block_size_bytes, verdict, reason, read_how, run_id, state, recorded_at
        ) SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, id, ?19, started_at FROM run WHERE id = ?18"""
    c.run(query, record.root_id, record.id, record.path, number, *content, *values)
    return number


def get_candidate(c: Connection, file_id: FileId) -> FileVersion | None:
    """Return the candidate of a file; None if it has none."""
    return c.one(FileVersion.make, f"{_CANDIDATES} AND version.file_id = ?", file_id)


def get_candidates(c: Connection, ids: Iterable[FileId]) -> dict[FileId, FileVersion]:
    """Return the candidates of files by file id; files without one are left out."""
    query = f"{_CANDIDATES} AND version.file_id IN (SELECT value FROM json_each(?))"
    return {one.file_id: one for one in c.all(FileVersion.make, query, numbers(ids))}


def find_candidates(
    c: Connection, root_id: RootId, state: VersionState, prefix: bytes = b"", *, after: int = 0, limit: int = -1
) -> Iterator[FileVersion]:
    """Yield a root's candidates in a state, of files at or below ``prefix``, by file id, ``after`` one."""
    part, values = below("version.path", prefix)
    query = f"""{_CANDIDATES}
        AND +version.root_id = ? AND version.state = ? AND version.file_id > ? AND {part}
        ORDER BY version.file_id LIMIT ?"""
    return starmap(FileVersion.make, c.rows(query, root_id, state, after, *values, limit))


def find_in_question(c: Connection) -> list[FileVersion]:
    """Return the changed contents in all roots that an open finding freezes."""
    query = f"""{_CANDIDATES} AND version.state = 'frozen' AND version.verdict <> '{_GONE}'
        AND EXISTS (SELECT 1 FROM file WHERE file.id = version.file_id AND is_frozen = 1) ORDER BY version.file_id"""
    return c.all(FileVersion.make, query)


def find_candidate_ids(c: Connection, root_id: RootId, condition: str, *values: Value) -> list[FileId]:
    """Return the files of a root whose candidate fits a condition on ``version`` and ``file``, with values from ?2."""
    query = f"""
        SELECT version.file_id FROM version JOIN file ON file.id = version.file_id
        WHERE {IS_CANDIDATE} AND +version.root_id = ?1 AND {condition} ORDER BY version.file_id"""
    return c.column(query, root_id, *values)


def find_held_removals(c: Connection, root_id: RootId) -> list[FileId]:
    """Return the files of a root whose removal waits for a user."""
    return find_candidate_ids(c, root_id, f"version.state = 'held' AND version.verdict = '{_GONE}'")


def find_refuted(c: Connection, root_id: RootId, now: int) -> list[FileId]:
    """Return the files of a root whose held change is obsolete, because the baseline was found again later."""
    is_back = f"{unless_ahead('file.verified_at', now)} > version.recorded_at OR file.ctime_ns > version.ctime_ns"
    return find_candidate_ids(c, root_id, f"version.state = 'held' AND version.verdict <> '{_GONE}' AND ({is_back})")


def find_staged(c: Connection, root_id: RootId, last_file_id: int | None = None) -> list[FileId]:
    """Return files with a staged candidate, without removals of files first recorded after ``last_file_id``."""
    is_counted = f"?2 IS NULL OR version.verdict <> '{_GONE}' OR version.number > 2 OR version.file_id <= ?2"
    return find_candidate_ids(c, root_id, f"version.state = 'staged' AND ({is_counted})", last_file_id)


def find_held_paths(c: Connection, root_id: RootId) -> list[bytes]:
    """Return the paths of a root whose change or removal waits for a user."""
    return c.column(f"SELECT path FROM version WHERE {IS_CANDIDATE} AND state = 'held' AND +root_id = ?", root_id)


def has_held(c: Connection, root_id: RootId, prefix: bytes = b"") -> bool:
    """Return whether a candidate at or below a path waits for a user."""
    part, values = below("path", prefix)
    query = f"SELECT 1 FROM version WHERE {IS_CANDIDATE} AND state = 'held' AND +root_id = ? AND {part} LIMIT 1"
    return c.row(query, root_id, *values) is not None


class Waiting(NamedTuple):
    """Number of candidates in a state. A name to which another file was moved counts only as ``moved``."""

    changed: int
    removed: int
    moved: int


def count_candidates(c: Connection, root_id: RootId, state: VersionState) -> Waiting:
    """Count the candidates of a root in a state."""
    query = f"""
        SELECT
            count(*) FILTER (WHERE verdict NOT IN ('{_GONE}', '{SAME_CONTENT}') AND reason IS NOT 'moved'),
            count(*) FILTER (WHERE verdict = '{_GONE}'),
            count(*) FILTER (WHERE verdict NOT IN ('{_GONE}', '{SAME_CONTENT}') AND reason IS 'moved')
        FROM version WHERE {IS_CANDIDATE} AND state = ? AND +root_id = ?"""
    return c.all(Waiting, query, state, root_id)[0]


def measure_removals(c: Connection, root_id: RootId) -> tuple[int, int]:
    """Return the number and the recorded size in bytes of the files whose removal is staged or held."""
    query = f"""
        SELECT count(*), coalesce(sum(file.size_bytes), 0) FROM version JOIN file ON file.id = version.file_id
        WHERE {IS_CANDIDATE} AND state IN ('staged', 'held') AND verdict = '{_GONE}' AND +root_id = ?"""
    return next(c.rows(query, root_id))


def set_witness(c: Connection, known: FileVersion, witness: Witness) -> None:
    """Store a new witness of a candidate whose content was found again; do nothing if the candidate was replaced."""
    query = """
        UPDATE version SET size_bytes = ?, mtime_ns = ?, ctime_ns = ?, inode = ?, is_racy = ?
        WHERE id = ? AND file_id = ? AND run_id = ?
        AND size_bytes = ? AND mtime_ns = ? AND ctime_ns = ? AND inode = ? AND is_racy = ?"""
    c.run(query, *witness, known.id, known.file_id, known.run_id, *known.witness)


def hold(c: Connection, ids: Iterable[FileId]) -> None:
    """Hold the staged candidates of files until a user decides (mass change)."""
    query = f"""
        UPDATE version SET state = 'held' WHERE {IS_CANDIDATE} AND state = 'staged' AND verdict <> '{SAME_CONTENT}'
        AND file_id IN (SELECT value FROM json_each(?))"""
    c.run(query, numbers(ids))


def discard(c: Connection, ids: Iterable[FileId]) -> None:
    """Delete the candidates of files, with their blocks."""
    these = numbers(ids)
    candidates = f"FROM version WHERE {IS_CANDIDATE} AND file_id IN (SELECT value FROM json_each(?))"
    with_blocks = f"SELECT file_id, number {candidates} AND block_size_bytes NOT NULL"
    c.run(f"DELETE FROM block_run WHERE (file_id, version) IN ({with_blocks})", these)
    c.run(f"DELETE {candidates}", these)


def discard_staged(c: Connection, ids: Iterable[FileId]) -> list[FileId]:
    """Delete the staged candidates of files; return the files that had one."""
    query = f"""
        SELECT file_id FROM version
        WHERE {IS_CANDIDATE} AND state = 'staged' AND file_id IN (SELECT value FROM json_each(?))"""
    found: list[FileId] = c.column(query, numbers(ids))
    discard(c, found)
    return found


# Former versions


def keep(
    c: Connection, records: Iterable[FileRecord], *, because: BaselineReason, now: int, note: str | None = None
) -> None:
    """Keep baselines as former versions before they are replaced or removed."""
    query = """
        INSERT INTO version (
            state, root_id, file_id, path, size_bytes, mtime_ns, ctime_ns, inode, is_racy, md5, xxh3_128, blake3,
            crc64nvme, block_size_bytes, number, recorded_at, reason, replaced_at, replaced_because, note
        ) VALUES ('former', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
    end = now, because, note
    rows = (
        (
            *(one.root_id, one.id, one.path, *one.witness, *one.digests),
            *(one.block_size_bytes, one.version, one.recorded_at, one.reason, *end),
        )
        for one in records
    )
    c.run_many(query, rows)


def former_of(c: Connection, root_id: RootId, key: bytes | FileId) -> list[FileVersion]:
    """Return the former versions of a path or of a file id, newest first."""
    is_of = "version.path = ?" if isinstance(key, bytes) else "version.file_id = ?"
    return c.all(
        FileVersion.make, f"{_FORMER} AND version.root_id = ? AND {is_of} ORDER BY version.id DESC", root_id, key
    )


def find_deleted(c: Connection, root_id: RootId, seen: Witness, *, md5: bytes | None = None) -> list[FileVersion]:
    """Return deleted files of a size, last first, with this MD5, or with the witness's time; none recorded again."""
    is_like = "version.md5 = ?3" if md5 else IS_NEAR
    # Sorted by "+replaced_at", so that SQLite takes the index of deleted files, not the one that sorts all of a root.
    query = f"""{_FORMER}
        AND version.root_id = ?1 AND version.size_bytes = ?2 AND version.replaced_because = 'deleted' AND {is_like}
        AND NOT EXISTS (SELECT 1 FROM file WHERE file.id = version.file_id)
        ORDER BY +version.replaced_at DESC, version.id DESC"""
    found = c.all(FileVersion.make, query, root_id, seen.size_bytes, md5 or seen.mtime_ns)
    return [one for one in found if md5 or is_same_time(one.witness.mtime_ns, seen.mtime_ns)]


def find_former_of_inode(c: Connection, place: RootId | str, seen: Witness) -> FileVersion | None:
    """
    Return the newest former version with a witness's inode, size, and time; None if a user discarded it.

    ``place``: a root, or all roots on a file system.
    """
    is_there = f"version.root_id {'IN (SELECT id FROM root WHERE fs_id = ?1)' if isinstance(place, str) else '= ?1'}"
    query = f"""{_FORMER}
        AND {is_there} AND version.size_bytes = ?2 AND version.inode = ?4 AND {IS_NEAR}
        ORDER BY version.id DESC"""
    found = c.all(FileVersion.make, query, place, seen.size_bytes, seen.mtime_ns, seen.inode)
    last = next((one for one in found if is_same_time(one.witness.mtime_ns, seen.mtime_ns)), None)
    return None if last is None or last.replaced_because in _DISCARDED else last


def find_by_former_content(c: Connection, root_id: RootId, contents: Sequence[FileContent]) -> list[list[FileVersion]]:
    """
    Return, for each content, the versions of a root that had it before, also of deleted files.

    The blocks of most former versions are not kept: content without whole-file digests is matched by size alone, so a
    version returned for it may have had different content.
    """
    query = f"{_FORMER} AND version.root_id = ? AND version.size_bytes IN (SELECT value FROM json_each(?))"
    by_content: dict[object, list[FileVersion]] = {}
    for one in c.all(FileVersion.make, query, root_id, numbers({content.size_bytes for content in contents})):
        size_bytes = one.witness.size_bytes
        for key in (size_bytes, (size_bytes, one.digests.md5), (size_bytes, one.digests.xxh3_128)):
            by_content.setdefault(key, []).append(one)
    found: list[list[FileVersion]] = []
    for content in contents:
        keys: list[object] = [(content.size_bytes, digest) for digest in content.whole_digests]
        unique = {one.id: one for key in keys or [content.size_bytes] for one in by_content.get(key, ())}
        found.append(list(unique.values()))
    return found


def has_former(c: Connection, place: RootId | str) -> bool:
    """Return whether a root, or any root on a file system, has former versions."""
    is_there = f"root_id {'IN (SELECT id FROM root WHERE fs_id = ?)' if isinstance(place, str) else '= ?'}"
    return c.row(f"SELECT 1 FROM version WHERE state = 'former' AND {is_there} LIMIT 1", place) is not None


def adopt_former(c: Connection, from_id: FileId, to_id: FileId) -> None:
    """Assign the former versions of a deleted file to another file, which has, or should have, its content (R2)."""
    # Versions of another file: they have no blocks under this id.
    query = "UPDATE version SET file_id = ?, block_size_bytes = NULL WHERE state = 'former' AND file_id = ?"
    c.run(query, to_id, from_id)
    c.run("DELETE FROM block_run WHERE file_id = ?", from_id)


def drop_former_runs(c: Connection, record: FileRecord) -> None:
    """Delete the blocks of a file's earlier baselines, except of those without whole-file digests."""
    query = """
        DELETE FROM block_run WHERE file_id = ?1 AND version < ?2 AND version IN (
            SELECT number FROM version
            WHERE state = 'former' AND file_id = ?1 AND (md5 IS NOT NULL OR xxh3_128 IS NOT NULL)
        )"""
    c.run(query, record.id, record.version)


def count_replaced(c: Connection, root_id: RootId, since: int, until: int) -> tuple[int, int]:
    """
    Return how many files were replaced and how many removed between two times.

    A file counts once, and not at all if its candidate waits for a decision, because it is counted there. Changes that
    a user approved do not count: they must not make the next normal change look like part of a mass change.
    """
    query = f"""
        SELECT count(*) FILTER (WHERE NOT is_removed), count(*) FILTER (WHERE is_removed)
        FROM (
            SELECT max(replaced_because = 'deleted') AS is_removed FROM version AS former
            WHERE state = 'former' AND root_id = ? AND replaced_at BETWEEN ? AND ? AND replaced_because IN (
                'edited', 'rolled_back', 'grown', 'rotated', 'rewritten_in_place', 'deleted'
            ) AND NOT EXISTS (
                SELECT 1 FROM version WHERE version.file_id = former.file_id AND {IS_CANDIDATE}
                AND version.verdict <> '{SAME_CONTENT}' AND version.state IN ('staged', 'held')
            ) GROUP BY file_id
        )"""
    return next(c.rows(query, root_id, since, until))


def find_outdated(c: Connection, now: int) -> list[FileId]:
    """Return the files that were deleted longer ago than ``KEEP_DELETED_DAYS``. Call it in a transaction."""
    query = f"""
        SELECT file_id FROM version WHERE state = 'former' AND replaced_because = 'deleted'
        AND NOT EXISTS (SELECT 1 FROM file WHERE file.id = version.file_id)
        AND {is_outdated(c, "replaced_at", KEEP_DELETED_DAYS, now)}"""
    return c.column(query)


def forget_deleted(c: Connection, ids: Iterable[FileId]) -> None:
    """Delete all versions and blocks of deleted files."""
    these = numbers(ids)
    c.run("DELETE FROM block_run WHERE file_id IN (SELECT value FROM json_each(?))", these)
    c.run("DELETE FROM version WHERE state = 'former' AND file_id IN (SELECT value FROM json_each(?))", these)


def load_version(c: Connection, source: FileRecord | FileVersion, witness: Witness) -> Reading | None:
    """
    Load a baseline or another version as a Reading with a witness; None for a removal, or if its blocks are lost.

    A former version that has whole-file digests is loaded without blocks then: these digests still detect a difference,
    but not its position.
    """
    if isinstance(source, FileRecord):
        file_id, number, is_former = source.id, source.version, False
    elif source.is_gone:
        return None
    else:
        file_id, number, is_former = source.file_id, source.number, source.state is VersionState.FORMER
    block_size, size_bytes, blocks = source.block_size_bytes, source.witness.size_bytes, None
    if block_size is not None:
        blocks = load_blocks(c, file_id, number, block_size)
        if blocks is None or len(blocks) != -(-size_bytes // block_size):
            if not (is_former and has_whole_digests(source)):
                return None
            blocks = None
    how = source.read_how or ReadHow.CACHE_POSSIBLE
    return Reading(witness._replace(size_bytes=size_bytes), source.digests, blocks, how, 0)


def has_whole_digests(source: FileRecord | FileVersion) -> bool:
    """Return whether content has a digest of the whole file, so that it can be compared without its blocks."""
    return source.digests.md5 is not None or source.digests.xxh3_128 is not None
