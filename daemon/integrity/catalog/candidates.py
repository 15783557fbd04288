"""
Candidates: newer content, or the removal, of a file whose baseline stays for now (R5, R6).

A run stages what it sees and decides at its end. An open finding freezes a candidate; a mass change holds it until a
user decides. A file has at most one candidate, the last one seen.

A file whose time moved while its content stayed is staged as well, and keeps its recorded witness until the run ends:
it shows what the moved times of changed files beside it mean. Only the functions about times see these rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from integrity.catalog.baselines import (
    IS_SAME,
    USER_DECISIONS,
    NewWitness,
    Verified,
    drop_candidate,
    put_baseline,
    refresh_witnesses,
    require_record,
    same_as,
    set_witnesses,
)
from integrity.catalog.blocks import CANDIDATE_VERSION, load_blocks, save_runs
from integrity.catalog.db import Connection, Value, numbers
from integrity.catalog.history import count_replaced
from integrity.catalog.removal import remove_files
from integrity.catalog.roots import RootRecord
from integrity.catalog.rows import (
    FileRecord,
    inside,
    join_path,
    load_records,
    read_optional_word,
    read_word,
    require_current,
    unless_ahead,
)
from integrity.errors import CatalogError
from integrity.hashing.digests import have_equal_digests
from integrity.model import BaselineReason, Digests, FileId, ReadHow, Reading, RootId, RunId, Witness
from integrity.same_time import TimeMove
from integrity.verdict import Verdict

_DAMAGE = (Verdict.ROT.value, Verdict.SILENT_REWRITE.value)


class CandidateKind(StrEnum):
    """What was seen of the file."""

    CHANGE = "change"
    REMOVAL = "removal"
    TIMES = "times"  # the recorded content under another time


class CandidateState(StrEnum):
    """What the candidate waits for."""

    STAGED = "staged"  # the end of the run that saw it
    FROZEN = "frozen"  # the end of a finding on the file
    HELD = "held"  # a person: too much changed at once


@dataclass(frozen=True, slots=True)
class CandidateRecord:
    """The content, or the removal, that was last seen of a file whose baseline stays for now."""

    file_id: FileId
    root_id: RootId
    path: bytes
    kind: CandidateKind
    state: CandidateState
    verdict: str
    because: BaselineReason | None  # reason with which it may become the baseline, if the verdict gave one
    witness: Witness | None  # None for removals
    digests: Digests
    block_size_bytes: int | None
    version: int  # under which its blocks are stored
    read_how: ReadHow | None
    seen_at: int
    run_id: RunId
    boot_id: int  # in which it was seen

    @classmethod
    def make(cls, *row: Any) -> CandidateRecord:
        """Make a record from the columns of ``_RECORDS``."""
        file_id, root_id, folder_path, name, kind, state, verdict, because, *rest = row
        *stamps, is_racy, md5, xxh3_128, blake3, crc64nvme, block_size_bytes, how, seen_at, run_id, boot_id = rest
        is_change = kind == CandidateKind.CHANGE
        return cls(
            *(file_id, root_id, join_path(folder_path, name), read_word(CandidateKind, kind)),
            *(read_word(CandidateState, state), verdict, read_optional_word(BaselineReason, because)),
            Witness._make((*stamps, bool(is_racy))) if is_change else None,
            Digests(md5, xxh3_128, blake3, crc64nvme),
            block_size_bytes,
            CANDIDATE_VERSION,
            read_optional_word(ReadHow, how),
            *(seen_at, run_id, boot_id),
        )

    @property
    def is_damage(self) -> bool:
        """Return whether this content is the damage that a finding reports, and not a later write."""
        return self.verdict in _DAMAGE

    def holds(self, reading: Reading) -> bool:
        """Return whether a reading has this content, according to size and whole-file digests."""
        if self.witness is None or self.witness.size_bytes != reading.witness.size_bytes:
            return False
        return have_equal_digests(self.digests, reading.digests)


# "+" before a column keeps SQLite from scanning all files of the root by folder.
_JOIN = "candidate JOIN file ON file.id = candidate.file_id JOIN folder ON folder.id = file.folder_id"
_RECORDS = f"""
    SELECT
        candidate.file_id, folder.root_id, folder.path, file.name, candidate.kind, candidate.state, candidate.verdict,
        candidate.because, candidate.size_bytes, candidate.mtime_ns, candidate.ctime_ns, candidate.inode,
        candidate.is_racy, candidate.md5, candidate.xxh3_128, candidate.blake3, candidate.crc64nvme,
        candidate.block_size_bytes, candidate.read_how, candidate.seen_at, candidate.run_id, run.boot_id
    FROM {_JOIN} JOIN run ON run.id = candidate.run_id
    WHERE candidate.kind != 'times'"""  # noqa: S608 - ours


def stage_times(c: Connection, rows: Sequence[Verified], run_id: RunId, *, is_evidence: bool = False) -> set[FileId]:
    """
    Stage the new witnesses of files whose content is as recorded under another time.

    Args:
        c: in a transaction.
        rows: each with a witness.
        is_evidence: the recorded witnesses stay, because the names may lead to the files of other records.

    Returns:
        The files that were staged, without those that have a candidate that waits for a decision, and those whose
        record was replaced since.
    """
    ids = [one.record.id for one in rows]
    discard_staged_of(c, ids)
    query = f"""
        INSERT INTO candidate (
            file_id, kind, size_bytes, mtime_ns, ctime_ns, inode, is_racy,
            version, verdict, read_how, state, run_id, seen_at
        )
        SELECT file.id, 'times', ?, ?, ?, ?, ?, 0, 'intact', ?, 'staged', run.id, run.started_at
        FROM file JOIN run ON run.id = ?
        WHERE {IS_SAME} AND NOT EXISTS (SELECT 1 FROM candidate WHERE candidate.file_id = file.id)
        """  # noqa: S608 - ours
    values = (
        (*(one.witness or ()), None if is_evidence else one.how.value, run_id, *same_as(one.record)) for one in rows
    )
    if c.run_many(query, values) == len(rows):
        return set(ids)
    query = """
        SELECT file_id FROM candidate
        WHERE state = 'staged' AND kind = 'times' AND file_id IN (SELECT value FROM json_each(?))
        """
    return set(c.column(query, numbers(ids)))


class MovedTime(NamedTuple):
    """
    A file with another time than recorded.

    ``checked_at``: when its content was last known to be as recorded. ``is_same``: it is now.
    """

    file_id: FileId
    folder: bytes
    size_bytes: int
    checked_at: int
    move: TimeMove
    is_same: bool


def find_moved_times(c: Connection, root_id: RootId, run_id: RunId, *, is_same: bool) -> Iterator[MovedTime]:
    """
    Yield the files that a run found with another time, with or without the recorded content.

    Those with other content are left out if something else than their time explains it. Archives have findings of them.
    """
    is_written = """(
        candidate.state = 'staged' AND candidate.because IN ('edited', 'rolled_back')
        OR candidate.state = 'frozen' AND candidate.because IS NULL AND candidate.verdict IN ('changed', 'rolled_back')
    )"""
    query = f"""
        SELECT
            file.id, folder.path, file.size_bytes, max(file.recorded_at, coalesce(file.verified_at, 0)),
            file.mtime_ns, candidate.mtime_ns
        FROM {_JOIN}
        WHERE candidate.run_id = ? AND +folder.root_id = ?
        AND {"candidate.kind = 'times'" if is_same else is_written}
        """  # noqa: S608 - ours
    for *place, recorded_ns, seen_ns in c.rows(query, run_id, root_id):
        yield MovedTime._make((*place, TimeMove(recorded_ns, seen_ns), is_same))


def find_staged_times(c: Connection, root_id: RootId) -> list[FileId]:
    """Return the files of a root whose new witness is staged."""
    return _find_ids(c, root_id, "candidate.state = 'staged' AND candidate.kind = 'times'")


def _find_ids(c: Connection, root_id: RootId, condition: str, *values: Value) -> list[FileId]:
    query = f"""
        SELECT candidate.file_id FROM {_JOIN}
        WHERE +folder.root_id = ?1 AND {condition} ORDER BY candidate.file_id
        """  # noqa: S608 - ours
    return c.column(query, root_id, *values)


def apply_times(
    c: Connection,
    ids: Sequence[FileId],
    *,
    from_disk: bool,
    has_stable_inodes: bool,
    now: int,
    boot_id: int | None,
) -> None:
    """
    Store the staged witnesses of files.

    A file that was not verified by the run becomes unverified; ``from_disk``: the run verifies what it reads.
    """
    query = """
        SELECT file_id, size_bytes, mtime_ns, ctime_ns, inode, is_racy, read_how, seen_at FROM candidate
        WHERE read_how IS NOT NULL AND file_id IN (SELECT value FROM json_each(?))
        """
    staged = {row[0]: row[1:] for row in c.rows(query, numbers(ids))}
    verified: list[NewWitness] = []
    refreshed: list[Verified] = []
    for record in load_records(c, staged):
        *stamps, is_racy, how, seen_at = staged[record.id]
        witness = Witness._make((*stamps, bool(is_racy)))
        if from_disk and record.verified_at is not None and record.verified_at >= seen_at:
            verified.append(NewWitness(record, witness))
        else:
            refreshed.append(Verified(record, witness, ReadHow(how)))
    set_witnesses(c, verified)
    refresh_witnesses(c, refreshed, has_stable_inodes=has_stable_inodes, now=now, boot_id=boot_id)
    discard_all(c, ids)


def stage_change(
    c: Connection,
    record: FileRecord,
    reading: Reading,
    verdict: str,
    run_id: RunId,
    state: CandidateState | str,
    because: BaselineReason | None = None,
) -> None:
    """
    Store a reading as the candidate of a file, replacing an older candidate.

    Args:
        c: in a transaction.
        record: the record that the reading was compared with.
        reading: the file's present content.
        verdict: result of the comparison.
        state: what the candidate waits for.
        because: reason with which it may become the baseline, if the verdict gave one.

    Raises:
        RecordSuperseded: the file's record was replaced or removed since.
    """
    require_current(c, record)
    drop_candidate(c, record.id)
    blocks = reading.blocks
    query = """
        INSERT INTO candidate (
            file_id, kind, size_bytes, mtime_ns, ctime_ns, inode, is_racy, md5, xxh3_128, blake3, crc64nvme,
            block_size_bytes, version, verdict, because, read_how, state, run_id, seen_at
        )
        SELECT ?, 'change', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, id, started_at FROM run WHERE id = ?
        """
    block_size = None if blocks is None else blocks.block_size_bytes
    content = *reading.witness, *reading.digests, block_size
    c.run(query, record.id, *content, verdict, because, reading.how, CandidateState(state), run_id)
    if blocks is not None:
        save_runs(c, record.id, CANDIDATE_VERSION, blocks)


def load_candidate(c: Connection, found: CandidateRecord) -> Reading | None:
    """Load the content of a candidate as a Reading; None for removals."""
    if found.witness is None:
        return None
    blocks, block_size = None, found.block_size_bytes
    if block_size is not None:
        blocks = load_blocks(c, found.file_id, found.version, block_size)
        if blocks is None:
            return None
    return Reading(found.witness, found.digests, blocks, found.read_how or ReadHow.CACHE_POSSIBLE, 0)


def stage_removal(c: Connection, record: FileRecord, run_id: RunId) -> None:
    """
    Stage the removal of a file, replacing an older candidate; its run decides at its end.

    Raises:
        RecordSuperseded: the file's record was replaced or removed since.
    """
    require_current(c, record)
    drop_candidate(c, record.id)
    query = """
        INSERT INTO candidate (file_id, kind, version, verdict, state, run_id, seen_at)
        SELECT ?, 'removal', 0, 'gone', 'staged', id, started_at FROM run WHERE id = ?
        """
    c.run(query, record.id, run_id)


def get_candidate(c: Connection, file_id: FileId) -> CandidateRecord | None:
    """Return the candidate of a file; None if it has none."""
    return c.one(CandidateRecord.make, f"{_RECORDS} AND candidate.file_id = ?", file_id)


def get_candidates(c: Connection, ids: Iterable[FileId]) -> dict[FileId, CandidateRecord]:
    """Return the candidates of files by file id; files without one are left out."""
    query = f"{_RECORDS} AND candidate.file_id IN (SELECT value FROM json_each(?))"  # noqa: S608 - ours
    return {one.file_id: one for one in c.all(CandidateRecord.make, query, numbers(ids))}


def find_candidates(
    c: Connection, root_id: RootId, state: CandidateState | str | None = None, *, after: int = 0, limit: int = 2000
) -> list[CandidateRecord]:
    """
    Return one page of a root's candidates in the order of their file ids.

    Args:
        state: only candidates in this state; None: all.
        after: the last file id of the previous page.
        limit: size of the page; an empty page is the end.
    """
    query = f"""{_RECORDS}
        AND +folder.root_id = ?1 AND candidate.file_id > ?2 AND (?3 IS NULL OR candidate.state = ?3)
        ORDER BY candidate.file_id LIMIT ?4
        """
    return c.all(CandidateRecord.make, query, root_id, after, state, limit)


def find_in_question(c: Connection) -> list[CandidateRecord]:
    """Return the changed contents in all roots that an open finding freezes."""
    query = f"""{_RECORDS}
        AND candidate.state = 'frozen' AND file.is_frozen = 1 AND candidate.kind = 'change' ORDER BY candidate.file_id
        """
    return c.all(CandidateRecord.make, query)


def find_held_removals(c: Connection, root_id: RootId) -> list[FileId]:
    """Return the files of a root whose removal waits for a user."""
    return _find_ids(c, root_id, "candidate.state = 'held' AND candidate.kind = 'removal'")


def find_held_paths(c: Connection, root_id: RootId) -> list[bytes]:
    """Return the paths of a root whose change or removal waits for a user."""
    query = f"SELECT folder.path, file.name FROM {_JOIN} WHERE candidate.state = 'held' AND +folder.root_id = ?"  # noqa: S608 - ours
    return c.all(join_path, query, root_id)


def has_held(c: Connection, root_id: RootId, prefix: bytes = b"") -> bool:
    """Return whether a candidate at or below a path waits for a user."""
    part, values = inside(root_id, prefix, is_hidden=True)
    query = f"SELECT EXISTS (SELECT 1 FROM {_JOIN} WHERE candidate.state = 'held' AND {part})"  # noqa: S608 - ours
    return bool(c.value(query, *values))


def find_refuted(c: Connection, root_id: RootId, now: int) -> list[FileId]:
    """Return the files of a root whose held change is obsolete, because the baseline was found again later."""
    is_back = f"{unless_ahead('file.verified_at', now)} > candidate.seen_at OR file.ctime_ns > candidate.ctime_ns"
    return _find_ids(c, root_id, f"candidate.state = 'held' AND candidate.kind = 'change' AND ({is_back})")


class Staged(NamedTuple):
    """Number of staged candidates. A name to which another file was moved counts only as ``moved``."""

    changed: int
    removed: int
    moved: int


def count_staged(c: Connection, root_id: RootId) -> Staged:
    """Count the candidates that wait for their run's decision."""
    query = f"""
        SELECT
            count(*) FILTER (WHERE candidate.kind = 'change' AND candidate.because IS NOT 'moved'),
            count(*) FILTER (WHERE candidate.kind = 'removal'),
            count(*) FILTER (WHERE candidate.kind = 'change' AND candidate.because IS 'moved')
        FROM {_JOIN} WHERE candidate.state = 'staged' AND +folder.root_id = ?
        """  # noqa: S608 - ours
    return c.all(Staged, query, root_id)[0]


