"""
Decide whether an inode is the recorded one or a new file that reused its number, and under which name it is now.

A scrub reads hard links of one file once and reports the result for each name. They are recognized by equal witness
(inode, size and times). The work order puts names of one inode next to each other; names that are not grouped are read
twice, which costs time only.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import versions
from integrity.catalog.rows import FileRecord
from integrity.files.direct_io import find_birth_ns
from integrity.files.open_beneath import GONE, stat_beneath
from integrity.files.stamps import witness_of
from integrity.model import FileId, Witness
from integrity.same_time import is_unwritten

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.catalog.versions import FileVersion
    from integrity.files.listing import Seen
    from integrity.jobs.context import RootRun


_SECOND_NS = 1_000_000_000


def as_last_seen(connection: Connection, record: FileRecord) -> FileRecord:
    """
    Return a record with the witness that its file was last seen with.

    A candidate's witness counts only with the recorded inode: other content saved over the file is ignored.
    """
    known = versions.get_candidate(connection, record.id) if record.is_frozen else None
    last = record.witness
    if known is not None and known.witness is not None and known.witness.inode == last.inode:
        last = known.witness
    if record.seen is not None and record.seen.ctime_ns > last.ctime_ns:
        last = last._replace(inode=record.seen.inode, ctime_ns=record.seen.ctime_ns)
    return record._replace(witness=last)


def is_inode_of(witness: Witness, birth_ns: int | None, *, is_known: bool) -> bool:
    """
    Return whether an inode with the recorded number, size and mtime is the recorded one.

    An inode created after the recorded ctime is another file. Where the file system keeps no birth time, the mtime
    decides, unless it is a whole second: unpacked archives have such mtimes, and files of a reproducible build share
    one.

    Args:
        is_known: content is compared with the record in any case, because its name still leads to the inode, or proves
            nothing, because the record has an open finding (R6).
    """
    if birth_ns is None:
        return is_known or witness.mtime_ns % _SECOND_NS != 0
    return is_born_before(birth_ns, witness)


def is_same_inode(root_fd: int, path: bytes, record: FileRecord | FileVersion) -> bool:
    """Return whether the inode under a name is that of a present or former record (see ``is_inode_of``)."""
    try:
        birth_ns = find_birth_ns(root_fd, path)
    except OSError:
        return False  # not accessible: the job that reads it reports the error
    is_frozen = isinstance(record, FileRecord) and record.is_frozen
    return is_inode_of(record.witness, birth_ns, is_known=is_frozen)


def leads_to(root_fd: int, path: bytes, witness: Witness) -> bool:
    """Return whether a name leads to a file with this witness: same inode, size and times."""
    try:
        return witness_of(stat_beneath(root_fd, path)).stamps == witness.stamps
    except OSError:
        return False


def was_born_before(root_fd: int, path: bytes, record: FileRecord | FileVersion) -> bool | None:
    """Return whether the inode under a name is older than a file's recorded ctime; None without a birth time."""
    try:
        birth_ns = find_birth_ns(root_fd, path)
    except OSError:
        return False  # not accessible: the job that reads it reports the error
    return None if birth_ns is None else is_born_before(birth_ns, record.witness)


def is_born_before(birth_ns: int, witness: Witness) -> bool:
    """Return whether an inode is older than a file's recorded ctime."""
    return birth_ns < witness.ctime_ns or (birth_ns == witness.ctime_ns and not witness.is_racy)


def has_its_file(root_fd: int, record: FileRecord) -> bool:
    """Return whether the name of a record still leads to its inode; True if that can't be read."""
    try:
        return witness_of(stat_beneath(root_fd, record.path)).inode == record.witness.inode
    except OSError as error:
        return error.errno not in GONE


class HardLinks:
    """Group hard links, so that each file is read under one name."""

    def __init__(self, run: RootRun) -> None:
        self._run = run
        self._others: dict[FileId, list[FileRecord]] = {}

    def group(self, records: Sequence[FileRecord]) -> list[FileRecord]:
        """Return one name of each file and keep the others for ``take``."""
        if not self._run.capability.has_stable_inodes:
            return list(records)
        first: dict[tuple[object, ...], FileRecord] = {}
        leaders: list[FileRecord] = []
        for record in records:
            leader = first.setdefault((*record.witness.stamps, record.block_size_bytes), record)
            if leader is record:
                leaders.append(record)
            else:
                self._others.setdefault(leader.id, []).append(record)
        return leaders

    @property
    def leaders(self) -> Container[FileId]:
        """The returned files that have other names."""
        return self._others

    def take(self, record: FileRecord) -> list[FileRecord]:
        """Return and remove the other names of a file that was read."""
        return self._others.pop(record.id, []) if self._others else []

    def is_still(self, record: FileRecord, witness: Witness | None) -> bool:
        """Return whether a name leads to the file with this witness; False if the witness is None."""
        return witness is not None and leads_to(self._run.root_fd, record.path, witness)


class TreePlace(NamedTuple):
    """The location of a file: the path of its folder, and its name."""

    folder: bytes
    name: bytes

    @property
    def path(self) -> bytes:
        """The path of the file."""
        return self.folder + b"/" + self.name if self.folder else self.name

    @classmethod
    def of(cls, path: bytes) -> TreePlace:
        """Split a path."""
        folder, _, name = path.rpartition(b"/")
        return cls(folder, name)


_BACKUP = re.compile(rb"~|\.~\d+~")
_REPLACED_KEPT = 200_000
"""Maximum number of these names; only a whole tree on a new disk has more, and there nothing was moved."""


class WalkedName(NamedTuple):
    """A name that a walk found, and the stat of its file."""

    place: TreePlace
    seen: Seen
    is_recorded: bool  # it has a record, with another inode

    @property
    def witness(self) -> Witness:
        """Return the stat as that of a record."""
        return Witness(*self.seen.stamps)


class ReplacedInodes:
    """The names under which a walk found a different inode than recorded, by inode."""

    def __init__(self) -> None:
        self._found: dict[int, WalkedName] = {}

    def add(self, place: TreePlace, seen: Seen) -> bool:
        """Add a name; return False if there are too many."""
        if len(self._found) >= _REPLACED_KEPT:
            return False
        self._found[seen.inode] = WalkedName(place, seen, True)
        return True

    def find(self, path: bytes, witness: Witness) -> bytes | None:
        """Return the other name that the file with this witness has now, unwritten."""
        found = self._found.get(witness.inode)
        is_it = found is not None and found.place.path != path and is_unwritten(witness, found.witness)
        return found.place.path if found is not None and is_it else None

    def find_written(self, root_fd: int, last: FileRecord) -> bytes | None:
        """Return the other name that the file ``last`` has now, by inode and birth time; its content may differ."""
        found = self._found.get(last.witness.inode)
        if found is None or found.place.path == last.path:
            return None
        return found.place.path if was_born_before(root_fd, found.place.path, last) else None


def is_backup_name(path: bytes, original: bytes) -> bool:
    """
    Return whether a path is what ``cp``, ``mv``, ``rsync`` and editors call the file that they replaced: a~ or a.~1~.

    Such a file was put aside, not renamed: the name, and what is recorded of it, is that of the file that came.
    """
    return path.startswith(original) and _BACKUP.fullmatch(path[len(original) :]) is not None
