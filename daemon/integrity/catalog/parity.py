"""
Parities, words and indexes that are not as they were written: what SQLite itself can see of a flipped bit (R9).

A seal tells more, but is computed by this program: three seconds for a million rows, where SQLite takes a quarter of
one for the parity. So the parity guards what is summed up, counted, or not found; rows that are shown or judged are
held against their seals as well. It is no constraint: of a file that is open for reading SQLite looks at none.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

import sqlalchemy as sa

from integrity.catalog import schema
from integrity.catalog.core import driver_of
from integrity.catalog.damage import DamagedRow
from integrity.model import BaselineReason, Job, Outcome, ReadHow
from integrity.verdict import CopyVote

WORDS: Mapping[str, Iterable[str]] = {
    "file.read_how": ReadHow,
    "run.job": Job,
    "run.outcome": Outcome,
    "candidate.kind": ("change", "removal"),
    "candidate.because": BaselineReason,
    "candidate.state": ("staged", "frozen", "held"),
    "history.reason": BaselineReason,
    "history.replaced_because": BaselineReason,
    "schedule_run.schedule": ("scan", "scrub", "compare:*"),
    "copy_file.vote": CopyVote,
}
"""Words by which rows are counted or looked up; any end may stand for a "*". No flipped bit makes one of another."""

_TABLES = tuple(table for table in schema.metadata.sorted_tables if "parity" in table.c)

_SMALL = sorted(
    {table.name for table in schema.metadata.sorted_tables}
    - {"file", "folder", "block_run", "history", "candidate", "copy_file", "copy_reading", "checkpoint_run"}
)
"""Tables that do not grow with the files."""

ALL_BUT_FILES = frozenset(table.name for table in _TABLES) - {"file"}
"""For jobs: they hold each row of ``file`` against its seal before anything rests on it."""


def find_odd(c: sa.Connection, names: Container[str] | None = None) -> Iterator[DamagedRow]:
    """
    Find the rows whose parity is wrong, or one of whose words is unknown: one pass over each table that has one.

    ``names``: of the tables that are looked at; None: all.
    """
    # As text: nine statements of this length take Core 20 ms, at each start of the program.
    for table in (table for table in _TABLES if names is None or table.name in names):
        key = ", ".join(column.name for column in table.primary_key)
        condition = " OR ".join((_is_wrong(table), *_find_unknown(table)))
        rows = driver_of(c).execute(f"SELECT {key} FROM {table.name} WHERE {condition}")  # noqa: S608 - names of ours
        yield from (DamagedRow(table.name, tuple(row)) for row in rows)


def find_wrong_indexes(c: sa.Connection) -> Iterator[str]:
    """
    Find entries of indexes of small tables that are not those of their rows: statements are answered from these, too.

    SQLite's quick check compares none, and comparing those of large tables takes some seconds for a million files.
    """
    for name in _SMALL:
        answers = driver_of(c).execute(f"PRAGMA integrity_check({name})")
        yield from (text for (text,) in answers if text != "ok")


def renew_parities(c: sa.Connection) -> None:
    """Have SQLite compute the wrong ones anew, from what the rows hold now."""
    for table in _TABLES:
        key = next(iter(table.primary_key))
        c.execute(sa.update(table).where(sa.text(_is_wrong(table))).values({key: key}))


def _is_wrong(table: sa.Table) -> str:
    computed = table.c.parity.computed
    assert computed is not None
    return f"parity != {computed.sqltext}"


def _find_unknown(table: sa.Table) -> Iterator[str]:
    for column in table.c:
        words = WORDS.get(f"{table.name}.{column.name}")
        if words is not None:  # not by NOT IN, which takes as long again as all else here
            unlike = (f"{column.name} {'NOT GLOB' if '*' in word else '!='} '{word}'" for word in words)
            yield f"({' AND '.join(unlike)})"
