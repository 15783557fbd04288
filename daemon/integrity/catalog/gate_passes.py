"""
The gate before backups: when it last passed a folder, and what happened to the files below it since.

"Since" is decided by ids, not by the clock, which may have been wrong: those of versions and files are never reused.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from integrity.catalog.db import Connection
from integrity.catalog.rows import FILE_JOIN, below, inside, join_path
from integrity.model import BaselineReason, RootId

ABOVE_ALL = (1 << 63) - 1  # larger than any file id in use

_BY_USER = (BaselineReason.ACCEPTED.value, BaselineReason.REPAIRED.value)


class Passed(NamedTuple):
    """Position of a gate when it passed: rows with higher ids are newer."""

    at: int
    last_version_id: int
    last_file_id: int


class PassedContent(NamedTuple):
    """Size and digests of a file, as far as they are known."""

    size_bytes: int
    md5: bytes | None
    xxh3_128: bytes | None

    def is_same(self, other: PassedContent) -> bool:
        """Return whether both contents are known to be equal."""
        pairs = (self.md5, other.md5), (self.xxh3_128, other.xxh3_128)
        known = [one == another for one, another in pairs if one is not None and another is not None]
        return self.size_bytes == other.size_bytes and bool(known) and all(known)


class Rewritten(NamedTuple):
    """A recorded file whose baseline was replaced."""

    path: bytes
    before: PassedContent
    now: PassedContent


class RecordedChange(NamedTuple):
    """A path and the content that is or was recorded there."""

    path: bytes
    content: PassedContent


def get_passed(c: Connection, root_id: RootId, prefix: bytes) -> Passed | None:
    """Return the position at which the gate last passed a part of a root; None: never."""
    sql = "SELECT passed_at, last_version_id, last_file_id FROM gate WHERE root_id = ? AND prefix = ?"
    return c.one(Passed, sql, root_id, prefix)


def get_present(c: Connection, now: int) -> Passed:
    """Return the position of a gate that passes now."""
    next_file_id = int(c.value("SELECT value FROM meta WHERE key = 'next_file_id'"))
    return Passed(now, c.value("SELECT max(id) FROM version WHERE state = 'former'") or 0, next_file_id - 1)


def get_past(c: Connection, root_id: RootId, at: int) -> Passed:
    """
    Return the position that a gate of a root would have had at a time.

    Files are new if they were recorded since the last run that ended before that time. Without such a run, the files
    that the root's first run recorded are not new. While the first run is in progress, no file is new.
    """
    before = "SELECT max(id) FROM version WHERE state = 'former' AND root_id = ? AND replaced_at < ?"
    last_version_id = c.value(before, root_id, at)
    ended = "SELECT last_file_id FROM run WHERE root_id = ? AND last_file_id IS NOT NULL"
    last_file_id = c.value(f"{ended} AND finished_at < ? ORDER BY id DESC LIMIT 1", root_id, at)
    if last_file_id is None:
        last_file_id = c.value(f"{ended} ORDER BY id LIMIT 1", root_id)
    return Passed(at, last_version_id or 0, ABOVE_ALL if last_file_id is None else last_file_id)


def set_passed(c: Connection, root_id: RootId, prefix: bytes, passed: Passed) -> None:
    """Record that the gate passed a part of a root, or that its present state was accepted as seen."""
    query = """
        INSERT OR REPLACE INTO gate (root_id, prefix, passed_at, last_version_id, last_file_id)
        VALUES (?, ?, ?, ?, ?)"""
    c.run(query, root_id, prefix, *passed)


def has_been_there(c: Connection, root_id: RootId, prefix: bytes) -> bool:
    """Return whether a gate passed this path or a part of it (above proves nothing), or a former version is there."""
    for place, column in (("gate WHERE", "prefix"), ("version WHERE state = 'former' AND", "path")):
        part, values = below(column, prefix)
        if c.row(f"SELECT 1 FROM {place} root_id = ? AND {part} LIMIT 1", root_id, *values):
            return True
    return False


def find_paths(c: Connection, root_id: RootId) -> Iterator[bytes]:
    """Yield the paths of all recorded files of a root, in no particular order."""
    rows = c.rows(f"SELECT folder.path, file.name FROM {FILE_JOIN} WHERE folder.root_id = ?", root_id)
    return (join_path(*row) for row in rows)


def find_rewritten(c: Connection, root_id: RootId, prefix: bytes, since: Passed) -> Iterator[Rewritten]:
    """
    Yield the files that were recorded before ``since`` and were rewritten after it, without a user decision.

    Each file is yielded once, with its content before the first rewrite; a user decision restarts this. Grown and
    rotated files are left out: all of their recorded content was proven to be still there.
    """
    part, values = below("version.path", prefix)
    query = f"""
        SELECT version.file_id, version.replaced_because, folder.path, file.name,
            version.size_bytes, version.md5, version.xxh3_128, file.size_bytes, file.md5, file.xxh3_128
        FROM version JOIN file ON file.id = version.file_id JOIN folder ON folder.id = file.folder_id
        WHERE version.state = 'former' AND version.root_id = ? AND version.id > ? AND version.file_id <= ? AND {part}
            AND version.replaced_because IN ('edited', 'rolled_back', 'rewritten_in_place', 'accepted', 'repaired')
        ORDER BY version.file_id, version.id"""
    rows = c.rows(query, root_id, since.last_version_id, since.last_file_id, *values)
    for _, steps in groupby(rows, itemgetter(0)):
        first: Rewritten | None = None
        for _, because, folder_path, name, *contents in steps:
            if because in _BY_USER:
                first = None
            elif first is None:
                before, now = PassedContent(*contents[:3]), PassedContent(*contents[3:])
                first = Rewritten(join_path(folder_path, name), before, now)
        if first is not None:
            yield first


def find_removed(c: Connection, root_id: RootId, prefix: bytes, since: Passed) -> Iterator[RecordedChange]:
    """Yield the files that were recorded before ``since`` and deleted after it, without a user decision."""
    part, values = below("version.path", prefix)
    query = f"""
        SELECT version.path, version.size_bytes, version.md5, version.xxh3_128 FROM version
        WHERE version.state = 'former' AND version.root_id = ? AND version.id > ? AND version.file_id <= ?
            AND {part} AND version.replaced_because = 'deleted'
            AND NOT EXISTS (SELECT 1 FROM file WHERE file.id = version.file_id)"""
    rows = c.rows(query, root_id, since.last_version_id, since.last_file_id, *values)
    for path, *content in rows:
        yield RecordedChange(path, PassedContent(*content))


def find_new(c: Connection, root_id: RootId, prefix: bytes, since: Passed | None) -> Iterator[RecordedChange]:
    """Yield the files that were first recorded after ``since``, newest first; None: all files."""
    part, values = inside(root_id, prefix, is_hidden=True)
    query = f"""
        SELECT folder.path, file.name, file.size_bytes, file.md5, file.xxh3_128 FROM {FILE_JOIN}
        WHERE file.id > ? AND {part} ORDER BY file.id DESC"""
    rows = c.rows(query, 0 if since is None else since.last_file_id, *values)
    for folder_path, name, *content in rows:
        yield RecordedChange(join_path(folder_path, name), PassedContent(*content))


def find_touched(c: Connection, root_id: RootId, prefix: bytes) -> Iterator[bytes]:
    """Yield the files whose ctime or inode changed alone and that no scrub has read since."""
    part, values = inside(root_id, prefix, is_hidden=True)
    rows = c.rows(f"SELECT folder.path, file.name FROM {FILE_JOIN} WHERE file.is_suspect = 1 AND {part}", *values)
    return (join_path(*row) for row in rows)
