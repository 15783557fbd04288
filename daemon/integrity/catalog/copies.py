"""
Backup copies: which exist, and the last answer of each about every file.

An answer holds for one version of a baseline. Several disks that take turns at one place are several copies, each with
its own answers and findings. Beside the last answer stands what was *found* when the file that the copy is now was
first read, and under which times: the witness by which a copy can be called damaged later (I10 of ``arbitration``).

Also reports how long files have waited for a comparison. The wait starts when the present content was recorded, or when
the copy was first known if that was later. Every comparison restarts it, whatever its result: bad results are findings.
"""

import json
import os
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from integrity.catalog.db import Connection, numbers
from integrity.catalog.rows import FILE_JOIN, NEVER_AT, get_last_check, inside, join_path, read_word, unless_ahead
from integrity.files.excludes import Excludes
from integrity.model import CopyId, FileId, RootId

if TYPE_CHECKING:
    from integrity.arbitration import CopyVote
    from integrity.catalog.rows import FileRecord

_COPY = (
    "copy.id, copy.root_id, copy.prefix, copy.name, copy.url, copy.identity, copy.created_at, copy.listed_at,"
    " copy.has_bytes, copy.disk"
)
_FOUND = (
    "copy_file.found_version, copy_file.found_digest, copy_file.found_size_bytes, copy_file.found_at,"
    " copy_file.found_mtime_ns, copy_file.found_ctime_ns, copy_file.found_inode, copy_file.found_as,"
    " copy_file.had_recorded_at"
)


class CopyRecord(NamedTuple):
    """One copy of a root, or of a folder in it."""

    id: CopyId
    root_id: RootId
    prefix: bytes  # folder in the root that the copy's top stands for
    name: str  # in the configuration, or its URL without secrets
    url: str  # without secrets
    identity: str | None  # of a mounted copy
    created_at: int
    listed_at: int | None
    has_bytes: bool  # False: it has digests only
    disk: str | None = None  # which of several disks that take turns, part of the name; None: the first one

    @property
    def base_name(self) -> str:
        """Return the name that all disks at the copy's place share: that in the configuration, or the URL."""
        return self.name if self.disk is None else self.name.removesuffix(f" ({self.disk})")

    def find_base(self, root: bytes) -> bytes:
        """Return the absolute path of the folder that the copy's top stands for, given the path of the root."""
        return root.rstrip(b"/") + b"/" + self.prefix if self.prefix else root


class CopyFound(NamedTuple):
    """What a copy had when the file that it is now was first read, or was stated to be a recorded version."""

    version: int | None  # of the baseline that it had; None if it had other content
    digest: bytes | None  # XXH3-128 of that other content
    size_bytes: int | None  # of that other content
    found_at: int
    mtime_ns: int | None  # the time that the copy had then; None if it keeps none, or if it is not known
    ctime_ns: int | None  # its ctime then; None where that can't be trusted
    inode: int | None  # its inode then; None where that is given anew
    found_as: bytes | None = None  # path in the root under whose name the copy had it; None: under its own
    had_recorded_at: int | None = None  # when it last had a recorded version before that content; None: never seen

    @property
    def recorded_at(self) -> int | None:
        """Return when the copy was found with a recorded version; None: never."""
        return self.had_recorded_at if self.version is None else self.found_at


class CopyState(NamedTuple):
    """The last answer of a copy about a file."""

    file_id: FileId
    version: int  # of the baseline that it was compared with
    vote: "CopyVote"
    compared_at: int
    read_at: int | None  # when its bytes were last read, unless a comparison without reading contradicted that since
    stated: bytes | None = None  # digest of the checksums that the copy stated, if reading the file proved them right
    found: CopyFound | None = None  # None: never


new_found = partial(tuple.__new__, CopyFound)
new_state = partial(tuple.__new__, CopyState)
"""The same as the classes, without a Python call per file."""

_FIELDS = len(CopyFound._fields)
_NEVER_FOUND = (None,) * _FIELDS


