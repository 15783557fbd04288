"""
Former contents of files: what a member had before the content that it reports now, or before a file was gone.

With it a vote knows which of two contents is the older one, and which of two names, whatever the clocks and mtimes say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from integrity.hub.replica_verdict import Version, do_differ
from integrity.hub.schema import file, file_part, folder, former_file
from integrity.reporting.digest_tree import ReportedFile

FORMER_KEPT_S = 90 * 86400
"""As long as the catalog of a box keeps the history of a file."""

_PATHS_AT_ONCE = 500


def keep_former(c: sa.Connection, member_id: int, folders: Mapping[int, Iterable[ReportedFile]], now: int) -> None:
    """Keep the contents that are about to be replaced. ``folders``: what replaces all rows of each folder."""
    stored = sa.select(file.c.folder_id, file.c.name, file.c.size_bytes, file.c.md5, file.c.xxh3_128)
    query = stored.where(file.c.member_id == member_id, file.c.folder_id.in_(folders))
    old = {(row.folder_id, row.name): Version(*row[2:]) for row in c.execute(query)}
    if not old:
        return
    new = {
        (folder_id, one.name): Version(one.size_bytes, one.md5, one.xxh3_128)
        for folder_id, files in folders.items()
        for one in files
    }
    rows = [
        {"member_id": member_id, "folder_id": folder_id, "name": name, **was._asdict(), "replaced_at": now}
        for (folder_id, name), was in old.items()
        if (folder_id, name) not in new or do_differ(was, new[folder_id, name])
    ]
    if rows:
        c.execute(sa.insert(former_file), rows)


def keep_former_of_parts(c: sa.Connection, member_id: int, folder_ids: Collection[int], now: int) -> None:
    """Keep the contents that the files in ``file_part`` are about to replace."""
    if not folder_ids:
        return
    old, new = file.c, file_part.c
    keys = (old[name] == new[name] for name in ("member_id", "folder_id", "name"))
    contents = "size_bytes", "md5", "xxh3_128"
    is_over = new.name.is_(None), *(old[name] != new[name] for name in contents)  # where either is NULL: unknown
    which = sa.select(file).outerjoin(file_part, sa.and_(*keys)).where(sa.or_(*is_over))
    _keep(c, which.where(old.member_id == member_id, old.folder_id.in_(folder_ids)), now)


def keep_former_of_folders(c: sa.Connection, member_id: int, folder_ids: Collection[int], now: int) -> None:
    """Keep the contents of all files of folders that are about to be removed."""
    _keep(c, sa.select(file).where(file.c.member_id == member_id, file.c.folder_id.in_(folder_ids)), now)


def _keep(c: sa.Connection, which: sa.Select[Any], now: int) -> None:
    names = "member_id", "folder_id", "name", "size_bytes", "md5", "xxh3_128"
    query = which.with_only_columns(*(file.c[name] for name in names), sa.literal(now))
    c.execute(sa.insert(former_file).from_select([*names, "replaced_at"], query))


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
