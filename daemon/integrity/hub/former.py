"""
Former contents of files: what a member had before the content that it reports now, or before a file was gone.

With it a vote knows which of two contents is the older one, and which of two names, whatever the clocks and mtimes say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

import sqlalchemy as sa

from integrity.hub.replica_verdict import Version, do_differ
from integrity.hub.schema import file, folder, former_file, member
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
    wanted = sorted(keys)
    for start in range(0, len(wanted), _PATHS_AT_ONCE):
        some = set(wanted[start : start + _PATHS_AT_ONCE])
        paths = folder.c.path.in_({above for above, _ in some}), table.name.in_({name for _, name in some})
        for above, name, member_id, *version in c.execute(query.where(folder.c.set_id == set_id, *paths)):
            if (bytes(above), bytes(name)) in some:
                found[bytes(above), bytes(name)].add((member_id, Version(*version)))
    return found
