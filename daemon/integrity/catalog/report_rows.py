"""
Rows for the digest tree that is reported to a hub: the digests of folders that are known, and the files of a folder.

A digest is stored in three steps, so that no lock is held while a large folder is read: ``begin_digests`` makes a row
without digests, the files are read, and ``save_digest`` fills the row. A file that changes meanwhile removes the row
(I3 of ``report_triggers.py``), so the digest of a mixed state is never kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from integrity.catalog.compiled_sql import CompiledStatement
from integrity.catalog.row_seals import check_seals, select_sealed
from integrity.catalog.rows import FILE_JOIN, RECORD_COLUMNS, FileRecord, chunked, require_rising, to_records
from integrity.catalog.schema import file, folder, report_folder
from integrity.catalog.seal import Sealer
from integrity.model import FolderId, RootId

_PAGE = 2000

_FILES = CompiledStatement(
    sa.select(*RECORD_COLUMNS)
    .select_from(FILE_JOIN)
    .where(file.c.folder_id == sa.bindparam("folder_id"), file.c.name > sa.bindparam("after"))
    .order_by(file.c.name)
    .limit(sa.bindparam("limit")),
    *("folder_id", "after", "limit"),
)
_FIRST_FILES = CompiledStatement(
    sa.select(*RECORD_COLUMNS)
    .select_from(FILE_JOIN)
    .where(file.c.folder_id == sa.bindparam("folder_id"))
    .order_by(file.c.name)
    .limit(sa.bindparam("limit")),
    *("folder_id", "limit"),
)
# Components are compared one by one: a folder comes before what lies in it, and that before "folder-b".
_IN_TREE_ORDER = sa.func.replace(sa.cast(folder.c.path, sa.Text), "/", sa.func.char(0))


class FolderRow(NamedTuple):
    """A folder with recorded files, or that had some, and the digests of those."""

    id: FolderId
    path: bytes
    own: bytes
    content: bytes


def find_undigested(c: sa.Connection, root_id: RootId, limit: int) -> list[FolderId]:
    """Return folders of a root whose digests are not known."""
    known = sa.and_(report_folder.c.folder_id == folder.c.id, report_folder.c.own.is_not(None))
    query = sa.select(folder.c.id).where(folder.c.root_id == root_id, ~sa.exists().where(known)).limit(limit)
    return [FolderId(number) for number in c.execute(query).scalars()]


def begin_digests(c: sa.Connection, ids: Sequence[FolderId]) -> None:
    """Make rows without digests."""
    for chunk in chunked(ids):
        c.execute(sa.delete(report_folder).where(report_folder.c.folder_id.in_(chunk)))
        c.execute(sa.insert(report_folder), [{"folder_id": number} for number in chunk])


def save_digest(c: sa.Connection, folder_id: FolderId, own: bytes, content: bytes) -> None:
    """Store the digests of a folder, unless one of its files changed since ``begin_digests``."""
    c.execute(sa.update(report_folder).where(report_folder.c.folder_id == folder_id).values(own=own, content=content))


def drop_digests(c: sa.Connection, ids: Sequence[FolderId]) -> None:
    """Forget the digests of folders, so that they are computed again."""
    for chunk in chunked(ids):
        c.execute(sa.delete(report_folder).where(report_folder.c.folder_id.in_(chunk)))


def find_digested(c: sa.Connection, root_id: RootId) -> Iterator[FolderRow]:
    """Yield the folders of a root whose digests are known, each before those in it, siblings in the order of names."""
    query = select_sealed(report_folder, folder.c.id, folder.c.path, report_folder.c.own, report_folder.c.content)
    joined = query.join(folder, folder.c.id == report_folder.c.folder_id)
    of_root = joined.where(folder.c.root_id == root_id, report_folder.c.own.is_not(None))
    rows = c.execution_options(yield_per=1000).execute(of_root.order_by(_IN_TREE_ORDER))
    for row in check_seals(c, report_folder, rows):
        yield FolderRow(FolderId(row.id), row.path, row.own, row.content)


def find_files(c: sa.Connection, sealer: Sealer, folder_id: FolderId) -> Iterator[FileRecord]:
    """Yield the files that lie directly in a folder, in the order of their names, page by page."""
    page = to_records(sealer, _FIRST_FILES.run(c, folder_id, _PAGE).fetchall())
    while page:
        names = [record.path.rpartition(b"/")[2] for record in page]
        require_rising(names)
        yield from page
        page = to_records(sealer, _FILES.run(c, folder_id, names[-1], _PAGE).fetchall())
