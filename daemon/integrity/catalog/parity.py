"""
Parity sets: which exist, and which content of which files each can heal.

A set has the content that a file had when the set was made. It is *fresh* while that is the recorded content, whatever
name the file has by now; what is stale costs as much of the set as damage of this size.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from integrity.catalog.db import Connection, numbers
from integrity.catalog.rows import FILE_JOIN, inside_in_order, join_path, quoted, split_path
from integrity.kinds import REPAIRABLE
from integrity.model import FileId, RootId

_SET = """
    parity_set.id, parity_set.path, parity_set.slice_bytes, parity_set.source_slices, parity_set.recovery_slices,
    parity_set.size_bytes, parity_set.made_at, parity_set.checked_at, parity_set.is_damaged"""
_MEMBERS = """
    JOIN parity_file ON parity_file.set_id = parity_set.id
    LEFT JOIN file ON file.id = parity_file.file_id AND file.md5 = parity_file.md5"""
"""The files of sets; the columns of ``file`` are null for stale content."""

_HELD = f"""
    parity_set.id IN (
        SELECT parity_file.set_id FROM finding JOIN parity_file ON parity_file.file_id = finding.file_id
        WHERE finding.state != 'resolved' AND finding.copy = '' AND finding.kind IN ({quoted(REPAIRABLE)}))"""
_ODD = "'*[' || char(1) || '-' || char(31) || '\\]*'"  # backslashes and control characters
_LONGEST_NAME = 253  # in bytes
_PAGE = 1000


class ParitySet(NamedTuple):
    """A set. ``path``: absolute, of its file; ``checked_at``: when all of its file was last read."""

    id: int
    path: bytes
    slice_bytes: int
    source_slices: int
    recovery_slices: int
    size_bytes: int
    made_at: int
    checked_at: int
    is_damaged: bool


class SetUse(NamedTuple):
    """
    What a set is good for by now.

    Attributes:
        files, bytes: of fresh content.
        stale_slices: of content that is not the recorded one any more.
        is_held: a finding about one of its files is open, so it must stay.
    """

    set: ParitySet
    files: int
    bytes: int
    stale_slices: int
    is_held: bool

    @property
    def left_slices(self) -> int:
        """Return how many damaged slices it can heal."""
        return max(0, self.set.recovery_slices - self.stale_slices)


class ParityFile(NamedTuple):
    """
    The content of a file that a set has.

    Attributes:
        path: of the file that has this content as recorded, relative to the root; None: there is none any more.
        mode, uid, gid: when the set was made.
    """

    file_id: FileId
    path: bytes | None
    size_bytes: int
    md5: bytes
    mode: int
    uid: int
    gid: int


class Candidate(NamedTuple):
    """A recorded file that no set covers."""

    id: FileId
    path: bytes  # relative to the root
    size_bytes: int
    mtime_ns: int
    md5: bytes


class Protection(NamedTuple):
    """How much of a root is protected: its files, and what their sets can bear."""

    files: int
    bytes: int
    parity_bytes: int
    least_percent: float  # of the set that can bear least: of its data
    oldest_at: int  # when the set was made that is oldest
    damaged_sets: int


def add_set(c: Connection, root_id: RootId, one: ParitySet, files: Iterable[ParityFile]) -> None:
    """Record a set; ``id`` is ignored."""
    query = """
        INSERT INTO parity_set (
            root_id, path, slice_bytes, source_slices, recovery_slices, size_bytes, made_at, checked_at, is_damaged
        ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""
    set_id = c.insert(query, root_id, *one[1:8], int(one.is_damaged))
    rows = ((set_id, of.file_id, of.size_bytes, of.md5, of.mode, of.uid, of.gid) for of in files)
    c.run_many("INSERT INTO parity_file VALUES (?, ?, ?, ?, ?, ?, ?)", rows)


def move_set(c: Connection, set_id: int, path: bytes) -> None:
    """Record where the file of a set is now."""
    c.run("UPDATE parity_set SET path = ? WHERE id = ?", path, set_id)


def drop_set(c: Connection, set_id: int) -> None:
    """Forget a set."""
    c.run("DELETE FROM parity_set WHERE id = ?", set_id)


def note_checked(c: Connection, set_id: int, recovery_slices: int, *, is_damaged: bool, now: int) -> None:
    """Record what reading the file of a set showed."""
    query = "UPDATE parity_set SET recovery_slices = ?, is_damaged = ?, checked_at = ? WHERE id = ?"
    c.run(query, recovery_slices, int(is_damaged), now, set_id)


def has_sets(c: Connection, root_id: RootId) -> bool:
    """Return whether a root has any set."""
    return c.value("SELECT EXISTS (SELECT 1 FROM parity_set WHERE root_id = ?)", root_id) == 1


def find_sets(c: Connection, root_id: RootId) -> list[SetUse]:
    """Return the sets of a root, those first that were read longest ago."""
    query = f"""
        SELECT {_SET}, count(file.id), coalesce(sum(file.size_bytes), 0),
            sum(CASE WHEN file.id IS NULL
                THEN (parity_file.size_bytes + parity_set.slice_bytes - 1) / parity_set.slice_bytes ELSE 0 END),
            {_HELD}
        FROM parity_set {_MEMBERS}
        WHERE parity_set.root_id = ? GROUP BY parity_set.id ORDER BY parity_set.checked_at, parity_set.id"""
    rows = c.rows(query, root_id)
    return [SetUse(_make_set(*one), files, size, stale, bool(held)) for *one, files, size, stale, held in rows]


def find_covers(c: Connection, file_id: FileId) -> list[ParitySet]:
    """Return the sets that have the recorded content of a file, the newest intact one first."""
    query = f"""
        SELECT {_SET} FROM parity_set {_MEMBERS} WHERE file.id = ?
        ORDER BY parity_set.is_damaged, parity_set.made_at DESC, parity_set.id DESC"""
    return c.all(_make_set, query, file_id)


def find_files(c: Connection, set_id: int) -> list[ParityFile]:
    """Return the files of a set."""
    query = f"""
        SELECT parity_file.file_id, folder.path, file.name, parity_file.size_bytes, parity_file.md5,
            parity_file.mode, parity_file.uid, parity_file.gid
        FROM parity_set {_MEMBERS} LEFT JOIN folder ON folder.id = file.folder_id WHERE parity_set.id = ?"""
    rows = c.rows(query, set_id)
    return [ParityFile(file_id, name and join_path(folder, name), *rest) for file_id, folder, name, *rest in rows]


def find_candidates(
    c: Connection, root_id: RootId, prefix: bytes, *, rested_at: int | None, leaving: Collection[int]
) -> Iterator[Candidate]:
    """Yield all of ``page_candidates``."""
    after: Candidate | None = None
    while page := page_candidates(c, root_id, prefix, after, rested_at=rested_at, leaving=leaving):
        yield from page
        after = page[-1]


def page_candidates(
    c: Connection,
    root_id: RootId,
    prefix: bytes,
    after: Candidate | None,
    *,
    rested_at: int | None,
    leaving: Collection[int],
) -> list[Candidate]:
    """
    Return the next files that no intact set covers, in the order of folder and name.

    Names that par2 can't write as they are (``packets.ODD_NAME``) are left out.

    Args:
        rested_at: only files that were recorded up to this time and verified since; None: all.
        leaving: sets that will go, so that their files are to be covered anew.
    """
    folder_path, name = (b"", b"") if after is None else split_path(after.path)
    part, values = inside_in_order(root_id, prefix, folder_path)
    rested = "1" if rested_at is None else f"file.verified_at NOT NULL AND file.recorded_at <= {rested_at}"
    # Not (folder.path, file.name) > (?, ?): that reads each file of a folder again for each page.
    query = f"""
        SELECT file.id, folder.path, file.name, file.size_bytes, file.mtime_ns, file.md5 FROM {FILE_JOIN}
        WHERE {part} AND file.name > iif(folder.path = ?, ?, x'')
            AND file.size_bytes > 0 AND file.md5 NOT NULL AND file.is_frozen = 0 AND {rested}
            AND NOT (CAST(folder.path AS TEXT) GLOB {_ODD} OR CAST(file.name AS TEXT) GLOB {_ODD})
            AND length(folder.path) + length(file.name) > 1 AND length(file.name) <= {_LONGEST_NAME}
            AND NOT EXISTS (
                SELECT 1 FROM parity_file JOIN parity_set ON parity_set.id = parity_file.set_id
                WHERE parity_file.file_id = file.id AND parity_file.md5 = file.md5 AND parity_set.is_damaged = 0
                    AND parity_set.id NOT IN (SELECT value FROM json_each(?)))
        ORDER BY folder.path, file.name LIMIT {_PAGE}"""
    rows = c.rows(query, *values, folder_path, name, numbers(leaving))
    return [Candidate(number, join_path(folder, name), *rest) for number, folder, name, *rest in rows]


def find_spare(c: Connection, root_id: RootId) -> list[ParitySet]:
    """Return the sets of which each recorded content is in a newer intact one, and about no file a finding is open."""
    query = f"""
        SELECT {_SET} FROM parity_set WHERE parity_set.root_id = ? AND NOT {_HELD} AND NOT EXISTS (
            SELECT 1 FROM parity_file JOIN file ON file.id = parity_file.file_id AND file.md5 = parity_file.md5
            WHERE parity_file.set_id = parity_set.id AND NOT EXISTS (
                SELECT 1 FROM parity_file AS newer JOIN parity_set AS its ON its.id = newer.set_id
                WHERE newer.file_id = file.id AND newer.md5 = file.md5 AND its.id > parity_set.id
                    AND its.is_damaged = 0))"""
    return c.all(_make_set, query, root_id)


def find_protection(c: Connection, root_id: RootId) -> Protection | None:
    """Return how much of a root is protected; None if it has no set."""
    sets = find_sets(c, root_id)
    if not sets:
        return None
    query = """
        SELECT count(*), coalesce(sum(file.size_bytes), 0) FROM file WHERE EXISTS (
            SELECT 1 FROM parity_file JOIN parity_set ON parity_set.id = parity_file.set_id
            WHERE parity_file.file_id = file.id AND parity_file.md5 = file.md5
                AND parity_set.is_damaged = 0 AND parity_set.root_id = ?)"""
    [(files, size)] = c.rows(query, root_id)
    used = [one for one in sets if one.files and not one.set.is_damaged]
    return Protection(
        files,
        size,
        sum(one.set.size_bytes for one in sets),
        min((100 * one.left_slices / one.set.source_slices for one in used), default=0.0),
        min(one.set.made_at for one in sets),
        sum(1 for one in sets if one.set.is_damaged),
    )


def _make_set(*row: Any) -> ParitySet:
    return ParitySet._make((*row[:-1], bool(row[-1])))
