"""
Seals of whole rows, made by triggers of the schema, so that no statement can forget them (R9).

A table with a column ``seal`` that is listed in ``SEALED`` seals all of its other columns but the parity. The triggers
ask the connection for ``row_seal``, which each one of this program has (``Sealer.bind``) and no other program's.

Rows of ``file`` have two seals: that of the baseline, which only a new one changes, and that of what runs note about it
(``state_seal``), which a trigger keeps unless a statement brings its own, as those do that run once for each file.

I1  A damaged row stays damaged: a change of some of its columns does not seal the others anew.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from integrity.catalog import schema
from integrity.catalog.core import driver_of
from integrity.catalog.damage import DamagedRow, note_damage
from integrity.catalog.schema import file
from integrity.catalog.seal import ROW_SEAL, Sealer
from integrity.model import FileId

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
