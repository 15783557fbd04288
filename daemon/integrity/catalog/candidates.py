"""
Candidates: newer content, or the removal, of a file whose baseline stays for now (R5, R6).

A run stages what it sees and decides at its end. An open finding freezes a candidate; a mass change holds it until a
user decides. A file has at most one candidate, the last one seen. It is sealed like a baseline, because it may become
one.

A file whose time moved while its content stayed is staged as well, and keeps its recorded witness until the run ends:
it shows what the moved times of changed files beside it mean. Only the functions about times see these rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import sqlalchemy as sa

from integrity.catalog.baselines import (
    USER_DECISIONS,
    NewWitness,
    Verified,
    drop_candidate,
    put_baseline,
    refresh_witnesses,
    require_record,
    set_witnesses,
)
from integrity.catalog.blocks import CANDIDATE_VERSION, load_blocks, move_runs, save_runs
from integrity.catalog.compiled_sql import CompiledStatement, sealer_of
from integrity.catalog.history import count_replaced
from integrity.catalog.removal import remove_files
from integrity.catalog.roots import RootRecord
from integrity.catalog.row_seals import is_sealed
from integrity.catalog.rows import (
    FileRecord,
    chunked,
    inside,
    join_path,
    load_records,
    read_optional_word,
    read_word,
    require_current,
    require_rising,
    unless_ahead,
)
from integrity.catalog.schema import candidate, file, folder, run
from integrity.catalog.seal import Sealer
from integrity.catalog.sqlite_errors import DamagedRow, note_damage
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
    is_sealed: bool  # False: the row is damaged; promoting drops it

    @property
    def is_damage(self) -> bool:
        """Return whether this content is the damage that a finding reports, and not a later write."""
        return self.verdict in _DAMAGE

    def holds(self, reading: Reading) -> bool:
        """Return whether a reading has this content, according to size and whole-file digests."""
        if self.witness is None or self.witness.size_bytes != reading.witness.size_bytes:
            return False
        return have_equal_digests(self.digests, reading.digests)


_QUERY = (
    sa.select(
        *(candidate, is_sealed(candidate).label("is_sealed")),
        *(folder.c.root_id, folder.c.path.label("folder_path"), file.c.name, run.c.boot_id),
    )
    .select_from(candidate)
    .join(file, candidate.c.file_id == file.c.id)
    .join(folder, file.c.folder_id == folder.c.id)
    .join(run, candidate.c.run_id == run.c.id)
    .where(candidate.c.kind != CandidateKind.TIMES.value)
)


_OF_FILE = _QUERY.where(candidate.c.file_id == sa.bindparam("of_file"))
_STAGE = sa.insert(candidate).values(
    seen_at=sa.select(run.c.started_at).where(run.c.id == sa.bindparam("of_run")).scalar_subquery()
)
_INSERT_REMOVAL = CompiledStatement(
    sa.insert(candidate).values(
        file_id=sa.bindparam("of_file"),
        kind=sa.literal_column(f"'{CandidateKind.REMOVAL.value}'"),
        version=sa.literal_column(str(CANDIDATE_VERSION)),
        verdict=sa.literal_column("'gone'"),
        state=sa.literal_column(f"'{CandidateState.STAGED.value}'"),
        seal=sa.literal_column("zeroblob(16)"),  # replaced by its trigger
        run_id=sa.bindparam("of_run"),
        seen_at=sa.select(run.c.started_at).where(run.c.id == sa.bindparam("by_run")).scalar_subquery(),
    ),
    "of_file",
    "of_run",
    "by_run",
)

_NEW_TIMES = ("of_file", "at_seal", *Witness._fields, "read_how", "of_run")
_IS_STAGED = candidate.c.state == CandidateState.STAGED.value
_INSERT_TIMES = CompiledStatement(
    sa.insert(candidate).from_select(
        ["file_id", "kind", *Witness._fields, "version", "verdict", "read_how", "state", "seal", "run_id", "seen_at"],
        sa.select(
            file.c.id,
            sa.literal_column(f"'{CandidateKind.TIMES.value}'"),
            *(sa.bindparam(name) for name in Witness._fields),
            sa.literal_column(str(CANDIDATE_VERSION)),
            sa.literal_column(f"'{Verdict.INTACT.value}'"),
            sa.bindparam("read_how"),
            sa.literal_column(f"'{CandidateState.STAGED.value}'"),
            sa.literal_column("zeroblob(16)"),  # replaced by its trigger
            run.c.id,
            run.c.started_at,
        ).where(
            file.c.id == sa.bindparam("of_file"),
            file.c.seal == sa.bindparam("at_seal"),
            run.c.id == sa.bindparam("of_run"),
            ~sa.exists().where(candidate.c.file_id == file.c.id),
        ),
        include_defaults=False,
    ),
    *_NEW_TIMES,
)


def stage_times(c: sa.Connection, rows: Sequence[Verified], run_id: RunId, *, is_evidence: bool = False) -> set[FileId]:
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
    values = [
        (one.record.id, one.record.seal, *map(int, one.witness or ()), None if is_evidence else one.how.value, run_id)
        for one in rows
    ]
    if _INSERT_TIMES.run_many(c, values) == len(rows):
        return set(ids)
    is_staged = _IS_STAGED, candidate.c.kind == CandidateKind.TIMES.value
    chunks = (sa.select(candidate.c.file_id).where(*is_staged, candidate.c.file_id.in_(some)) for some in chunked(ids))
    return {FileId(one) for query in chunks for one in c.execute(query).scalars()}


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


def find_moved_times(c: sa.Connection, root_id: RootId, run_id: RunId, *, is_same: bool) -> Iterator[MovedTime]:
    """
    Yield the files that a run found with another time, with or without the recorded content.

    Those with other content are left out if something else than their time explains it. Archives have findings of them.
    """
    is_edit = candidate.c.because.in_([BaselineReason.EDITED.value, BaselineReason.ROLLED_BACK.value])
    is_archived = (
        candidate.c.because.is_(None),
        candidate.c.verdict.in_([Verdict.CHANGED.value, Verdict.ROLLED_BACK.value]),
    )
    is_frozen = candidate.c.state == CandidateState.FROZEN.value
    is_written = sa.or_(_IS_STAGED & is_edit, sa.and_(is_frozen, *is_archived))
    is_wanted = candidate.c.kind == CandidateKind.TIMES.value if is_same else is_written
    checked_at = sa.func.max(file.c.recorded_at, sa.func.coalesce(file.c.verified_at, 0))
    query = (
        sa.select(file.c.id, folder.c.path, file.c.size_bytes, checked_at, file.c.mtime_ns, candidate.c.mtime_ns)
        .select_from(candidate)
        .join(file, candidate.c.file_id == file.c.id)
        .join(folder, file.c.folder_id == folder.c.id)
        .where(candidate.c.run_id == run_id, folder.c.root_id + sa.literal_column("0") == root_id)
        .where(is_wanted, is_sealed(candidate))
    )
    for row in c.execute(query):
        yield MovedTime(*row[:4], TimeMove(row[4], row[5]), is_same)


def find_staged_times(c: sa.Connection, root_id: RootId) -> list[FileId]:
    """Return the files of a root whose new witness is staged."""
    is_times = _IS_STAGED, candidate.c.kind == CandidateKind.TIMES.value
    query = sa.select(candidate.c.file_id).where(*is_times, _in_root(root_id)).order_by(candidate.c.file_id)
    return [FileId(one) for one in c.execute(query).scalars()]


def apply_times(
    c: sa.Connection,
    sealer: Sealer,
    root: RootRecord,
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
    is_taken_over = is_sealed(candidate), candidate.c.read_how.is_not(None)
    chunks = (sa.select(candidate).where(*is_taken_over, candidate.c.file_id.in_(some)) for some in chunked(ids))
    staged = {row["file_id"]: row for query in chunks for row in c.execute(query).mappings()}
    verified: list[NewWitness] = []
    refreshed: list[Verified] = []
    for record in load_records(c, sealer, staged):
        row = staged[record.id]
        if from_disk and record.verified_at is not None and record.verified_at >= row["seen_at"]:
            verified.append(NewWitness(record.id, record.seal, _witness(row)))
        else:
            refreshed.append(Verified(record, _witness(row), ReadHow(row["read_how"])))
    set_witnesses(c, sealer, root, verified)
    refresh_witnesses(c, sealer, root, refreshed, has_stable_inodes=has_stable_inodes, now=now, boot_id=boot_id)
    discard_all(c, ids)


def stage_change(
    c: sa.Connection,
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
    values = {
        "file_id": record.id,
        "kind": CandidateKind.CHANGE.value,
        **reading.witness._asdict(),
        "is_racy": int(reading.witness.is_racy),
        **reading.digests._asdict(),
        "block_size_bytes": None if blocks is None else blocks.block_size_bytes,
        "version": CANDIDATE_VERSION,
        "verdict": verdict,
        "because": None if because is None else because.value,
        "read_how": reading.how.value,
    }
    c.execute(_STAGE, {**values, "run_id": run_id, "of_run": run_id, "state": CandidateState(state), "seal": bytes(16)})
    if blocks is not None:
        save_runs(c, sealer_of(c), record.id, CANDIDATE_VERSION, blocks)


def load_candidate(c: sa.Connection, found: CandidateRecord) -> Reading | None:
    """Load the content of a candidate as a Reading; None for removals and damaged rows."""
    if found.witness is None or not found.is_sealed:
        return None
    blocks, block_size = None, found.block_size_bytes
    if block_size is not None:
        blocks = load_blocks(c, sealer_of(c), found.file_id, found.version, block_size)
        if blocks is None:
            return None
    return Reading(found.witness, found.digests, blocks, found.read_how or ReadHow.CACHE_POSSIBLE, 0)


def stage_removal(c: sa.Connection, record: FileRecord, run_id: RunId) -> None:
    """
    Stage the removal of a file, replacing an older candidate; its run decides at its end.

    Raises:
        RecordSuperseded: the file's record was replaced or removed since.
    """
    require_current(c, record)
    drop_candidate(c, record.id)
    _INSERT_REMOVAL.run(c, record.id, run_id, run_id)


def get_candidate(c: sa.Connection, file_id: FileId) -> CandidateRecord | None:
    """Return the candidate of a file; None if it has none."""
    row = c.execute(_OF_FILE, {"of_file": file_id}).mappings().one_or_none()
    return None if row is None else _to_record(c, row)


def get_candidates(c: sa.Connection, ids: Iterable[FileId]) -> dict[FileId, CandidateRecord]:
    """Return the candidates of files by file id; files without one are left out."""
    rows = (row for chunk in chunked(ids) for row in c.execute(_QUERY.where(candidate.c.file_id.in_(chunk))).mappings())
    return {record.file_id: record for record in (_to_record(c, row) for row in rows)}


def find_candidates(
    c: sa.Connection, root_id: RootId, state: CandidateState | str | None = None, *, after: int = 0, limit: int = 2000
) -> list[CandidateRecord]:
    """
    Return one page of a root's candidates in the order of their file ids.

    Args:
        c: a connection.
        state: only candidates in this state; None: all.
        after: the last file id of the previous page.
        limit: size of the page; an empty page is the end.
    """
    # "+ 0" keeps SQLite from scanning all files of the root by folder for each page.
    query = _QUERY.where(folder.c.root_id + sa.literal_column("0") == root_id, candidate.c.file_id > after)
    if state is not None:
        query = query.where(candidate.c.state == CandidateState(state).value)
    rows = c.execute(query.order_by(candidate.c.file_id).limit(limit)).mappings().all()
    require_rising((row["file_id"] for row in rows), after)
    return [_to_record(c, row) for row in rows]


def find_in_question(c: sa.Connection) -> list[CandidateRecord]:
    """Return the changed contents in all roots that an open finding freezes."""
    is_open = candidate.c.state == CandidateState.FROZEN.value, file.c.is_frozen == 1
    is_change = candidate.c.kind == CandidateKind.CHANGE.value
    rows = c.execute(_QUERY.where(*is_open, is_change).order_by(candidate.c.file_id)).mappings().all()
    return [_to_record(c, row) for row in rows]


def find_held_removals(c: sa.Connection, root_id: RootId) -> list[FileId]:
    """Return the files of a root whose removal waits for a user."""
    is_held = candidate.c.state == CandidateState.HELD.value, candidate.c.kind == CandidateKind.REMOVAL.value
    return [
        FileId(row) for row in c.execute(sa.select(candidate.c.file_id).where(*is_held, _in_root(root_id))).scalars()
    ]


def find_held_paths(c: sa.Connection, root_id: RootId) -> list[bytes]:
    """Return the paths of a root whose change or removal waits for a user."""
    query = sa.select(folder.c.path, file.c.name).join(file, file.c.folder_id == folder.c.id)
    joined = query.join(candidate, candidate.c.file_id == file.c.id)
    rows = c.execute(joined.where(candidate.c.state == CandidateState.HELD.value, folder.c.root_id == root_id))
    return [join_path(row[0], row[1]) for row in rows]


def has_held(c: sa.Connection, root_id: RootId, prefix: bytes = b"") -> bool:
    """Return whether a candidate at or below a path waits for a user."""
    query = sa.select(candidate.c.file_id).join(file, file.c.id == candidate.c.file_id).join(folder)
    held = candidate.c.state == CandidateState.HELD.value
    return c.execute(query.where(held, inside(root_id, prefix)).limit(1)).first() is not None


def find_refuted(c: sa.Connection, root_id: RootId, now: int) -> list[FileId]:
    """Return the files of a root whose held change is obsolete, because the baseline was found again later."""
    is_change = candidate.c.state == CandidateState.HELD.value, candidate.c.kind == CandidateKind.CHANGE.value
    is_back = sa.or_(
        unless_ahead(file.c.verified_at, now) > candidate.c.seen_at, file.c.ctime_ns > candidate.c.ctime_ns
    )
    query = sa.select(candidate.c.file_id).join(file, file.c.id == candidate.c.file_id)
    return [FileId(one) for one in c.execute(query.where(*is_change, _in_root(root_id), is_back)).scalars()]


class Staged(NamedTuple):
    """Number of staged candidates. A name to which another file was moved counts only as ``moved``."""

    changed: int
    removed: int
    moved: int


def count_staged(c: sa.Connection, root_id: RootId) -> Staged:
    """Count the candidates that wait for their run's decision."""
    is_change, is_removal = (candidate.c.kind == kind.value for kind in (CandidateKind.CHANGE, CandidateKind.REMOVAL))
    is_moved = candidate.c.because.is_not_distinct_from(BaselineReason.MOVED.value)
    kinds = (is_change & ~is_moved, is_removal, is_change & is_moved)
    query = sa.select(*(sa.func.count().filter(kind) for kind in kinds))
    row = c.execute(query.where(candidate.c.state == CandidateState.STAGED.value, _in_root(root_id))).one()
    return Staged(*map(int, row))


