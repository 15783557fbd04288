"""
Check the database of a hub: whether what it has can be what the boxes reported, and whether votes are late.

Digests are computed again from the rows, in the order of folders, so memory does not grow with the number of files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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
from integrity.hub.stored_files import find_stored
from integrity.hub.trees import NO_FOLDERS, find_children
from integrity.reporting.digest_tree import ReportedFile, digest_files

_AT_ONCE = 1000
_LATE_S = 3600
_SHOWN = 5


class CheckedHub(NamedTuple):
    """What was checked: counts; and what is wrong, how bad it is, and what to do."""

    boxes: int
    folders: int
    files: int
    problems: list[str]


def check_hub(database: HubDatabase, now: int) -> CheckedHub:
    """Check everything. The database, opened with any revision, is only read."""
    checked = Counter[str]()
    with database.read() as c:
        problems = list(_check_revision(c))
        if not problems:
            problems += [*_check_references(c), *_check_boxes(c), *_check_votes(c, now)]
            columns = member.c.id, member.c.settled_tree, member.c.path, box.c.name
            for row in c.execute(sa.select(*columns).join(box)).all():
                problems += _check_tree(c, row, checked)
            checked["boxes"] = c.execute(sa.select(sa.func.count()).select_from(box)).scalar_one()
    return CheckedHub(checked["boxes"], checked["folders"], checked["files"], problems)


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
    in_folder = (member_folder.c.folder_id == file.c.folder_id) & (member_folder.c.member_id == file.c.member_id)
    for table, is_in in ((file, in_folder), (file_part, folder.c.id == file_part.c.folder_id)):
        lost = sa.select(sa.func.count()).select_from(table).where(~sa.exists().where(is_in))
        if count := c.execute(lost).scalar_one():
            yield f"{count:,} rows of {table.name} belong to no folder; {_SEND_AGAIN}."
    upper = member_folder.alias()
    has_parent = sa.exists().where(
        upper.c.member_id == member_folder.c.member_id, upper.c.folder_id == member_folder.c.parent_id
    )
    settled = sa.select(sa.func.count()).select_from(member_folder).join(member)
    orphans = settled.where(member.c.settled_tree.is_not(None), member_folder.c.parent_id.is_not(None), ~has_parent)
    if count := c.execute(orphans).scalar_one():
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


def _check_tree(c: sa.Connection, row: Any, checked: Counter[str]) -> Iterator[str]:
    """Compute the digests of a member again; count its folders and files."""
    place = f"{show_path(row.path)} on {row.name}"
    wrong, top = [], None
    for chunk in _find_folders(c, row.id):
        ids = [each.folder_id for each in chunk]
        children = find_children(c, row.id, ids)
        files = find_stored(c, row.id, file.c.folder_id.between(ids[0], ids[-1]))
        digests = {key: digest_files(_count(some, checked)) for key, some in groupby(files, itemgetter(0))}
        for each in chunk:
            is_right = digests.get(each.folder_id, _NO_FILES) == (each.own, each.content)
            if each.is_checked and row.settled_tree is not None:
                inside = children.get(each.folder_id, NO_FOLDERS)
                is_right &= (each.subtree, each.subtree_content) == inside.digest(each.own, each.content)
            wrong += [] if is_right else [each.path]
            top = each.subtree if each.path == b"" else top
        checked["folders"] += len(chunk)
    if wrong:
        shown = ", ".join(show_path(path) or "." for path in wrong[:_SHOWN])
        yield f"{place}: {len(wrong):,} folders are not what was reported ({shown}); {_SEND_AGAIN}."
    if row.settled_tree is not None and top != row.settled_tree:
        yield f"{place}: the top of its tree is not the one that was reported; {_SEND_AGAIN}."


def _count(files: Iterable[tuple[int, ReportedFile]], checked: Counter[str]) -> Iterator[ReportedFile]:
    for _, one in files:
        checked["files"] += 1
        yield one


def _find_folders(c: sa.Connection, member_id: int) -> Iterator[Sequence[Any]]:
    after, names = 0, ("folder_id", "own", "content", "subtree", "subtree_content", "is_checked")
    query = sa.select(folder.c.path, *(member_folder.c[name] for name in names)).join_from(member_folder, folder)
    query = query.where(member_folder.c.member_id == member_id).order_by(member_folder.c.folder_id).limit(_AT_ONCE)
    while chunk := c.execute(query.where(member_folder.c.folder_id > after)).all():
        yield chunk
        after = chunk[-1].folder_id


_NO_FILES = digest_files(())
