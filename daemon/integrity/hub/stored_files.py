"""
Bring the rows of files up to date: only those that changed are written.

Whatever comes of a folder, whole or in parts, is held against the rows that are stored. What a row was is kept
(``former.py``) if its content was replaced, or if it is gone and others have the file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

import sqlalchemy as sa

from integrity.hub.database import FileRow, load_files, replace_rows
from integrity.hub.former import keep_gone, keep_replaced
from integrity.hub.schema import file, file_part
from integrity.reporting.digest_tree import ReportedFile

AT_ONCE = 1000
_PARTS_AT_ONCE = 20_000
_VALUES = ReportedFile._fields


class TreeMember(NamedTuple):
    """A member whose files are reported: its number, and its set's."""

    id: int
    set_id: int


StoredKey = tuple[int, bytes]
"""Number of the folder, and name."""


def find_stored(
    c: sa.Connection, tree: TreeMember, *where: sa.ColumnElement[bool]
) -> Iterator[tuple[int, ReportedFile]]:
    """Yield stored files with the numbers of their folders, in the order of both."""
    query = sa.select(file.c.folder_id, *(file.c[name] for name in _VALUES)).where(file.c.member_id == tree.id, *where)
    rows = c.execute(query.order_by(file.c.folder_id, file.c.name).execution_options(yield_per=AT_ONCE))
    return ((row[0], ReportedFile(*row[1:])) for row in rows)


def replace_folders(
    c: sa.Connection, tree: TreeMember, folders: Mapping[int, Iterable[ReportedFile]], now: int
) -> None:
    """Make some files all files of their folders. ``folders``: a few thousand files by the number of the folder."""
    old: dict[StoredKey, ReportedFile] = {}
    for ids in chunked(folders):
        old.update(((number, one.name), one) for number, one in find_stored(c, tree, file.c.folder_id.in_(ids)))
    replace_files(c, tree, old, {(number, one.name): one for number, some in folders.items() for one in some}, now)


def replace_files(
    c: sa.Connection,
    tree: TreeMember,
    old: Mapping[StoredKey, ReportedFile],
    new: Mapping[StoredKey, ReportedFile],
    now: int,
) -> None:
    """Replace the rows of some files by others."""
    gone = [key for key in old if key not in new]
    changed = [(key, old[key], one) for key, one in new.items() if key in old and old[key] != one]
    keep_replaced(c, tree.id, [(key, was, one) for key, was, one in changed], now)
    remove_files(c, tree, gone, now)
    rows = [{"member_id": tree.id, "folder_id": key[0], **one._asdict()} for key, _, one in changed]
    for some in chunked(rows):
        replace_rows(c, file, some)
    load_files(c, file, (FileRow(tree.id, key[0], *one) for key, one in new.items() if key not in old))


def remove_files(c: sa.Connection, tree: TreeMember, keys: Collection[StoredKey], now: int) -> None:
    for some in chunked(keys):
        are_they = sa.tuple_(file.c.folder_id, file.c.name).in_(some)
        keep_gone(c, tree.id, tree.set_id, are_they, now)
        c.execute(sa.delete(file).where(file.c.member_id == tree.id, are_they))


def take_parts(c: sa.Connection, tree: TreeMember, folder_id: int, now: int) -> None:
    """Make what lies in ``file_part`` of a folder its files, some at a time: there may be a million."""
    mine = file_part.c.member_id == tree.id, file_part.c.folder_id == folder_id
    query = sa.select(*(file_part.c[name] for name in _VALUES)).where(*mine).order_by(file_part.c.name)
    after, is_last = b"", False
    while not is_last:
        new = [ReportedFile(*row) for row in c.execute(query.where(file_part.c.name > after).limit(_PARTS_AT_ONCE))]
        is_last = len(new) < _PARTS_AT_ONCE
        until = [] if is_last else [file.c.name <= new[-1].name]
        old = find_stored(c, tree, file.c.folder_id == folder_id, file.c.name > after, *until)
        replace_files(
            c, tree, {(folder_id, one.name): one for _, one in old}, {(folder_id, one.name): one for one in new}, now
        )
        after = after if is_last else new[-1].name
    c.execute(sa.delete(file_part).where(*mine))


def chunked(values: Iterable[Any], at_once: int = AT_ONCE) -> Iterator[list[Any]]:
    """Yield lists of a thousand values each, or fewer in the end."""
    remaining = iter(values)
    while chunk := list(islice(remaining, at_once)):
        yield chunk
