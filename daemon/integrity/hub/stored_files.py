"""
The rows of files, of which only those are written that changed, and former contents of files.

Whatever comes of a folder, whole or in parts, is held against the rows that are stored. What a row was is kept if its
content was replaced, or if it is gone and others have the file: with it a vote knows which of two contents is the older
one, and which of two names, whatever the clocks and mtimes say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

import sqlalchemy as sa

from integrity.hub.database import AT_ONCE, chunked, load_files, replace_rows
from integrity.hub.replica_verdict import Version, do_differ
from integrity.hub.schema import file, file_part, folder, former_file, member
from integrity.reporting.digest_tree import ReportedFile

FORMER_KEPT_S = 90 * 86400
"""As long as the catalog of a box keeps the history of a file."""

_PATHS_AT_ONCE = 500


def keep_replaced(
    c: sa.Connection,
    member_id: int,
    changes: Iterable[tuple[tuple[int, bytes], ReportedFile, ReportedFile]],
    now: int,
) -> None:
    """Keep the contents that were replaced. ``changes``: folder and name, what was recorded, and what is now."""
    rows = [
        {"member_id": member_id, "folder_id": folder_id, "name": name, **was._asdict(), "replaced_at": now}
        for (folder_id, name), *files in changes
        for was, new in [[Version(one.size_bytes, one.md5, one.xxh3_128) for one in files]]
        if do_differ(was, new)
    ]
    if rows:
        c.execute(sa.insert(former_file), rows)


def keep_gone(c: sa.Connection, member_id: int, set_id: int, which: sa.ColumnElement[bool], now: int) -> None:
    """Keep the contents of files that are about to be removed and that other members have: it may be a new name."""
    other, members = file.alias(), member.alias()
    in_set = members.c.set_id == set_id, members.c.removed_at.is_(None), members.c.id != member_id
    same = other.c.folder_id == file.c.folder_id, other.c.name == file.c.name
    are_others = sa.exists().where(*in_set, other.c.member_id == members.c.id, *same)
    names = "member_id", "folder_id", "name", "size_bytes", "md5", "xxh3_128"
    query = sa.select(*(file.c[name] for name in names), sa.literal(now)).where(file.c.member_id == member_id, which)
    c.execute(sa.insert(former_file).from_select([*names, "replaced_at"], query.where(are_others)))


def find_former(
    c: sa.Connection, members: Collection[int], files: Collection[tuple[int, bytes]]
) -> dict[tuple[int, int, bytes], frozenset[Version]]:
    """Return the former contents by member, folder and name. ``files``: a few hundred folders and names."""
    table = former_file.c
    folders, names = {folder_id for folder_id, _ in files}, {name for _, name in files}
    columns = table.member_id, table.folder_id, table.name, table.size_bytes, table.md5, table.xxh3_128
    query = sa.select(*columns).where(table.member_id.in_(members), table.folder_id.in_(folders), table.name.in_(names))
    found: dict[tuple[int, int, bytes], set[Version]] = {}
    for row in c.execute(query):
        found.setdefault((row[0], row[1], bytes(row[2])), set()).add(Version(*row[3:]))
    return {key: frozenset(versions) for key, versions in found.items()}


def find_former_of_paths(
    c: sa.Connection, set_id: int, members: Collection[int], keys: Collection[tuple[bytes, bytes]]
) -> dict[tuple[bytes, bytes], set[tuple[int, Version]]]:
    """Return the members, by number, that had other contents under some paths, and these. ``keys``: folder and name."""
    table = former_file.c
    columns = folder.c.path, table.name, table.member_id, table.size_bytes, table.md5, table.xxh3_128
    query = sa.select(*columns).join(folder, folder.c.id == table.folder_id).where(table.member_id.in_(members))
    found: defaultdict[tuple[bytes, bytes], set[tuple[int, Version]]] = defaultdict(set)
    for some in map(set, chunked(sorted(keys), _PATHS_AT_ONCE)):
        paths = folder.c.path.in_({above for above, _ in some}), table.name.in_({name for _, name in some})
        for above, name, member_id, *version in c.execute(query.where(folder.c.set_id == set_id, *paths)):
            if (bytes(above), bytes(name)) in some:
                found[bytes(above), bytes(name)].add((member_id, Version(*version)))
    return found


_PARTS_AT_ONCE = 20_000
_VALUES = ReportedFile._fields


class TreeMember(NamedTuple):
    """A member whose files are reported: its number, and its set's."""

    id: int
    set_id: int


StoredKey = tuple[int, bytes]
"""Number of the folder, and name."""


def find_stored(
    c: sa.Connection, member_id: int, *where: sa.ColumnElement[bool], table: sa.Table = file
) -> Iterator[tuple[int, ReportedFile]]:
    """Yield files of a member with the numbers of their folders, in the order of both."""
    columns = table.c.folder_id, *(table.c[name] for name in _VALUES)
    query = sa.select(*columns).where(table.c.member_id == member_id, *where)
    rows = c.execute(query.order_by(table.c.folder_id, table.c.name).execution_options(yield_per=AT_ONCE))
    return ((row[0], ReportedFile(*row[1:])) for row in rows)


def replace_folders(
    c: sa.Connection, tree: TreeMember, folders: Mapping[int, Iterable[ReportedFile]], now: int
) -> None:
    """Make some files all files of their folders. ``folders``: a few thousand files by the number of the folder."""
    old: dict[StoredKey, ReportedFile] = {}
    for ids in chunked(folders):
        old.update(((number, one.name), one) for number, one in find_stored(c, tree.id, file.c.folder_id.in_(ids)))
    replace_files(c, tree, old, {(number, one.name): one for number, some in folders.items() for one in some}, now)


def replace_files(
    c: sa.Connection,
    tree: TreeMember,
    old: Mapping[StoredKey, ReportedFile],
    new: Mapping[StoredKey, ReportedFile],
    now: int,
) -> None:
    gone = [key for key in old if key not in new]
    changed = [(key, old[key], one) for key, one in new.items() if key in old and old[key] != one]
    keep_replaced(c, tree.id, [(key, was, one) for key, was, one in changed], now)
    remove_files(c, tree, gone, now)
    rows = [{"member_id": tree.id, "folder_id": key[0], **one._asdict()} for key, _, one in changed]
    for some in chunked(rows):
        replace_rows(c, file, some)
    load_files(c, file, ((tree.id, key[0], *one) for key, one in new.items() if key not in old))


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
        old = find_stored(c, tree.id, file.c.folder_id == folder_id, file.c.name > after, *until)
        replace_files(
            c, tree, {(folder_id, one.name): one for _, one in old}, {(folder_id, one.name): one for one in new}, now
        )
        after = after if is_last else new[-1].name
    c.execute(sa.delete(file_part).where(*mine))
