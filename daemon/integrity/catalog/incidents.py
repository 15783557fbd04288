"""
Incidents: findings that say the same of several names of one file, of which people are told once.

Each name has a finding of its own, for it can go its own way; those that say the same of one inode share the number of
the first. A finding that shares with nobody is an incident by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from integrity.catalog.compiled_sql import Hot
from integrity.catalog.rows import chunked
from integrity.catalog.schema import file, finding
from integrity.model import FileId, Finding, FindingId

RESOLVED: sa.ColumnElement[str] = sa.literal_column("'resolved'")  # spelled as in the partial index, which it selects
UNRESOLVED = finding.c.state != RESOLVED
INCIDENT = sa.func.coalesce(finding.c.incident, finding.c.id)
"""Number of the incident that a finding belongs to."""

DAMAGE = ("certainty", "blocks", "ranges")
"""Columns that tell what is damaged, and how sure that is."""

_SAME = ("kind", "copy", *DAMAGE)
_SHARED = ("incident", "state", "muted_until")
_MINE, _OTHER = file.alias("mine"), file.alias("other")
# The root is that of the file: named here, it would have SQLite look through all findings of it.
_SAME_OF_INODE = Hot(
    sa.select(INCIDENT, finding.c.state, finding.c.muted_until)
    .select_from(_MINE)
    .join(_OTHER, sa.and_(*(_MINE.c[one] == _OTHER.c[one] for one in ("inode", "size_bytes", "mtime_ns", "ctime_ns"))))
    .join(finding, finding.c.file_id == _OTHER.c.id)
    .where(_MINE.c.id == sa.bindparam("file_id"), _OTHER.c.id != _MINE.c.id, UNRESOLVED)
    .where(*(finding.c[one].is_not_distinct_from(sa.bindparam(one)) for one in _SAME))
    .order_by(_OTHER.c.id)  # as the index has them: the first that fits ends the search
    .limit(sa.literal_column("1")),
    "file_id",
    *_SAME,
)


def find_incident(
    c: sa.Connection, file_id: FileId, values: Mapping[str, Any], finding_id: int | None
) -> dict[str, Any]:
    """
    Find an incident about the same inode that a finding belongs to.

    Args:
        c: a connection.
        file_id: the name that the finding is about.
        values: of the finding's columns.
        finding_id: its number, if it has one.

    Returns:
        The columns that it shares with the others of the incident; none if there is no incident.
    """
    row = _SAME_OF_INODE.run(c, file_id, *(values[name] for name in _SAME)).fetchone()
    return {} if row is None or row[0] == finding_id else dict(zip(_SHARED, row, strict=True))


def as_incidents(c: sa.Connection, found: Iterable[Finding]) -> list[Finding]:
    """Keep the first finding of each incident, and give it the other names of its file that it is open about."""
    first: dict[FindingId, Finding] = {}
    for one in found:
        first.setdefault(one.incident_id, one)
    names: dict[FindingId, list[bytes]] = {}
    query = sa.select(INCIDENT, finding.c.path).where(UNRESOLVED).order_by(finding.c.id)
    for chunk in chunked(first):
        for number, path in c.execute(query.where(in_incidents(chunk))):
            if path != (first[number].path or b""):
                names.setdefault(number, []).append(path)
    return [replace(one, names=tuple(names.get(number, ()))) for number, one in first.items()]


def in_incidents(numbers: Collection[int]) -> sa.ColumnElement[bool]:
    """Match the findings that belong to some incidents."""
    return sa.or_(finding.c.id.in_(numbers), finding.c.incident.in_(numbers))


def of_incident(number: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
    """Match the findings of the incident that a column names, by an index each."""
    return sa.or_(finding.c.id == number, finding.c.incident == number)


def is_first_of_incident() -> sa.ColumnElement[bool]:
    """Match, of the unresolved findings of an incident, the first."""
    other = finding.alias()
    is_earlier = other.c.id < finding.c.id, other.c.state != RESOLVED
    of_same = sa.or_(other.c.id == finding.c.incident, other.c.incident == finding.c.incident)
    return sa.or_(finding.c.incident.is_(None), ~sa.exists().where(of_same, *is_earlier))
