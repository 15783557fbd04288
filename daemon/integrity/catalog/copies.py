"""
Backup copies: which exist, and the last answer of each about every file.

An answer holds for one version of a baseline. Several disks that take turns at one place are several copies, each with
its own answers and findings. Beside the last answer stands what was *found* when the file that the copy is now was
first read, and under which times: the witness by which a copy can be called damaged later (I10 of ``verdict``).

Also reports how long files have waited for a comparison. The wait starts when the present content was recorded, or when
the copy was first known if that was later. Every comparison restarts it, whatever its result: bad results are findings.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import sqlalchemy as sa

from integrity.catalog.compiled_sql import CompiledInsert
from integrity.catalog.row_seals import check_seals, is_sealed, select_sealed
from integrity.catalog.rows import NEVER_AT, chunked, inside, join_path, read_word, unless_ahead
from integrity.catalog.schema import copy, copy_file, copy_reading, file, folder
from integrity.files.excludes import Excludes
from integrity.model import CopyId, FileId, RootId
from integrity.verdict import CopyVote

_FOUND_NAMES = (
    "found_version",
    "found_digest",
    "found_size_bytes",
    "found_at",
    "found_mtime_ns",
    "found_ctime_ns",
    "found_inode",
    "found_as",
)
_STATE_NAMES = ("copy_id", "file_id", "version", "vote", "compared_at", "read_at", "stated", *_FOUND_NAMES)
_NEVER_FOUND = (None,) * len(_FOUND_NAMES)
_REPLACE_STATE = CompiledInsert(
    sa.insert(copy_file).prefix_with("OR REPLACE").values({name: sa.bindparam(name) for name in _STATE_NAMES}),
    *_STATE_NAMES,
)


@dataclass(frozen=True, slots=True)
class CopyRecord:
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
    """
    What a copy had when the file that it is now was first read, or when its store stated that it is a recorded version.

    Attributes:
        version: of the baseline that it had; None if it had other content.
        digest: XXH3-128 of that other content.
        size_bytes: of that other content.
        found_at: when.
        mtime_ns: the time that the copy had then; None if it keeps none, or if it is not known.
        ctime_ns: its ctime then; None where that can't be trusted.
        inode: its inode then; None where that is given anew.
        found_as: path in the root under whose name the copy had it; None: under its own.
    """

    version: int | None
    digest: bytes | None
    size_bytes: int | None
    found_at: int
    mtime_ns: int | None
    ctime_ns: int | None
    inode: int | None
    found_as: bytes | None = None


class CopyState(NamedTuple):
    """
    The last answer of a copy about a file.

    Attributes:
        version: version of the baseline that it was compared with.
        read_at: when the copy's bytes were last read, unless a comparison without reading contradicted that since.
        stated: digest of the checksums that the copy stated, if reading the file proved them right.
        found: see there; None: never.
    """

    file_id: FileId
    version: int
    vote: CopyVote
    compared_at: int
    read_at: int | None
    stated: bytes | None = None
    found: CopyFound | None = None


new_found = partial(tuple.__new__, CopyFound)
new_state = partial(tuple.__new__, CopyState)
"""The same as the classes, without a Python call per file."""


def ensure_copy(
    c: sa.Connection,
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
    mine = copy.c.root_id == root_id, copy.c.prefix == prefix, copy.c.name == name
    stored = _store_url(url)
    row = c.execute(sa.select(copy).where(*mine)).one_or_none()
    if row is None:
        values = {"root_id": root_id, "prefix": prefix, "name": name, "url": stored, "identity": identity, "disk": disk}
        c.execute(sa.insert(copy).values(**values, has_bytes=int(has_bytes), created_at=now))
    elif (row.url, row.has_bytes, row.identity) != (stored, has_bytes, identity):
        if row.has_bytes != has_bytes or (row.url != stored and not keeps_answers):
            _drop_all_states(c, row.id)
        values = {"url": stored, "identity": identity, "has_bytes": int(has_bytes)}
        c.execute(sa.update(copy).where(copy.c.id == row.id).values(values))
    return _to_record(c.execute(sa.select(copy).where(*mine)).one())


def rename_copy(c: sa.Connection, record: CopyRecord, name: str) -> None:
    """Rename a copy and keep its answers; if the new name is taken, remove this copy instead."""
    taken = copy.c.root_id == record.root_id, copy.c.prefix == record.prefix, copy.c.name == name
    if c.execute(sa.select(copy.c.id).where(*taken)).first() is None:
        c.execute(sa.update(copy).where(copy.c.id == record.id).values(name=name))
    else:
        remove_copy(c, record.id)


def find_copies(c: sa.Connection, root_id: RootId | None = None) -> list[CopyRecord]:
    """Return the copies of a root, or of all roots, in the order in which they were first compared."""
    query = sa.select(copy).order_by(copy.c.id)
    if root_id is not None:
        query = query.where(copy.c.root_id == root_id)
    return [_to_record(row) for row in c.execute(query)]


def find_equal_times(c: sa.Connection, copy_id: CopyId, limit: int) -> list[tuple[FileId, int, int]]:
    """Return files whose content the last comparison found equal, with their mtimes and those that the copies had."""
    query = (
        sa.select(file.c.id, file.c.mtime_ns, copy_file.c.found_mtime_ns)
        .join(file, file.c.id == copy_file.c.file_id)
        .where(
            copy_file.c.copy_id == copy_id,
            copy_file.c.vote == CopyVote.SAME.value,
            copy_file.c.version == file.c.version,
            copy_file.c.found_version == file.c.version,
            copy_file.c.found_mtime_ns.is_not(None),
        )
        .limit(limit)
    )
    return [(FileId(file_id), here_ns, there_ns) for file_id, here_ns, there_ns in c.execute(query)]


def set_listed(c: sa.Connection, copy_id: CopyId, now: int) -> None:
    """Record that a copy was listed completely."""
    c.execute(sa.update(copy).where(copy.c.id == copy_id).values(listed_at=now))


def save_states(c: sa.Connection, copy_id: CopyId, states: Iterable[CopyState]) -> None:
    """Store the answers of a copy about files."""
    _REPLACE_STATE.run_many(
        c,
        (
            (
                *(copy_id, one.file_id, one.version, one.vote.value, one.compared_at, one.read_at, one.stated),
                *(one.found or _NEVER_FOUND),
            )
            for one in states
        ),
    )


_GOOD_COPY = (
    sa.select(copy.c.name)
    .select_from(copy_file.join(copy, copy_file.c.copy_id == copy.c.id).join(file, copy_file.c.file_id == file.c.id))
    .where(copy_file.c.file_id == sa.bindparam("of_file"), copy_file.c.version == file.c.version)
    .where(copy_file.c.vote.in_([CopyVote.SAME.value, CopyVote.RENAMED.value]), copy.c.has_bytes == 1)
    .order_by(copy_file.c.read_at.desc().nulls_last(), copy_file.c.compared_at.desc(), copy.c.id)
    .limit(1)
)


def states_of_file(c: sa.Connection, file_id: FileId) -> list[tuple[CopyRecord, CopyState]]:
    """Return the answer of each copy about a file, in the order of the copies."""
    states = [copy_file.c[name].label(f"state_{name}") for name in _STATE_NAMES[1:]]
    joined = copy_file.join(copy, copy_file.c.copy_id == copy.c.id)
    query = select_sealed(copy_file, *copy.c, *states).select_from(joined)
    rows = c.execute(query.where(copy_file.c.file_id == file_id).order_by(copy.c.id))
    return [(_to_record(row), _to_state(row)) for row in check_seals(c, copy_file, rows)]


def find_found(c: sa.Connection, copy_id: CopyId, ids: Iterable[FileId]) -> dict[FileId, CopyFound]:
    """Return what a copy had of each of some files when these were first read; damaged rows are no witness."""
    found: dict[FileId, CopyFound] = {}
    for chunk in chunked(ids):
        query = sa.select(copy_file.c.file_id, *(copy_file.c[name] for name in _FOUND_NAMES)).where(
            copy_file.c.copy_id == copy_id,
            copy_file.c.file_id.in_(chunk),
            copy_file.c.found_at.is_not(None),
            is_sealed(copy_file),
        )
        found |= {FileId(row[0]): CopyFound(*row[1:]) for row in c.execute(query)}
    return found


def find_other_names(c: sa.Connection, file_id: FileId) -> set[bytes]:
    """Return the paths in the root under whose names copies were last found to have a file."""
    query = sa.select(copy_file.c.found_as).where(copy_file.c.file_id == file_id, copy_file.c.found_as.is_not(None))
    return set(c.execute(query.where(is_sealed(copy_file))).scalars())


def find_good_copy(c: sa.Connection, file_id: FileId) -> str | None:
    """Return the name of the copy that matched the present baseline and can return its bytes, the last read first."""
    return c.execute(_GOOD_COPY, {"of_file": file_id}).scalar()


def find_votes(c: sa.Connection, copy_id: CopyId) -> set[CopyVote]:
    """Return the distinct votes of a copy about present versions of files."""
    is_current = sa.and_(copy_file.c.file_id == file.c.id, copy_file.c.version == file.c.version)
    query = sa.select(copy_file.c.vote).distinct().select_from(copy_file.join(file, is_current))
    return {read_word(CopyVote, row.vote) for row in c.execute(query.where(copy_file.c.copy_id == copy_id))}


def count_states(c: sa.Connection, copy_id: CopyId) -> int:
    """Count the files that a copy has an answer about."""
    query = sa.select(sa.func.count()).select_from(copy_file).where(copy_file.c.copy_id == copy_id)
    return int(c.execute(query).scalar_one())


def remove_copy(c: sa.Connection, copy_id: CopyId) -> None:
    """Remove a copy and its answers. The caller resolves findings about it."""
    _drop_all_states(c, copy_id)
    c.execute(sa.delete(copy).where(copy.c.id == copy_id))


def find_compared(c: sa.Connection, copy_id: CopyId, *, are_gone: bool = False) -> list[FileId]:
    """Return the files that a copy has an answer or a partial reading of; ``are_gone``: only unrecorded files."""
    tables = (copy_file, copy_reading)
    compared = sa.union(*(sa.select(one.c.file_id).where(one.c.copy_id == copy_id) for one in tables)).subquery()
    query = sa.select(compared.c.file_id)
    if are_gone:
        query = query.where(~sa.exists().where(file.c.id == compared.c.file_id))
    return [FileId(one) for one in c.execute(query).scalars()]


def drop_states(c: sa.Connection, copy_id: CopyId, ids: Iterable[FileId]) -> None:
    """Delete a copy's answers about and partial readings of files."""
    for chunk in chunked(ids):
        for table in (copy_file, copy_reading):
            c.execute(sa.delete(table).where(table.c.copy_id == copy_id, table.c.file_id.in_(chunk)))


