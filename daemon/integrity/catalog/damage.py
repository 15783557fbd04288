"""
Damaged rows that were met while a catalog was open, for whoever opened it to report.

A job goes on without such a row, and what is listed or summed up is shown as far as it can be read: neither may pass
for the whole truth.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa

_MET = "integrity.damaged_rows"
_KEPT = 100


@dataclass(frozen=True, slots=True)
class DamagedRow:
    """A row that is not as it was written."""

    table: str
    key: tuple[object, ...]

    def __str__(self) -> str:
        key = ", ".join(one.decode("utf-8", "replace") if isinstance(one, bytes) else str(one) for one in self.key)
        return f"row {key} of {self.table} is not as it was written"


def note_damage(c: sa.Connection, rows: Iterable[DamagedRow]) -> None:
    """Keep damaged rows in mind until the catalog is closed, the first 100."""
    met = c.info.setdefault(_MET, {})
    for row in rows:
        if len(met) < _KEPT:
            met[row] = None


def find_noted(c: sa.Connection) -> tuple[DamagedRow, ...]:
    """List the damaged rows that were met, in the order in which they were."""
    return tuple(c.info.get(_MET, ()))


def describe_damage(rows: Iterable[DamagedRow], shown: int = 3) -> str:
    """Write what is damaged for people: the first rows, and how many there are."""
    met = list(rows)
    more = f"; {len(met) - shown:,} more" if len(met) > shown else ""
    return "; ".join(map(str, met[:shown])) + more