def count_candidates(c: Connection, root_id: RootId, state: CandidateState) -> tuple[int, int]:
    """Return the number of changes and the number of removals in a state."""
    query = f"""
        SELECT
            count(*) FILTER (WHERE candidate.kind = 'change'), count(*) FILTER (WHERE candidate.kind = 'removal')
        FROM {_JOIN} WHERE candidate.state = ? AND +folder.root_id = ?
        """  # noqa: S608 - ours
    [(changes, removals)] = c.rows(query, state, root_id)
    return changes, removals


def measure_removals(c: Connection, root_id: RootId) -> tuple[int, int]:
    """Return the number and the recorded size in bytes of the files whose removal is staged or held."""
    query = f"""
        SELECT count(*), coalesce(sum(file.size_bytes), 0) FROM {_JOIN}
        WHERE candidate.state IN ('staged', 'held') AND candidate.kind = 'removal' AND +folder.root_id = ?
        """  # noqa: S608 - ours
    [(count, size_bytes)] = c.rows(query, root_id)
    return count, size_bytes


def count_recent_changes(c: Connection, root_id: RootId, since: int, until: int) -> tuple[int, int]:
    """Return how many changes and how many removals were accepted between two times (R5 uses 24 h)."""
    return count_replaced(c, root_id, since, until)