def _drop_all_states(c: sa.Connection, copy_id: CopyId) -> None:
    for table in (copy_file, copy_reading):
        c.execute(sa.delete(table).where(table.c.copy_id == copy_id))


def _to_record(row: sa.Row[Any]) -> CopyRecord:
    url = _restore_url(row.url)
    place = row.id, row.root_id, row.prefix, row.name, url, row.identity
    return CopyRecord(*place, row.created_at, row.listed_at, bool(row.has_bytes), row.disk)


def _store_url(url: str) -> str:
    """Encode a URL as text; one that is not UTF-8 as a backslash (no URL begins with one) and its bytes as Latin-1."""
    try:
        url.encode()
    except UnicodeEncodeError:
        return "\\" + os.fsencode(url).decode("latin-1")
    return url


def _restore_url(stored: str) -> str:
    return os.fsdecode(stored[1:].encode("latin-1")) if stored.startswith("\\") else stored


def _to_state(row: sa.Row[Any]) -> CopyState:
    return CopyState(
        row.state_file_id,
        row.state_version,
        read_word(CopyVote, row.state_vote),
        row.state_compared_at,
        row.state_read_at,
        row.state_stated,
        None if row.state_found_at is None else CopyFound(*(getattr(row, f"state_{name}") for name in _FOUND_NAMES)),
    )


