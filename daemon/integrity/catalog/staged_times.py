"""
Times of files that moved while the content stayed: candidates with the recorded content under another time.

Such a file keeps its recorded witness until the run ends: it shows what the moved times of changed files beside it
mean. Only these functions see these candidates.

Folders whose files get other times again and again keep no times: one row of ``meta`` for each root counts how often
that was seen of which folder. What was not seen for long is dropped.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from integrity.catalog.baselines import IS_SAME, Verified, refresh_witnesses, same_as, set_witnesses
from integrity.catalog.db import Connection, numbers
from integrity.catalog.root_meta import RootMeta
from integrity.catalog.roots import RootRecord
from integrity.catalog.rows import FileRecord, load_records
from integrity.catalog.versions import IS_CANDIDATE, SAME_CONTENT, discard, discard_staged, find_candidate_ids
from integrity.model import FileId, ReadHow, RootId, RunId, Witness
from integrity.same_time import TimeMove

_HABITS = RootMeta("times")
_ID = "folders"
_IS_HABIT = 3  # times that a folder's times must have moved: twice may be a copy and its repetition
_KEPT_S = 60 * 86_400
_MOST = 1000

_IS_STAGED = f"{IS_CANDIDATE} AND version.state = 'staged' AND version.verdict = '{SAME_CONTENT}'"


def stage_times(c: Connection, rows: Sequence[Verified], run_id: RunId, *, is_evidence: bool = False) -> set[FileId]:
    """
    Stage the new witnesses of files whose content is as recorded under another time; return these files.

    Left out are those that have a candidate that waits for a decision, and those whose record was replaced since.
    ``is_evidence``: the recorded witnesses stay, because the names may lead to the files of other records.
    """
    ids = [one.record.id for one in rows]
    discard_staged(c, ids)
    query = f"""
        INSERT INTO version (
            root_id, file_id, path, number, state, size_bytes, mtime_ns, ctime_ns, inode, is_racy,
            verdict, read_how, run_id, recorded_at
        ) SELECT ?, file.id, ?, file.version + 1, 'staged', ?, ?, ?, ?, ?, '{SAME_CONTENT}', ?, run.id, run.started_at
        FROM file JOIN run ON run.id = ?
        WHERE {IS_SAME} AND NOT EXISTS (SELECT 1 FROM version WHERE version.file_id = file.id AND {IS_CANDIDATE})"""
    values = (
        (
            *(one.record.root_id, one.record.path, *(one.witness or ())),
            *(None if is_evidence else one.how.value, run_id, *same_as(one.record)),
        )
        for one in rows
    )
    if c.run_many(query, values) == len(rows):
        return set(ids)
    query = f"SELECT file_id FROM version WHERE {_IS_STAGED} AND file_id IN (SELECT value FROM json_each(?))"
    return set(c.column(query, numbers(ids)))


class MovedTime(NamedTuple):
    """A file with another time than recorded."""

    file_id: FileId
    folder: bytes
    size_bytes: int
    checked_at: int  # when its content was last known to be as recorded
    move: TimeMove
    is_same: bool  # it is now


def find_moved_times(c: Connection, root_id: RootId, run_id: RunId, *, is_same: bool) -> Iterator[MovedTime]:
    """
    Yield the files that a run found with another time, with or without the recorded content.

    Those with other content are left out if something else than their time explains it. Archives have findings of them.
    """
    is_written = """(
        version.state = 'staged' AND version.reason IN ('edited', 'rolled_back')
        OR version.state = 'frozen' AND version.reason IS NULL AND version.verdict IN ('changed', 'rolled_back')
    )"""
    query = f"""
        SELECT
            file.id, folder.path, file.size_bytes, max(file.recorded_at, coalesce(file.verified_at, 0)),
            file.mtime_ns, version.mtime_ns
        FROM version JOIN file ON file.id = version.file_id JOIN folder ON folder.id = file.folder_id
        WHERE {IS_CANDIDATE} AND version.run_id = ? AND +version.root_id = ?
        AND {f"version.verdict = '{SAME_CONTENT}'" if is_same else is_written}"""
    for *place, recorded_ns, seen_ns in c.rows(query, run_id, root_id):
        yield MovedTime._make((*place, TimeMove(recorded_ns, seen_ns), is_same))


def find_staged_times(c: Connection, root_id: RootId) -> list[FileId]:
    """Return the files of a root whose new witness is staged."""
    return find_candidate_ids(c, root_id, _IS_STAGED)


def apply_times(
    c: Connection, ids: Sequence[FileId], *, from_disk: bool, has_stable_inodes: bool, now: int, boot_id: int | None
) -> None:
    """Store staged witnesses; files become unverified unless the run verified them (``from_disk``: it does)."""
    query = f"""
        SELECT file_id, size_bytes, mtime_ns, ctime_ns, inode, is_racy, read_how, recorded_at FROM version
        WHERE {_IS_STAGED} AND read_how IS NOT NULL AND file_id IN (SELECT value FROM json_each(?))"""
    staged = {row[0]: row[1:] for row in c.rows(query, numbers(ids))}
    verified: list[tuple[FileRecord, Witness]] = []
    refreshed: list[Verified] = []
    for record in load_records(c, staged):
        *stamps, is_racy, how, seen_at = staged[record.id]
        witness = Witness._make((*stamps, bool(is_racy)))
        if from_disk and record.verified_at is not None and record.verified_at >= seen_at:
            verified.append((record, witness))
        else:
            refreshed.append(Verified(record, witness, ReadHow(how)))
    set_witnesses(c, verified)
    refresh_witnesses(c, refreshed, has_stable_inodes=has_stable_inodes, now=now, boot_id=boot_id)
    discard(c, ids)


def find_timeless(c: Connection, root: RootRecord) -> set[bytes]:
    """Return the folders of a root that keep no times."""
    return {folder for folder, (count, _) in _load(c, root).items() if count >= _IS_HABIT}


def count_moved(c: Connection, root: RootRecord, folders: Iterable[bytes], now: int) -> list[bytes]:
    """Count the folders whose times moved in a run; return those that keep no times, as is known from now on."""
    known = {folder: one for folder, one in _load(c, root).items() if one[1] > now - _KEPT_S}
    for folder in sorted(folders):
        count, _ = known.get(folder, (0, now))
        if folder in known or len(known) < _MOST:
            known[folder] = min(count + 1, _IS_HABIT + 1), now
    _HABITS.save(c, root, _ID, {b64encode(folder).decode(): one for folder, one in known.items()})
    return [folder for folder in sorted(folders) if known.get(folder, (0, 0))[0] == _IS_HABIT]


def _load(c: Connection, root: RootRecord) -> dict[bytes, tuple[int, int]]:
    return {
        b64decode(name): (one[0], one[1])
        for _, value in _HABITS.find(c, root)
        for name, one in value.items()
        if isinstance(one, list)  # not the key that earlier versions put into all objects
    }
