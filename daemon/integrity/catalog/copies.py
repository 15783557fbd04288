"""
Backup copies: which there are, and what each of them said last of each file.

What was said holds for one version of a baseline, and for the copy as it was then: of another place, or another disk at
the same place, nothing is known.

How long the files of a root have waited to be held against a copy of it.

The clock of a file starts when its present content was recorded, or when the copy was first known, if that was later;
and again each time it is compared, whatever the copy said then: that is told by findings.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa

from integrity.catalog.compiled_sql import CompiledInsert
from integrity.catalog.row_seals import check_seals, select_sealed
from integrity.catalog.rows import NEVER_AT, chunked, inside, read_word, unless_ahead
from integrity.catalog.schema import copy, copy_file, copy_reading, file, folder
from integrity.model import CopyId, FileId, RootId
from integrity.verdict import CopyVote

_STATE_NAMES = ("copy_id", "file_id", "version", "vote", "compared_at", "read_at", "stated")
_REPLACE_STATE = CompiledInsert(
    sa.insert(copy_file).prefix_with("OR REPLACE").values({name: sa.bindparam(name) for name in _STATE_NAMES}),
    *_STATE_NAMES,
)


@dataclass(frozen=True, slots=True)
class CopyRecord:
    """One copy of a root, or of a folder in it."""

    id: CopyId
    root_id: RootId
    prefix: bytes  # the folder in the root that its top stands for
    name: str  # in the configuration, or its URL without secrets
    url: str  # without secrets
    identity: str | None  # of a mounted one
    created_at: int
    listed_at: int | None

    def find_base(self, root: bytes) -> bytes:
        """Make the absolute path of the folder that its top stands for from that of its root."""
        return root.rstrip(b"/") + b"/" + self.prefix if self.prefix else root


class CopyState(NamedTuple):
    """
    What a copy said last of a file.

    Attributes:
        version: of the baseline that it was held against.
        read_at: when its bytes were last read, unless less than that said otherwise since.
        stated: digest of what it stated, if reading the file proved that to be right.
    """

    file_id: FileId
    version: int
    vote: CopyVote
    compared_at: int
    read_at: int | None
    stated: bytes | None = None


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
    is_other: bool = False,
) -> CopyRecord:
    """
    Find a copy, or write a new one down; what was said by another place or disk of that name is forgotten.

    ``is_other``: another disk or folder is there than the one that was recorded.
    """
    mine = copy.c.root_id == root_id, copy.c.prefix == prefix, copy.c.name == name
    stored = _store_url(url)
    row = c.execute(sa.select(copy).where(*mine)).one_or_none()
    if row is None:
        values = {"root_id": root_id, "prefix": prefix, "name": name, "url": stored, "identity": identity}
        c.execute(sa.insert(copy).values(**values, has_bytes=int(has_bytes), created_at=now))
    elif is_other or (row.url, row.has_bytes) != (stored, has_bytes):
        _drop_all_states(c, row.id)
        values = {"url": stored, "identity": identity, "has_bytes": int(has_bytes), "listed_at": None}
        c.execute(sa.update(copy).where(copy.c.id == row.id).values(values))
    elif row.identity != identity:  # a surer name of the same disk
        c.execute(sa.update(copy).where(copy.c.id == row.id).values(identity=identity))
    return _to_record(c.execute(sa.select(copy).where(*mine)).one())


def rename_copy(c: sa.Connection, record: CopyRecord, name: str) -> None:
    """Let a copy go on under another name with all that it said; where that name has one already, that one stays."""
    taken = copy.c.root_id == record.root_id, copy.c.prefix == record.prefix, copy.c.name == name
    if c.execute(sa.select(copy.c.id).where(*taken)).first() is None:
        c.execute(sa.update(copy).where(copy.c.id == record.id).values(name=name))
    else:
        remove_copy(c, record.id)


def find_copies(c: sa.Connection, root_id: RootId | None = None) -> list[CopyRecord]:
    """List the copies of a root, or of all, in the order in which they were first compared."""
    query = sa.select(copy).order_by(copy.c.id)
    if root_id is not None:
        query = query.where(copy.c.root_id == root_id)
    return [_to_record(row) for row in c.execute(query)]


def set_listed(c: sa.Connection, copy_id: CopyId, now: int) -> None:
    """Write down that a copy was listed as a whole."""
    c.execute(sa.update(copy).where(copy.c.id == copy_id).values(listed_at=now))


def save_states(c: sa.Connection, copy_id: CopyId, states: Iterable[CopyState]) -> None:
    """Write down what a copy said of files."""
    _REPLACE_STATE.run_many(
        c,
        (
            (copy_id, one.file_id, one.version, one.vote.value, one.compared_at, one.read_at, one.stated)
            for one in states
        ),
    )


_GOOD_COPY = (
    sa.select(copy.c.name)
    .select_from(copy_file.join(copy, copy_file.c.copy_id == copy.c.id).join(file, copy_file.c.file_id == file.c.id))
    .where(copy_file.c.file_id == sa.bindparam("of_file"), copy_file.c.version == file.c.version)
    .where(copy_file.c.vote == CopyVote.SAME.value, copy.c.has_bytes == 1)
    .order_by(copy_file.c.read_at.desc().nulls_last(), copy_file.c.compared_at.desc(), copy.c.id)
    .limit(1)
)


def states_of_file(c: sa.Connection, file_id: FileId) -> list[tuple[CopyRecord, CopyState]]:
    """List what each copy said of a file, with the copy, in the order of the copies."""
    states = [copy_file.c[name].label(f"state_{name}") for name in CopyState._fields]
    joined = copy_file.join(copy, copy_file.c.copy_id == copy.c.id)
    query = select_sealed(copy_file, *copy.c, *states).select_from(joined)
    rows = c.execute(query.where(copy_file.c.file_id == file_id).order_by(copy.c.id))
    return [(_to_record(row), _to_state(row)) for row in check_seals(c, copy_file, rows)]


def find_good_copy(c: sa.Connection, file_id: FileId) -> str | None:
    """Name the copy that last had a file's present baseline and can give its bytes, the one read last first."""
    return c.execute(_GOOD_COPY, {"of_file": file_id}).scalar()


