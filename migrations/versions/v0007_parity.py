"""
Add a parity of their numbers to rows, as a generated column that SQLite computes on each write.

SQLite cannot add a stored generated column to a table. But on disk it equals a plain column: that is added and filled,
and then its definition is replaced, as SQLite's documentation of ALTER TABLE describes for changes that do not touch
the stored content.
"""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_TABLES = {  # "?" marks nullable columns
    "folder": "id root_id",
    "file": "id folder_id size_bytes version recorded_at verified_at? is_suspect is_frozen",
    "run": "id root_id started_at finished_at? boot_id pid verified new changed damaged missing unreadable unstable"
    " skipped not_due moved bytes_read findings_opened findings_open last_file_id?",
    "candidate": "file_id size_bytes? mtime_ns? ctime_ns? inode? version seen_at run_id",
    "history": "id root_id file_id? size_bytes mtime_ns version recorded_at replaced_at inode?",
    "schedule_run": "id root_id? due_at? started_at finished_at?",
    "alert": "id created_at",
    "delivery": "alert_id attempts next_try_at sent_at?",
    "copy_file": "copy_id file_id version compared_at read_at?",
}
_PLAIN = "parity INTEGER DEFAULT 0 NOT NULL"
_EXCHANGE = "UPDATE sqlite_master SET sql = replace(sql, ?, ?) WHERE type = 'table' AND name = ?"


def upgrade() -> None:
    """Add the column to each table, fill it, and replace its definition."""
    c = op.get_bind()
    for table, names in _TABLES.items():
        c.exec_driver_sql(f'ALTER TABLE "{table}" ADD COLUMN {_PLAIN}')
        c.exec_driver_sql(f'UPDATE "{table}" SET parity = {_sum_up(names)}')  # noqa: S608 - names of ours
    version = c.exec_driver_sql("PRAGMA schema_version").scalar_one()
    c.exec_driver_sql("PRAGMA writable_schema = ON")
    for table, names in _TABLES.items():
        generated = f"parity INTEGER NOT NULL GENERATED ALWAYS AS ({_sum_up(names)}) STORED"
        done = c.exec_driver_sql(_EXCHANGE, (_PLAIN, generated, table))
        assert done.rowcount == 1, table
    c.exec_driver_sql(f"PRAGMA schema_version = {version + 1}")  # makes other connections reload the schema
    c.exec_driver_sql("PRAGMA writable_schema = RESET")  # makes this connection reload it


def _sum_up(names: str) -> str:
    terms = (f"coalesce({name[:-1]}, 0)" if name.endswith("?") else name for name in names.split())
    return f"({' + '.join(terms)}) % 127"