def count_candidates(c: sa.Connection, root_id: RootId, state: CandidateState) -> tuple[int, int]:
    """Return the number of changes and the number of removals in a state."""
    is_change, is_removal = (candidate.c.kind == kind.value for kind in (CandidateKind.CHANGE, CandidateKind.REMOVAL))
    query = sa.select(sa.func.count().filter(is_change), sa.func.count().filter(is_removal))
    row = c.execute(query.where(candidate.c.state == state.value, _in_root(root_id))).one()
    return int(row[0]), int(row[1])


def measure_removals(c: sa.Connection, root_id: RootId) -> tuple[int, int]:
    """Return the number and the recorded size in bytes of the files whose removal is staged or held."""
    query = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(file.c.size_bytes), 0))
    waits = candidate.c.state.in_([CandidateState.STAGED.value, CandidateState.HELD.value])
    is_removal = candidate.c.kind == CandidateKind.REMOVAL.value
    joined = query.select_from(candidate.join(file, candidate.c.file_id == file.c.id))
    row = c.execute(joined.where(waits, is_removal, _in_root(root_id))).one()
    return int(row[0]), int(row[1])


def count_recent_changes(c: sa.Connection, root_id: RootId, since: int, until: int) -> tuple[int, int]:
    """Return how many changes and how many removals were accepted between two times (R5 uses 24 h)."""
    return count_replaced(c, root_id, since, until)