_SILENT = (CopyVote.NOT_COMPARABLE.value, CopyVote.UNREADABLE.value)


@dataclass(frozen=True, slots=True)
class CopyWaits:
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
    c: sa.Connection, record: CopyRecord, *, now: int, verify_every_s: int, left_out: Excludes | None = None
) -> CopyWaits:
    """
    Summarize one copy in one pass over the files that it should have.

    Args:
        left_out: what the backup leaves out on purpose, by paths in the copy. Of these files only those count that it
            has all the same.
    """
    is_current = sa.and_(
        copy_file.c.copy_id == record.id, copy_file.c.file_id == file.c.id, copy_file.c.version == file.c.version
    )
    is_same = copy_file.c.vote == CopyVote.SAME.value
    compared_at = unless_ahead(copy_file.c.compared_at, now)
    starts = (unless_ahead(at, now) for at in (file.c.recorded_at, sa.literal(record.created_at)))
    began = sa.func.max(*(sa.func.coalesce(start, NEVER_AT) for start in starts))
    since = sa.func.coalesce(compared_at, began)
    columns = [
        sa.func.count().label("files"),
        sa.func.count(copy_file.c.file_id).label("compared"),
        sa.func.count().filter(is_same).label("same"),
        sa.func.count(copy_file.c.read_at).filter(is_same).label("read"),
        sa.func.count().filter(copy_file.c.vote.in_(_SILENT)).label("silent"),
        sa.func.max(compared_at).label("last_compared_at"),
        sa.func.min(since).label("waits_since"),
        sa.func.count().filter(since < now - verify_every_s).label("overdue"),
    ]
    joined = file.join(folder, file.c.folder_id == folder.c.id).outerjoin(copy_file, is_current)
    part = inside(record.root_id, record.prefix)
    query = sa.select(*columns).select_from(joined).where(part)
    if left_out is None:
        return CopyWaits(**c.execute(query).one()._asdict())
    found = CopyWaits(**c.execute(query.where(copy_file.c.file_id.is_not(None))).one()._asdict())
    uncompared = sa.select(folder.c.path, file.c.name, since).select_from(joined).where(part)
    start = len(record.prefix) + 1 if record.prefix else 0
    expected = [
        began_at
        for folder_path, name, began_at in c.execute(uncompared.where(copy_file.c.file_id.is_(None)))
        if not left_out.covers(join_path(folder_path, name)[start:])
    ]
    starts_at = [*expected, *([] if found.waits_since is None else [found.waits_since])]
    return replace(
        found,
        files=found.files + len(expected),
        waits_since=min(starts_at, default=None),
        overdue=found.overdue + sum(began_at < now - verify_every_s for began_at in expected),
    )
