"""
Damage detection for whole rows (R9): seals, parities, known words, and the definitions of the schema.

Triggers seal the rows of each table in ``SEALED``, so that no statement can forget it; they call ``row_seal``, which
only this program's connections have (``Sealer.bind``). A ``file`` row has two seals: that of its baseline
(``seal.py``), and ``state_seal`` of what runs record about it, which a trigger writes unless the statement brings its
own.

SQLite checks the parities of a million rows in 0.25 s, seals take 3 s. Parities guard what is summed up, counted, or
not found; rows that are shown or judged are also checked by their seals. A parity is not a CHECK constraint, because
SQLite ignores constraints in a file that is open for reading.

I1  A damaged row stays damaged: updating some of its columns does not seal the others again.
"""

from __future__ import annotations

import functools
import re
import sqlite3
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import sqlalchemy as sa

from integrity.catalog import folders, report_triggers, schema
from integrity.catalog.compiled_sql import connect_core, driver_of
from integrity.catalog.schema import file
from integrity.catalog.seal import ROW_SEAL, Sealer
from integrity.catalog.sqlite_errors import DamagedRow, note_damage
from integrity.model import BaselineReason, FileId, Job, Outcome, ReadHow
from integrity.verdict import CopyVote

_IS_SEALED = "is_as_written"

SEALED = (
    *(schema.meta, schema.root, schema.nested_mount, schema.configured_root, schema.boot, schema.finding),
    *(schema.told, schema.channel, schema.copy, schema.gate),
    *(schema.run, schema.candidate, schema.history, schema.checkpoint, schema.schedule_run, schema.alert),
    *(schema.delivery, schema.copy_file, schema.copy_reading, schema.action),
    *(schema.report_state, schema.report_change, schema.report_message, schema.report_folder),
)

CORE_TABLES = SEALED[:10]
"""Small tables that every job relies on; checked whenever a catalog is opened."""

STATE = (
    *("recorded_at", "reason", "verified_at", "read_how", "boot_id"),
    *("is_suspect", "is_frozen", "seen_inode", "seen_ctime_ns"),
)
"""Columns that runs update beside the baseline of a file."""


def has_key(db: sqlite3.Connection, sealer: Sealer) -> bool:
    """Return whether the rows of a catalog were sealed with a sealer's key."""
    kept = db.execute("SELECT value FROM meta WHERE key = 'seal_check'").fetchone()
    return kept is not None and bool(kept[0] == sealer.key_check)


def make_triggers() -> Iterator[str]:
    """Yield the statements that create all triggers."""
    for table in SEALED:
        columns = _sealed_columns(table)
        names = ", ".join(f'"{column.name}"' for column in columns)
        this = " AND ".join(f'"{column.name}" = NEW."{column.name}"' for column in table.primary_key)
        old, new = (_call(table.name, columns, row) for row in ("OLD", "NEW"))
        sealing = f'BEGIN UPDATE "{table.name}" SET seal = {new} WHERE {this}; END'  # noqa: S608 - names of ours
        yield f'CREATE TRIGGER "{table.name}_sealed" AFTER INSERT ON "{table.name}" {sealing}'
        changed = f'AFTER UPDATE OF {names} ON "{table.name}" WHEN OLD.seal IS {old}'
        yield f'CREATE TRIGGER "{table.name}_resealed" {changed} {sealing}'
    columns = _state_columns()
    names = ", ".join(f'"{column.name}"' for column in columns)
    old, new = (_call("file", columns, row) for row in ("OLD", "NEW"))
    changed = f'AFTER UPDATE OF {names} ON "file" WHEN NEW.state_seal IS OLD.state_seal AND OLD.state_seal IS {old}'
    sealing = f'BEGIN UPDATE "file" SET state_seal = {new} WHERE "id" = NEW."id"; END'  # noqa: S608 - names of ours
    yield f'CREATE TRIGGER "file_resealed" {changed} {sealing}'


