"""Add fingerprints of folders, which later scans compute, and triggers that drop them when a file's row changes."""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_DROPPING = 'UPDATE "folder" SET "fingerprint" = NULL WHERE "id"'
_HAS_ONE = '(SELECT "fingerprint" FROM "folder" WHERE "id" = {row}."folder_id") IS NOT NULL'
_DECIDING = '"folder_id", "name", "size_bytes", "mtime_ns", "ctime_ns", "inode", "is_racy", "is_frozen"'


def upgrade() -> None:
    """Add the column and the triggers."""
    c = op.get_bind()
    c.exec_driver_sql('ALTER TABLE "folder" ADD COLUMN fingerprint BLOB')
    for name, event, row in (("added", "INSERT", "NEW"), ("removed", "DELETE", "OLD")):
        c.exec_driver_sql(
            f'CREATE TRIGGER "file_{name}" AFTER {event} ON "file" WHEN {_HAS_ONE.format(row=row)}'
            f' BEGIN {_DROPPING} = {row}."folder_id"; END'
        )
    c.exec_driver_sql(
        f'CREATE TRIGGER "file_changed" AFTER UPDATE OF {_DECIDING} ON "file"'
        f' BEGIN {_DROPPING} IN (OLD."folder_id", NEW."folder_id") AND "fingerprint" IS NOT NULL; END'
    )