def promote(
    c: Connection,
    root: RootRecord,
    file_id: FileId,
    because: BaselineReason,
    now: int,
    boot_id: int | None,
    note: str | None = None,
) -> bool:
    """
    Accept a candidate: a change becomes the baseline, a removal removes the file from the catalog.

    Returns:
        Whether it was accepted. If not, the file has an open finding, which keeps it as frozen (R6).

    Raises:
        CatalogError: the file has no candidate.
    """
    found = get_candidate(c, file_id)
    if found is None:
        raise CatalogError(f"file {file_id}: nothing waits to be taken over; scan its root again")
    old = require_record(c, file_id)
    if found.witness is None:
        remove_files(c, root, [file_id], because=because, now=now)
        return True
    if old.is_frozen and because not in USER_DECISIONS:
        c.run("UPDATE candidate SET state = 'frozen' WHERE file_id = ?", file_id)
        return False
    c.run("UPDATE block_run SET version = ? WHERE file_id = ? AND version = 0", old.version + 1, file_id)
    put_baseline(
        *(c, root, old, found.witness, found.digests, found.block_size_bytes, found.read_how),
        because=because,
        now=now,
        boot_id=boot_id,
        note=note,
    )
    drop_candidate(c, file_id)
    return True


def set_witness(c: Connection, known: CandidateRecord, witness: Witness) -> None:
    """Store a new witness of a candidate whose content was found again; do nothing if the candidate was replaced."""
    if known.witness is None:
        return
    query = """
        UPDATE candidate SET size_bytes = ?, mtime_ns = ?, ctime_ns = ?, inode = ?, is_racy = ?
        WHERE file_id = ? AND run_id = ?
        AND size_bytes = ? AND mtime_ns = ? AND ctime_ns = ? AND inode = ? AND is_racy = ?
        """
    c.run(query, *witness, known.file_id, known.run_id, *known.witness)