def find_votes(c: sa.Connection, copy_id: CopyId) -> set[CopyVote]:
    """Name all that a copy says of the present version of any file."""
    is_current = sa.and_(copy_file.c.file_id == file.c.id, copy_file.c.version == file.c.version)
    query = sa.select(copy_file.c.vote).distinct().select_from(copy_file.join(file, is_current))
    return {read_word(CopyVote, row.vote) for row in c.execute(query.where(copy_file.c.copy_id == copy_id))}


def count_states(c: sa.Connection, copy_id: CopyId) -> int:
    """Count the files of which a copy said something."""
    query = sa.select(sa.func.count()).select_from(copy_file).where(copy_file.c.copy_id == copy_id)
    return int(c.execute(query).scalar_one())


def remove_copy(c: sa.Connection, copy_id: CopyId) -> None:
    """Remove a copy with its states of files; findings about it are for the caller."""
    _drop_all_states(c, copy_id)
    c.execute(sa.delete(copy).where(copy.c.id == copy_id))


def find_compared(c: sa.Connection, copy_id: CopyId, *, are_gone: bool = False) -> list[FileId]:
    """List the files that a copy has a state or a reading of; ``are_gone``: only those that left the catalog."""
    tables = (copy_file, copy_reading)
    compared = sa.union(*(sa.select(one.c.file_id).where(one.c.copy_id == copy_id) for one in tables)).subquery()
    query = sa.select(compared.c.file_id)
    if are_gone:
        query = query.where(~sa.exists().where(file.c.id == compared.c.file_id))
    return [FileId(one) for one in c.execute(query).scalars()]


def drop_states(c: sa.Connection, copy_id: CopyId, ids: Iterable[FileId]) -> None:
    """Remove a copy's states and readings of some files."""
    for chunk in chunked(ids):
        for table in (copy_file, copy_reading):
            c.execute(sa.delete(table).where(table.c.copy_id == copy_id, table.c.file_id.in_(chunk)))


def _drop_all_states(c: sa.Connection, copy_id: CopyId) -> None:
    for table in (copy_file, copy_reading):
        c.execute(sa.delete(table).where(table.c.copy_id == copy_id))


def _to_record(row: sa.Row[Any]) -> CopyRecord:
    url = _restore_url(row.url)
    return CopyRecord(row.id, row.root_id, row.prefix, row.name, url, row.identity, row.created_at, row.listed_at)


def _store_url(url: str) -> str:
    """Write a path that is no UTF-8 as text: its bytes as Latin-1, behind a backslash, with which no other begins."""
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
    )


_SILENT = (CopyVote.NOT_COMPARABLE.value, CopyVote.UNREADABLE.value)


@dataclass(frozen=True, slots=True)
class CopyWaits:
    """What is known of a copy's comparisons."""

    files: int
    compared: int  # in their present version
    same: int  # as the copy says
    read: int  # the same by the copy's bytes
    silent: int  # compared, but nothing could be said
    last_compared_at: int | None  # of all; None: never
    waits_since: int | None  # of the file that has waited longest; None: there is no file
    overdue: int


def find_waits(c: sa.Connection, record: CopyRecord, *, now: int, verify_every_s: int) -> CopyWaits:
    """Sum up one copy: one pass over the files that it should have."""
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
    query = sa.select(*columns).select_from(joined).where(inside(record.root_id, record.prefix))
    return CopyWaits(**c.execute(query).one()._asdict())
