"""Record who did what on the hub, and when. Entries are only added, never changed or removed (H5)."""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa

from integrity.errors import printable
from integrity.hub import schema

COMMAND_LINE = "command line"
"""The address of what somebody did in a shell of the hub."""

_LONGEST = 2000


class AuditEntry(NamedTuple):
    """An entry; see the columns of ``schema.audit``."""

    id: int
    at: int
    who: str
    address: str
    verb: str
    subject: str
    outcome: str


def record(c: sa.Connection, *, at: int, who: str, address: str, verb: str, subject: str, outcome: str) -> None:
    """Add an entry. Texts are made printable: names and versions come from boxes."""
    texts = {"who": who, "address": address, "verb": verb, "subject": subject, "outcome": outcome}
    values = {name: printable(text)[:_LONGEST] for name, text in texts.items()}
    c.execute(sa.insert(schema.audit).values(at=at, **values))


def record_box(c: sa.Connection, name: str, address: str, now: int, verb: str, subject: str, outcome: str) -> None:
    """Add what a box did, or what was refused to it."""
    record(c, at=now, who=f"box:{name}", address=address, verb=verb, subject=subject, outcome=outcome)


def find_entries(c: sa.Connection, *, before: int | None = None, limit: int = 100) -> list[AuditEntry]:
    """Return entries, newest first: those with a smaller number than ``before``."""
    query = sa.select(*(schema.audit.c[name] for name in AuditEntry._fields))
    if before is not None:
        query = query.where(schema.audit.c.id < before)
    return [AuditEntry(*row) for row in c.execute(query.order_by(schema.audit.c.id.desc()).limit(limit))]
