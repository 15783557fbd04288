"""
Seals of whole rows, made by triggers of the schema, so that no statement can forget them (R9).

A table with a column ``seal`` that is listed in ``SEALED`` seals all of its other columns but the parity. The triggers
ask the connection for ``row_seal``, which each one of this program has (``Sealer.bind``) and no other program's.

Rows of ``file`` have two seals: that of the baseline, which only a new one changes, and that of what runs note about it
(``state_seal``), which a trigger keeps unless a statement brings its own, as those do that run once for each file.

I1  A damaged row stays damaged: a change of some of its columns does not seal the others anew.

The definitions of tables, indexes and triggers: made in a new catalog, compared in one that is looked through.

SQLite checks that a definition can be read, not that it is the one that was written: with one flipped bit a trigger
fails, or seals less than it should. An upgraded catalog has the same definitions as a new one, in another order.

Parities, words and indexes that are not as they were written: what SQLite itself can see of a flipped bit (R9).

A seal tells more, but is computed by this program: three seconds for a million rows, where SQLite takes a quarter of
one for the parity. So the parity guards what is summed up, counted, or not found; rows that are shown or judged are
held against their seals as well. It is no constraint: of a file that is open for reading SQLite looks at none.
"""

from __future__ import annotations

import functools
import re
import sqlite3
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import sqlalchemy as sa

from integrity.catalog import folders, schema
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
    *(schema.delivery, schema.copy_file, schema.copy_reading),
)

CORE_TABLES = SEALED[:10]
"""Tables that every job rests on, and that are small: they are looked through whenever a catalog is opened."""

STATE = (
    *("recorded_at", "reason", "verified_at", "read_how", "boot_id"),
    *("is_suspect", "is_frozen", "seen_inode", "seen_ctime_ns"),
)
"""What runs note about a file beside its baseline."""


def has_key(db: sqlite3.Connection, sealer: Sealer) -> bool:
    """Say whether the rows of a catalog were sealed with the key of a sealer."""
    kept = db.execute("SELECT value FROM meta WHERE key = 'seal_check'").fetchone()
    return kept is not None and bool(kept[0] == sealer.key_check)


def make_triggers() -> Iterator[str]:
    """Write the statements that create all triggers."""
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
    """Say in a query whether a row of a sealed table is as it was written."""
    columns = _sealed_columns(table)
    return table.c.seal.op("IS", is_comparison=True)(_expression(table.name, columns))


def select_sealed(table: sa.Table, *columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Ask for columns of rows that ``check_seals`` can hold against their seals; all of the table's by default."""
    return sa.select(*(columns or table.c), is_sealed(table).label(_IS_SEALED), *_label_keys(table))


def check_seals(c: sa.Connection, table: sa.Table, rows: Iterable[sa.Row[Any]]) -> Iterator[sa.Row[Any]]:
    """Yield rows of such a query, and note those that are damaged: what is shown of them may be wrong."""
    keys = [label.name for label in _label_keys(table)]
    for row in rows:
        if not getattr(row, _IS_SEALED):
            note_damage(c, [DamagedRow(table.name, tuple(getattr(row, key) for key in keys))])
        yield row


def _label_keys(table: sa.Table) -> list[sa.Label[Any]]:
    return [column.label(f"key_{column.name}") for column in table.primary_key]


def find_damaged(c: sa.Connection, sealed: Iterable[sa.Table]) -> Iterator[DamagedRow]:
    """Look through whole tables."""
    # As text: at each start of the program Core takes three times as long for these statements as SQLite does.
    for table in sealed:
        key = ", ".join(f'"{column.name}"' for column in table.primary_key)
        computed = _call(table.name, _sealed_columns(table), f'"{table.name}"')
        rows = driver_of(c).execute(f'SELECT {key} FROM "{table.name}" WHERE seal IS NOT {computed}')  # noqa: S608 - ours
        yield from (DamagedRow(table.name, tuple(row)) for row in rows)


def reseal_state(c: sa.Connection, file_id: FileId) -> None:
    """Seal what runs noted about a file anew, as it is."""
    seal = _expression("file", _state_columns())
    c.execute(sa.update(file).where(file.c.id == file_id).values(state_seal=seal))


def reseal_row(c: sa.Connection, row: DamagedRow) -> None:
    """Seal a row of a sealed table anew, as it is."""
    table = file.metadata.tables[row.table]
    this = [column == value for column, value in zip(table.primary_key, row.key, strict=True)]
    c.execute(sa.update(table).where(*this).values(seal=_expression(table.name, _sealed_columns(table))))


def _sealed_columns(table: sa.Table) -> list[sa.Column[Any]]:
    """All but the seal itself, and what SQLite computes of the others."""
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
"""Asks for the definitions that a catalog has, as ``find_changed`` takes them."""


def define(c: sa.Connection) -> None:
    """Make all tables, indexes and triggers, in a transaction."""
    schema.metadata.create_all(c)
    schema.alembic_version.create(c)
    for trigger in (*make_triggers(), *folders.make_triggers()):
        c.exec_driver_sql(trigger)


def find_changed(definitions: Iterable[tuple[object, object, object]]) -> list[str]:
    """Say which definitions of a catalog of the present version are missing, or are not as this program makes them."""
    found = {(str(kind), str(name)): split(str(sql)) for kind, name, sql in definitions}
    return [
        f"the definition of {kind} {name} is not as it was written"
        for (kind, name), parts in _get_expected().items()
        if found.get((kind, name)) != parts
    ]


def split(sql: str) -> list[str]:
    """Cut a definition at the commas of its outer brackets, and sort the parts: their order tells nothing."""
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