def ensure_copy(
    c: Connection,
    root_id: RootId,
    prefix: bytes,
    name: str,
    url: str,
    identity: str | None,
    *,
    now: int,
    has_bytes: bool = True,
    disk: str | None = None,
    keeps_answers: bool = True,
) -> CopyRecord:
    """
    Return the record of a copy, creating it if it is new.

    Args:
        disk: of several at the copy's place; part of the name.
        keeps_answers: the disk is recognized, so its answers hold wherever it is mounted. Else they are dropped when
            the place changed.
    """
    stored = _store_url(url), identity, int(has_bytes)
    query = f"SELECT {_COPY} FROM copy WHERE root_id = ? AND prefix = ? AND name = ?"
    known = c.one(_make_record, query, root_id, prefix, name)
    if known is None:
        query = """
            INSERT INTO copy (root_id, prefix, name, url, identity, has_bytes, disk, created_at)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
        copy_id = c.insert(query, root_id, prefix, name, *stored, disk, now)
        return CopyRecord(CopyId(copy_id), root_id, prefix, name, url, identity, now, None, has_bytes, disk)
    if (known.url, known.identity, known.has_bytes) != (url, identity, has_bytes):
        if known.has_bytes != has_bytes or (known.url != url and not keeps_answers):
            c.run("DELETE FROM copy_file WHERE copy_id = ?", known.id)
            c.run("DELETE FROM copy_reading WHERE copy_id = ?", known.id)
        c.run("UPDATE copy SET url = ?, identity = ?, has_bytes = ? WHERE id = ?", *stored, known.id)
    return known._replace(url=url, identity=identity, has_bytes=has_bytes)


def rename_copy(c: Connection, record: CopyRecord, name: str) -> None:
    """Rename a copy and keep its answers; if the new name is taken, remove this copy instead."""
    taken = "SELECT 1 FROM copy WHERE root_id = ? AND prefix = ? AND name = ?"
    if c.row(taken, record.root_id, record.prefix, name) is None:
        c.run("UPDATE copy SET name = ? WHERE id = ?", name, record.id)
    else:
        remove_copy(c, record.id)


def find_copies(c: Connection, root_id: RootId | None = None) -> list[CopyRecord]:
    """Return the copies of a root, or of all roots, in the order in which they were first compared."""
    return c.all(_make_record, f"SELECT {_COPY} FROM copy WHERE root_id = ?1 OR ?1 IS NULL ORDER BY id", root_id)


def find_equal_times(c: Connection, copy_id: CopyId, limit: int) -> list[tuple[FileId, int, int]]:
    """Return files whose content the last comparison found equal, with their mtimes and those that the copies had."""
    query = """
        SELECT file.id, file.mtime_ns, copy_file.found_mtime_ns FROM copy_file JOIN file ON file.id = copy_file.file_id
        WHERE copy_file.copy_id = ? AND copy_file.vote = 'same' AND copy_file.version = file.version
            AND copy_file.found_version = file.version AND copy_file.found_mtime_ns IS NOT NULL
        LIMIT ?"""
    return list(c.rows(query, copy_id, limit))


def set_listed(c: Connection, copy_id: CopyId, now: int) -> None:
    """Record that a copy was listed completely."""
    c.run("UPDATE copy SET listed_at = ? WHERE id = ?", now, copy_id)


def save_states(c: Connection, copy_id: CopyId, states: Iterable[CopyState]) -> None:
    """Store the answers of a copy about files."""
    query = """
        INSERT OR REPLACE INTO copy_file (
            copy_id, file_id, version, vote, compared_at, read_at, stated,
            found_version, found_digest, found_size_bytes, found_at, found_mtime_ns, found_ctime_ns, found_inode,
            found_as, had_recorded_at
        ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
    rows = (
        (
            *(copy_id, one.file_id, one.version, one.vote, one.compared_at, one.read_at, one.stated),
            *(one.found or _NEVER_FOUND),
        )
        for one in states
    )
    c.run_many(query, rows)


def states_of_file(c: Connection, file_id: FileId) -> list[tuple[CopyRecord, CopyState]]:
    """Return the answer of each copy about a file, in the order of the copies."""
    from integrity.arbitration import CopyVote  # here, for `status` needs no verdicts

    query = f"""
        SELECT copy_file.version, copy_file.vote, copy_file.compared_at, copy_file.read_at, copy_file.stated,
            {_FOUND}, {_COPY}
        FROM copy CROSS JOIN copy_file ON copy_file.copy_id = copy.id WHERE copy_file.file_id = ? ORDER BY copy.id"""
    found = []
    for version, vote, compared_at, read_at, stated, *rest in c.rows(query, file_id):
        had = None if rest[3] is None else CopyFound(*rest[:_FIELDS])
        state = CopyState(file_id, version, read_word(CopyVote, vote), compared_at, read_at, stated, had)
        found.append((_make_record(*rest[_FIELDS:]), state))
    return found


class KnownFound(NamedTuple):
    """What is known of the place of a file in a copy."""

    here: CopyFound | None = None  # what the copy had there when what it has now was first read; None: unknown
    elsewhere: CopyFound | None = None  # what it had of the file under another name, when that was last read
    version: int | None = None  # of the baseline with which it was compared last; None: with none

    @property
    def recorded_at(self) -> int | None:
        """Return when the copy was last found with a recorded version, under whatever name; None: never."""
        known = (self.here, self.elsewhere)
        times = [one.recorded_at for one in known if one is not None and one.recorded_at is not None]
        return max(times, default=None)


def find_found(c: Connection, copy_id: CopyId, places: Mapping[FileId, bytes]) -> dict[FileId, KnownFound]:
    """
    Return what a copy had at the places of some files: paths in the root under whose names the copy has them.

    A file that was renamed since leaves its place in the copy to the file that has its name now.
    """
    query = f"""
        SELECT file_id, version, {_FOUND} FROM copy_file
        WHERE copy_id = ? AND file_id IN (SELECT value FROM json_each(?)) AND found_at IS NOT NULL"""
    own = {
        file_id: (version, CopyFound(*found)) for file_id, version, *found in c.rows(query, copy_id, numbers(places))
    }
    known = {}
    for file_id, place in places.items():
        version, mine = own.get(file_id, (None, None))
        if mine is not None and mine.found_as in (None, place):
            known[file_id] = KnownFound(mine, None, version)
        else:
            known[file_id] = KnownFound(_find_at(c, copy_id, place), mine, version)
    return known


def _find_at(c: Connection, copy_id: CopyId, place: bytes) -> CopyFound | None:
    """Return what a copy had at the place of a file that has another name now."""
    query = f"""
        SELECT coalesce(version.xxh3_128, file.xxh3_128), coalesce(version.size_bytes, file.size_bytes), {_FOUND}
        FROM copy_file
        LEFT JOIN file ON file.id = copy_file.file_id AND file.version = found_version
        LEFT JOIN version
            ON version.file_id = copy_file.file_id AND version.number = found_version AND version.state = 'former'
        WHERE copy_id = ? AND found_as = ? AND found_mtime_ns IS NOT NULL ORDER BY found_at DESC LIMIT 1"""
    row = c.row(query, copy_id, place)
    if row is None:
        return None
    digest, size_bytes, *rest = row
    found = CopyFound(*rest)
    if found.version is None:
        return found
    return found._replace(version=None, digest=digest, size_bytes=size_bytes, had_recorded_at=found.found_at)


def find_places(c: Connection, copy_id: CopyId, records: "Iterable[FileRecord]") -> dict[FileId, list[bytes]]:
    """Return the other paths under whose names a copy had the content of each file. Scans all files and versions."""
    wanted = {one.digests.xxh3_128: one for one in records if one.digests.xxh3_128 is not None}
    if not wanted:
        return {}
    query = f"""
        WITH wanted AS MATERIALIZED (SELECT unhex(value) AS digest FROM json_each(?2)),
        had AS (
            SELECT file_id, found_as, found_digest AS digest FROM copy_file
            WHERE copy_id = ?1 AND found_digest IN (SELECT digest FROM wanted)
            UNION ALL
            SELECT file_id, found_as, xxh3_128 FROM file JOIN copy_file
                ON copy_id = ?1 AND file_id = file.id AND found_version = file.version
            WHERE xxh3_128 IN (SELECT digest FROM wanted)
            UNION ALL
            SELECT copy_file.file_id, found_as, xxh3_128 FROM version JOIN copy_file
                ON copy_id = ?1 AND copy_file.file_id = version.file_id AND found_version = number
            WHERE state = 'former' AND xxh3_128 IN (SELECT digest FROM wanted)
        )
        SELECT digest, found_as, folder.path, file.name FROM had CROSS JOIN {FILE_JOIN} WHERE file.id = had.file_id"""
    found: dict[FileId, list[bytes]] = {}
    for digest, found_as, folder_path, name in c.rows(query, copy_id, json.dumps([key.hex() for key in wanted])):
        record, place = wanted[digest], join_path(folder_path, name) if found_as is None else found_as
        if place != record.path:
            found.setdefault(record.id, []).append(place)
    return found


def find_other_names(c: Connection, file_id: FileId) -> set[bytes]:
    """Return the paths in the root under whose names copies were last found to have a file."""
    sql = """
        SELECT copy_file.found_as FROM copy CROSS JOIN copy_file ON copy_file.copy_id = copy.id
        WHERE copy_file.file_id = ? AND copy_file.found_as IS NOT NULL"""
    return set(c.column(sql, file_id))


def find_good_copy(c: Connection, file_id: FileId, unless: CopyId | None = None) -> str | None:
    """Return the name of the copy, not ``unless``, that matched and can return its bytes, the last read first."""
    query = """
        SELECT copy.name FROM copy CROSS JOIN copy_file ON copy_file.copy_id = copy.id
        JOIN file ON file.id = copy_file.file_id AND file.version = copy_file.version
        WHERE copy_file.file_id = ? AND copy.id IS NOT ?
            AND copy_file.vote IN ('same', 'renamed') AND copy.has_bytes = 1
        ORDER BY copy_file.read_at DESC NULLS LAST, copy_file.compared_at DESC, copy.id LIMIT 1"""
    return c.value(query, file_id, unless)


def find_votes(c: Connection, copy_id: CopyId) -> "set[CopyVote]":
    """Return the distinct votes of a copy about present versions of files."""
    from integrity.arbitration import CopyVote

    sql = """
        SELECT DISTINCT copy_file.vote
        FROM copy_file JOIN file ON file.id = copy_file.file_id AND file.version = copy_file.version
        WHERE copy_file.copy_id = ?"""
    return {read_word(CopyVote, vote) for vote in c.column(sql, copy_id)}


def count_states(c: Connection, copy_id: CopyId) -> int:
    """Count the files that a copy has an answer about."""
    return c.value("SELECT count(*) FROM copy_file WHERE copy_id = ?", copy_id)


def remove_copy(c: Connection, copy_id: CopyId) -> None:
    """Remove a copy and its answers. The caller resolves findings about it."""
    c.run("DELETE FROM copy WHERE id = ?", copy_id)


def find_compared(c: Connection, copy_id: CopyId, *, are_gone: bool = False) -> list[FileId]:
    """Return the files that a copy has an answer or a partial reading of; ``are_gone``: only unrecorded files."""
    query = """
        WITH known AS (
            SELECT file_id FROM copy_file WHERE copy_id = ?1 UNION SELECT file_id FROM copy_reading WHERE copy_id = ?1
        ) SELECT file_id FROM known WHERE ?2 = 0 OR NOT EXISTS (SELECT 1 FROM file WHERE file.id = file_id)"""
    return c.column(query, copy_id, int(are_gone))


class FolderRead(NamedTuple):
    """What was read in a copy of the files of one folder; not of those of folders in it."""

    path: bytes
    size_bytes: int
    unread_files: int


def find_read_folders(c: Connection, copy: CopyRecord, prefix: bytes) -> list[FolderRead]:
    """Return how much of each folder was read in a copy since it was last listed to the end."""
    part, values = inside(copy.root_id, prefix)
    query = f"""
        SELECT folder.path, sum(file.size_bytes), count(*) - count(CASE WHEN copy_file.read_at > ? THEN 1 END)
        FROM {FILE_JOIN} LEFT JOIN copy_file
            ON copy_file.copy_id = ? AND copy_file.file_id = file.id AND copy_file.version = file.version
        WHERE {part} GROUP BY folder.id"""
    return list(map(FolderRead._make, c.rows(query, copy.listed_at or 0, copy.id, *values)))


def drop_states(c: Connection, copy_id: CopyId, ids: Iterable[FileId]) -> None:
    """Delete a copy's answers about and partial readings of files."""
    some = numbers(ids)
    c.run("DELETE FROM copy_file WHERE copy_id = ? AND file_id IN (SELECT value FROM json_each(?))", copy_id, some)
    c.run("DELETE FROM copy_reading WHERE copy_id = ? AND file_id IN (SELECT value FROM json_each(?))", copy_id, some)


def _make_record(
    copy_id: CopyId, root_id: RootId, prefix: bytes, name: str, url: str, identity: str | None, *rest: Any
) -> CopyRecord:
    if url.startswith("\\"):
        url = os.fsdecode(url[1:].encode("latin-1"))
    created_at, listed_at, has_bytes, disk = rest
    return CopyRecord(copy_id, root_id, prefix, name, url, identity, created_at, listed_at, bool(has_bytes), disk)


def _store_url(url: str) -> str:
    """Encode a URL as text; one that is not UTF-8 as a backslash (no URL begins with one) and its bytes as Latin-1."""
    try:
        url.encode()
    except UnicodeEncodeError:
        return "\\" + os.fsencode(url).decode("latin-1")
    return url


class CopyWaits(NamedTuple):
    """State of a copy's comparisons."""

    files: int
    compared: int  # in their present version
    same: int  # by the copy's answer
    read: int  # same, by reading the copy's bytes
    silent: int  # compared without a result
    last_compared_at: int | None  # of any file; None: never
    waits_since: int | None  # of the file that has waited longest; None: there is no file
    overdue: int


def find_waits(
    c: Connection, record: CopyRecord, *, now: int, verify_every_s: int, left_out: Excludes | None = None
) -> CopyWaits:
    """
    Summarize one copy in one pass over the files that it should have.

    ``left_out``: what the backup leaves out on purpose, by paths in the copy. Of these, files count that it has.
    """
    late = now - verify_every_s
    compared_at = unless_ahead("copy_file.compared_at", now)
    recorded_at = f"coalesce({unless_ahead('file.recorded_at', now)}, {NEVER_AT})"
    began_at = f"max({recorded_at}, {get_last_check(None, record.created_at, now)})"
    since = f"coalesce({compared_at}, {began_at})"
    part, values = inside(record.root_id, record.prefix)
    files = f"""
        file JOIN folder ON folder.id = file.folder_id
        LEFT JOIN copy_file
            ON copy_file.copy_id = {record.id} AND copy_file.file_id = file.id AND copy_file.version = file.version
        WHERE {part}"""
    summary = f"""
        SELECT count(*), count(copy_file.file_id), count(*) FILTER (WHERE copy_file.vote = 'same'),
            count(copy_file.read_at) FILTER (WHERE copy_file.vote = 'same'),
            count(*) FILTER (WHERE copy_file.vote IN ('not_comparable', 'unreadable')),
            max({compared_at}), min({since}), count(*) FILTER (WHERE {since} < {late})
        FROM {files}"""
    [found] = c.all(CopyWaits, summary if left_out is None else f"{summary} AND copy_file.file_id IS NOT NULL", *values)
    if left_out is None:
        return found
    start = len(record.prefix) + 1 if record.prefix else 0
    uncompared = f"SELECT folder.path, file.name, {began_at} FROM {files} AND copy_file.file_id IS NULL"
    expected = [
        waits_since
        for folder_path, name, waits_since in c.rows(uncompared, *values)
        if not left_out.covers(join_path(folder_path, name)[start:])
    ]
    starts = [*expected, *([] if found.waits_since is None else [found.waits_since])]
    return found._replace(
        files=found.files + len(expected),
        waits_since=min(starts, default=None),
        overdue=found.overdue + sum(waits_since < late for waits_since in expected),
    )
