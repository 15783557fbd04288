"""
Former contents of files: what a member had before the content that it reports now.

With it a vote knows which of two contents is the older one, whatever the clocks and mtimes say.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import sqlalchemy as sa

from integrity.hub.replica_verdict import Version, do_differ
from integrity.hub.schema import file, file_part, former_file
from integrity.reporting.digest_tree import ReportedFile

FORMER_KEPT_S = 90 * 86400
"""As long as the catalog of a box keeps the history of a file."""


def keep_former(c: sa.Connection, member_id: int, folders: Mapping[int, Iterable[ReportedFile]], now: int) -> None:
    """Keep the contents that are about to be replaced. ``folders``: what replaces all rows of each folder."""
    stored = sa.select(file.c.folder_id, file.c.name, file.c.size_bytes, file.c.md5, file.c.xxh3_128)
    query = stored.where(file.c.member_id == member_id, file.c.folder_id.in_(folders))
    old = {(row.folder_id, row.name): Version(*row[2:]) for row in c.execute(query)}
    if not old:
        return
    rows = [
        {"member_id": member_id, "folder_id": folder_id, "name": new.name, **was._asdict(), "replaced_at": now}
        for folder_id, files in folders.items()
        for new in files
        if (was := old.get((folder_id, new.name))) and do_differ(was, Version(new.size_bytes, new.md5, new.xxh3_128))
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
    columns = "member_id", "folder_id", "name", *contents
    query = (
        sa.select(*(old[name] for name in columns), sa.literal(now))
        .join_from(file, file_part, sa.and_(*keys))
        .where(old.member_id == member_id, old.folder_id.in_(folder_ids))
        .where(sa.or_(*(old[name] != new[name] for name in contents)))  # where either is NULL: nothing is known
    )
    c.execute(sa.insert(former_file).from_select([*columns, "replaced_at"], query))


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
