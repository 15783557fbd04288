"""
Check the database of a hub: whether what it has can be what the boxes reported, and whether votes are late.

Digests are computed again from the rows, in the order of folders, so memory does not grow with the number of files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import sqlalchemy as sa

from integrity import program
from integrity.errors import show_path
from integrity.hub import schema
from integrity.hub.database import HubDatabase, read_revision
from integrity.hub.members import find_changed_sets
from integrity.hub.schema import box, file, file_part, folder, member, member_folder
from integrity.hub.trees import NO_FOLDERS, find_children
from integrity.reporting.digest_tree import ReportedFile, digest_files

_AT_ONCE = 1000
_LATE_S = 3600
_SHOWN = 5
_FILE = tuple(file.c[name] for name in ReportedFile._fields)


class CheckedHub(NamedTuple):
    """What was checked: counts; and what is wrong, how bad it is, and what to do."""

    boxes: int
    folders: int
    files: int
    problems: list[str]


def check_hub(database: HubDatabase, now: int, *, progress: Callable[[int], None] = lambda _: None) -> CheckedHub:
    """
    Check everything. The database is only read.

    Args:
        database: opened with any revision.
        progress: gets the number of files that were checked so far.
    """
    with database.read() as c:
        problems = list(_check_revision(c))
        if problems:
            return CheckedHub(0, 0, 0, problems)
        problems += [*_check_references(c), *_check_boxes(c), *_check_votes(c, now)]
        trees = _TreeCheck(c, progress)
        for row in c.execute(sa.select(member.c.id, member.c.settled_tree, member.c.path, box.c.name).join(box)).all():
            problems += trees.check(row)
        count = c.execute(sa.select(sa.func.count()).select_from(box)).scalar_one()
    return CheckedHub(count, trees.folders, trees.files, problems)


def _check_revision(c: sa.Connection) -> Iterator[str]:
    found = read_revision(c)
    if found != schema.SCHEMA_REVISION:
        is_newer = found is not None and found > schema.SCHEMA_REVISION
        remedy = "use the newer version of integrity" if is_newer else f"run: {program.command('hub migrate')}"
        yield f"The tables are of schema {found or 'none'}, needed is {schema.SCHEMA_REVISION}; {remedy}."


def _check_references(c: sa.Connection) -> Iterator[str]:
    """Check what the database itself does not: rows of files have no foreign keys, and SQLite may have been edited."""
    if c.dialect.name == "sqlite":
        broken = c.exec_driver_sql("PRAGMA foreign_key_check").fetchmany(_SHOWN)
        yield from (f"A row of {row[0]} refers to a row of {row[2]} that is missing." for row in broken)
    for table in (file, file_part):
        parent = member_folder if table is file else folder
        where = parent.c.folder_id == table.c.folder_id if table is file else folder.c.id == table.c.folder_id
        if table is file:
            where &= member_folder.c.member_id == file.c.member_id
        lost = sa.select(sa.func.count()).select_from(table).where(~sa.exists().where(where))
        count = c.execute(lost).scalar_one()
        if count:
            yield f"{count:,} rows of {table.name} belong to no folder; {_SEND_AGAIN}."
    upper = member_folder.alias()
    has_parent = sa.exists().where(
        upper.c.member_id == member_folder.c.member_id, upper.c.folder_id == member_folder.c.parent_id
    )
    settled = sa.select(sa.func.count()).select_from(member_folder).join(member)
    orphans = settled.where(member.c.settled_tree.is_not(None), member_folder.c.parent_id.is_not(None), ~has_parent)
    count = c.execute(orphans).scalar_one()
    if count:
        yield f"{count:,} folders lie in folders that are missing; {_SEND_AGAIN}."


_SEND_AGAIN = "restore a backup of the database, or have the boxes send everything again by removing the replica set"


def _check_boxes(c: sa.Connection) -> Iterator[str]:
    stream = sa.select(schema.box_stream).where(
        schema.box_stream.c.box_id == box.c.id, schema.box_stream.c.stream == box.c.stream
    )
    lost = sa.select(box.c.name).where(box.c.stream.is_not(None), ~stream.exists())
    for name in c.execute(lost).scalars():
        yield f"{name}: its stream of messages is not among those that it began; a row was lost."


def _check_votes(c: sa.Connection, now: int) -> Iterator[str]:
    late = schema.replica_set.c.id.in_(find_changed_sets(c)), schema.replica_set.c.changed_at < now - _LATE_S
    query = sa.select(schema.replica_set.c.name, schema.replica_set.c.changed_at).where(*late)
    for name, changed_at in c.execute(query.order_by(schema.replica_set.c.name)):
        yield (
            f"Replica set {name}: reported {(now - changed_at) // 60:,} min ago and not compared since. Does the"
            " hub run? See its log: journalctl -u integrity-hub"
        )


class _TreeCheck:
    """
    Computes the digests of members again.

    Attributes:
        folders: checked so far.
        files: checked so far.
    """

    def __init__(self, c: sa.Connection, progress: Callable[[int], None]) -> None:
        self.folders = 0
        self.files = 0
        self._c = c
        self._progress = progress

    def check(self, row: Any) -> Iterator[str]:
        """Check the rows of a member."""
        place = f"{show_path(row.path)} on {row.name}"
        wrong, top = [], None
        for chunk in self._find_folders(row.id):
            ids = [each.folder_id for each in chunk]
            children = find_children(self._c, row.id, ids)
            digests = self._digest(row.id, ids)
            for each in chunk:
                found = digests.get(each.folder_id, _NO_FILES)
                is_right = found == (each.own, each.content)
                if each.is_checked and row.settled_tree is not None:
                    inside = children.get(each.folder_id, NO_FOLDERS)
                    is_right &= (each.subtree, each.subtree_content) == inside.digest(each.own, each.content)
                wrong += [] if is_right else [each.path]
                top = each.subtree if each.path == b"" else top
            self.folders += len(chunk)
            self._progress(self.files)
        if wrong:
            shown = ", ".join(show_path(path) or "." for path in wrong[:_SHOWN])
            yield f"{place}: {len(wrong):,} folders are not what was reported ({shown}); {_SEND_AGAIN}."
        if row.settled_tree is not None and top != row.settled_tree:
            yield f"{place}: the top of its tree is not the one that was reported; {_SEND_AGAIN}."

    def _find_folders(self, member_id: int) -> Iterator[Any]:
        after = 0
        columns = [
            member_folder.c[name]
            for name in ("folder_id", "own", "content", "subtree", "subtree_content", "is_checked")
        ]
        query = sa.select(folder.c.path, *columns).join_from(member_folder, folder)
        query = query.where(member_folder.c.member_id == member_id).order_by(member_folder.c.folder_id).limit(_AT_ONCE)
        while chunk := self._c.execute(query.where(member_folder.c.folder_id > after)).all():
            yield chunk
            after = chunk[-1].folder_id

    def _digest(self, member_id: int, ids: list[int]) -> dict[int, Any]:
        where = (file.c.member_id == member_id, file.c.folder_id >= ids[0], file.c.folder_id <= ids[-1])
        query = sa.select(file.c.folder_id, *_FILE).where(*where).order_by(file.c.folder_id, file.c.name)
        rows = self._c.execute(query.execution_options(yield_per=_AT_ONCE))
        return {key: digest_files(self._count(some)) for key, some in groupby(rows, itemgetter(0))}

    def _count(self, rows: Any) -> Iterator[ReportedFile]:
        for row in rows:
            self.files += 1
            yield ReportedFile(*row[1:])


_NO_FILES = digest_files(())