def is_sealed(table: sa.Table) -> sa.ColumnElement[bool]:
    """Return, as SQL, whether the seal of a row of a sealed table matches."""
    columns = _sealed_columns(table)
    return table.c.seal.op("IS", is_comparison=True)(_expression(table.name, columns))


def select_sealed(table: sa.Table, *columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Select columns (default: all of the table) for ``check_seals``."""
    return sa.select(*(columns or table.c), is_sealed(table).label(_IS_SEALED), *_label_keys(table))


def check_seals(c: sa.Connection, table: sa.Table, rows: Iterable[sa.Row[Any]]) -> Iterator[sa.Row[Any]]:
    """Yield the rows of such a query and note the damaged ones, whose values may be wrong."""
    keys = [label.name for label in _label_keys(table)]
    for row in rows:
        if not getattr(row, _IS_SEALED):
            note_damage(c, [DamagedRow(table.name, tuple(getattr(row, key) for key in keys))])
        yield row


def _label_keys(table: sa.Table) -> list[sa.Label[Any]]:
    return [column.label(f"key_{column.name}") for column in table.primary_key]


def find_damaged(c: sa.Connection, sealed: Iterable[sa.Table]) -> Iterator[DamagedRow]:
    """Yield the rows of these tables whose seal does not match."""
    # Text instead of Core, which takes three times as long as SQLite for these statements, at each program start.
    for table in sealed:
        key = ", ".join(f'"{column.name}"' for column in table.primary_key)
        computed = _call(table.name, _sealed_columns(table), f'"{table.name}"')
        rows = driver_of(c).execute(f'SELECT {key} FROM "{table.name}" WHERE seal IS NOT {computed}')  # noqa: S608 - ours
        yield from (DamagedRow(table.name, tuple(row)) for row in rows)


def reseal_state(c: sa.Connection, file_id: FileId) -> None:
    """Write the state seal of a file's row for its present values."""
    seal = _expression("file", _state_columns())
    c.execute(sa.update(file).where(file.c.id == file_id).values(state_seal=seal))


def reseal_row(c: sa.Connection, row: DamagedRow) -> None:
    """Write the seal of a row of a sealed table for its present values."""
    table = file.metadata.tables[row.table]
    this = [column == value for column, value in zip(table.primary_key, row.key, strict=True)]
    c.execute(sa.update(table).where(*this).values(seal=_expression(table.name, _sealed_columns(table))))


def _sealed_columns(table: sa.Table) -> list[sa.Column[Any]]:
    """Return all columns except the seal and computed ones."""
    return [column for column in table.columns if column.name != "seal" and column.computed is None]


def _state_columns() -> list[sa.Column[Any]]:
    return [file.c[name] for name in ("id", "seal", *STATE)]


def _call(name: str, columns: Sequence[sa.Column[Any]], row: str) -> str:
    values = (
        f'CAST({row}."{column.name}" AS BLOB)' if isinstance(column.type, sa.Text) else f'{row}."{column.name}"'
        for column in columns
    )
    return f"{ROW_SEAL}('{name}', {', '.join(values)})"


def _expression(name: str, columns: Sequence[sa.Column[Any]]) -> sa.ColumnElement[bytes]:
    values = (sa.cast(column, sa.LargeBinary) if isinstance(column.type, sa.Text) else column for column in columns)
    return sa.func.row_seal(name, *values, type_=sa.LargeBinary)


QUERY = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite@_%' ESCAPE '@'"
"""Selects the definitions of a catalog for ``find_changed``."""


def define(c: sa.Connection) -> None:
    """Create all tables, indexes, and triggers, in a transaction."""
    schema.metadata.create_all(c)
    schema.alembic_version.create(c)
    for trigger in (*make_triggers(), *folders.make_triggers(), *report_triggers.make_triggers()):
        c.exec_driver_sql(trigger)


def find_changed(definitions: Iterable[tuple[object, object, object]]) -> list[str]:
    """
    Return which definitions of a catalog with the current schema are missing or differ from this program's.

    SQLite only checks that a definition can be parsed: after a bit flip, a trigger may fail or seal less than it
    should. An upgraded catalog has the same definitions as a new one, in another order.
    """
    found = {(str(kind), str(name)): split(str(sql)) for kind, name, sql in definitions}
    return [
        f"the definition of {kind} {name} is not as it was written"
        for (kind, name), parts in _get_expected().items()
        if found.get((kind, name)) != parts
    ]


def split(sql: str) -> list[str]:
    """Split a definition at the commas of its outer parentheses and sort the parts, whose order does not matter."""
    if sql.startswith("CREATE TRIGGER"):
        return [sql]
    parts, depth = [""], 0
    for character in sql:
        depth += (character == "(") - (character == ")")
        if (depth <= 1 and character in ",(") or (depth == 0 and character == ")"):
            parts.append("")
        else:
            parts[-1] += character
    return sorted(re.sub(r"\s+", " ", part).strip(" )") for part in parts)


@functools.cache
def _get_expected() -> Mapping[tuple[str, str], list[str]]:
    with closing(sqlite3.connect(":memory:")) as db:
        with connect_core(db, Sealer()) as c:
            define(c)
        return {(kind, name): split(sql) for kind, name, sql in db.execute(QUERY)}


WORDS: Mapping[str, Iterable[str]] = {
    "file.read_how": ReadHow,
    "run.job": Job,
    "run.outcome": Outcome,
    "candidate.kind": ("change", "removal", "times"),
    "candidate.because": BaselineReason,
    "candidate.state": ("staged", "frozen", "held"),
    "history.reason": BaselineReason,
    "history.replaced_because": BaselineReason,
    "schedule_run.schedule": ("scan", "scrub", "compare:*"),
    "copy_file.vote": CopyVote,
    "report_change.kind": report_triggers.KINDS,
    "report_message.kind": report_triggers.KINDS,
}
"""Words by which rows are counted or looked up; "*" matches any suffix. No single bit flip turns one into another."""

_TABLES = tuple(table for table in schema.metadata.sorted_tables if "parity" in table.c)

_SMALL = sorted(
    {table.name for table in schema.metadata.sorted_tables}
    - {"file", "folder", "block_run", "history", "candidate", "copy_file", "copy_reading", "checkpoint_run"}
    - {"report_folder"}
)
"""Tables that do not grow with the number of files."""

ALL_BUT_FILES = frozenset(table.name for table in _TABLES) - {"file"}
"""For jobs, which check the seal of each ``file`` row before they use it."""


def find_odd(c: sa.Connection, names: Container[str] | None = None) -> Iterator[DamagedRow]:
    """
    Yield the rows with a wrong parity or an unknown word, in one pass over each table that has a parity.

    ``names``: tables to check; None: all.
    """
    # Text instead of Core, which takes 20 ms for nine statements of this length, at each program start.
    for table in (table for table in _TABLES if names is None or table.name in names):
        key = ", ".join(column.name for column in table.primary_key)
        condition = " OR ".join((_is_wrong(table), *_find_unknown(table)))
        rows = driver_of(c).execute(f"SELECT {key} FROM {table.name} WHERE {condition}")  # noqa: S608 - names of ours
        yield from (DamagedRow(table.name, tuple(row)) for row in rows)


def find_wrong_indexes(c: sa.Connection) -> Iterator[str]:
    """
    Yield SQLite's complaints about small tables, whose indexes may not match their rows: queries read indexes, too.

    SQLite's quick check does not compare indexes; comparing those of large tables takes seconds for a million files.
    """
    for name in _SMALL:
        answers = driver_of(c).execute(f"PRAGMA integrity_check({name})")
        yield from (text for (text,) in answers if text != "ok")


def renew_parities(c: sa.Connection) -> None:
    """Recompute wrong parities from the present values of their rows."""
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
        if words is not None:  # NOT IN would double the time of the whole check
            unlike = (f"{column.name} {'NOT GLOB' if '*' in word else '!='} '{word}'" for word in words)
            yield f"({' AND '.join(unlike)})"