def promote(
    c: sa.Connection,
    sealer: Sealer,
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
        Whether it was accepted. If not: a file with an open finding keeps it as frozen (R6). If the candidate, its
        blocks, or the file's row is damaged, the candidate is dropped and the next scan reads the file again (R9).

    Raises:
        CatalogError: the file has no candidate.
    """
    found = get_candidate(c, file_id)
    if found is None:
        raise CatalogError(f"file {file_id}: nothing waits to be taken over; scan its root again")
    old = require_record(c, sealer, file_id)
    is_user_decision = because in USER_DECISIONS
    if not found.is_sealed or not (old.is_sealed or is_user_decision):
        drop_candidate(c, file_id)
        return False
    if found.kind is CandidateKind.REMOVAL:
        remove_files(c, sealer, root, [file_id], because=because, now=now)
        return True
    if old.is_frozen and not is_user_decision:
        c.execute(sa.update(candidate).where(candidate.c.file_id == file_id).values(state=CandidateState.FROZEN.value))
        return False
    if not move_runs(c, sealer, file_id, CANDIDATE_VERSION, old.version + 1):
        drop_candidate(c, file_id)
        return False
    assert found.witness is not None
    put_baseline(
        *(c, sealer, root, old, found.witness, found.digests, found.block_size_bytes, found.read_how),
        because=because,
        now=now,
        boot_id=boot_id,
        note=note,
    )
    drop_candidate(c, file_id)
    return True


def set_witness(c: sa.Connection, known: CandidateRecord, witness: Witness) -> None:
    """Store a new witness of a candidate whose content was found again; do nothing if the candidate was replaced."""
    this = candidate.c.file_id == known.file_id, candidate.c.run_id == known.run_id
    row = c.execute(sa.select(candidate).where(*this)).mappings().one_or_none()
    if row is None or _witness(row) != known.witness:
        return
    values = {**witness._asdict(), "is_racy": int(witness.is_racy)}
    c.execute(sa.update(candidate).where(*this).values(values))


def discard(c: sa.Connection, file_id: FileId) -> None:
    """Delete the candidate of a file, if it has one."""
    drop_candidate(c, file_id)


def discard_all(c: sa.Connection, ids: Iterable[FileId]) -> None:
    """Delete the candidates of files."""
    for file_id in ids:
        drop_candidate(c, file_id)


def find_staged(c: sa.Connection, root_id: RootId, last_file_id: int | None = None) -> list[FileId]:
    """
    Return the files of a root with a staged candidate.

    ``last_file_id``: leave out removals of files that were first recorded after the file with this id.
    """
    staged = [candidate.c.state == CandidateState.STAGED.value, _in_root(root_id)]
    if last_file_id is not None:
        is_recorded_since = file.c.version == 1, file.c.id > last_file_id
        is_new = sa.exists().where(file.c.id == candidate.c.file_id, *is_recorded_since)
        staged.append(sa.or_(candidate.c.kind != CandidateKind.REMOVAL.value, ~is_new))
    query = sa.select(candidate.c.file_id).where(*staged).order_by(candidate.c.file_id)
    return [FileId(one) for one in c.execute(query).scalars()]


def discard_staged_of(c: sa.Connection, ids: Iterable[FileId]) -> list[FileId]:
    """Delete the staged candidates of files; return the files that had one."""
    found: list[FileId] = []
    for chunk in chunked(ids):
        staged = candidate.c.state == CandidateState.STAGED.value, candidate.c.file_id.in_(chunk)
        found += c.execute(sa.select(candidate.c.file_id).where(*staged)).scalars()
    for file_id in found:
        drop_candidate(c, file_id)
    return found


def hold(c: sa.Connection, ids: Iterable[FileId]) -> None:
    """Hold the staged candidates of files until a user decides (mass change)."""
    for chunk in chunked(ids):
        staged = _IS_STAGED, candidate.c.kind != CandidateKind.TIMES.value, candidate.c.file_id.in_(chunk)
        c.execute(sa.update(candidate).where(*staged).values(state=CandidateState.HELD.value))


def _in_root(root_id: RootId) -> sa.ColumnElement[bool]:
    return sa.exists().where(
        file.c.id == candidate.c.file_id, folder.c.id == file.c.folder_id, folder.c.root_id == root_id
    )


def _to_record(c: sa.Connection, row: Any) -> CandidateRecord:
    is_sealed = bool(row["is_sealed"])
    if not is_sealed:
        note_damage(c, [DamagedRow(candidate.name, (row["file_id"],))])
    is_change = is_sealed and row["kind"] == CandidateKind.CHANGE.value
    because, how = (row["because"], row["read_how"]) if is_sealed else (None, None)
    return CandidateRecord(
        file_id=row["file_id"],
        root_id=row["root_id"],
        path=join_path(row["folder_path"], row["name"]),
        kind=CandidateKind.CHANGE if is_change or row["kind"] != "removal" else CandidateKind.REMOVAL,
        state=read_word(CandidateState, row["state"]),
        verdict=row["verdict"],
        because=read_optional_word(BaselineReason, because),
        witness=_witness(row) if is_change else None,
        digests=Digests(*(row[name] for name in Digests._fields)) if is_change else Digests(),
        block_size_bytes=row["block_size_bytes"] if is_change else None,
        version=CANDIDATE_VERSION,
        read_how=read_optional_word(ReadHow, how),
        seen_at=row["seen_at"],
        run_id=row["run_id"],
        boot_id=row["boot_id"],
        is_sealed=is_sealed,
    )


def _witness(row: Any) -> Witness:
    return Witness(row["size_bytes"], row["mtime_ns"], row["ctime_ns"], row["inode"], bool(row["is_racy"]))