discard = drop_candidate


def discard_all(c: Connection, ids: Iterable[FileId]) -> None:
    """Delete the candidates of files."""
    these = numbers(ids)
    c.run("DELETE FROM candidate WHERE file_id IN (SELECT value FROM json_each(?))", these)
    c.run("DELETE FROM block_run WHERE version = 0 AND file_id IN (SELECT value FROM json_each(?))", these)


def find_staged(c: Connection, root_id: RootId, last_file_id: int | None = None) -> list[FileId]:
    """
    Return the files of a root with a staged candidate.

    ``last_file_id``: leave out removals of files that were first recorded after the file with this id.
    """
    is_counted = "?2 IS NULL OR candidate.kind != 'removal' OR file.version > 1 OR file.id <= ?2"
    return _find_ids(c, root_id, f"candidate.state = 'staged' AND ({is_counted})", last_file_id)


def discard_staged_of(c: Connection, ids: Iterable[FileId]) -> list[FileId]:
    """Delete the staged candidates of files; return the files that had one."""
    query = "SELECT file_id FROM candidate WHERE state = 'staged' AND file_id IN (SELECT value FROM json_each(?))"
    found: list[FileId] = c.column(query, numbers(ids))
    discard_all(c, found)
    return found


def hold(c: Connection, ids: Iterable[FileId]) -> None:
    """Hold the staged candidates of files until a user decides (mass change)."""
    query = """
        UPDATE candidate SET state = 'held'
        WHERE state = 'staged' AND kind != 'times' AND file_id IN (SELECT value FROM json_each(?))
        """
    c.run(query, numbers(ids))
