"""
Let a suspect keep the inode and the ctime that were last seen under its name: it is known by them wherever it is next.

The new columns are part of what ``state_seal`` covers; where they are null that is what it was: no row is sealed anew.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

# A text is marked by "*".
_STATE = "id seal recorded_at reason* verified_at read_how* boot_id is_suspect is_frozen seen_inode seen_ctime_ns"


def upgrade() -> None:
    """Add the columns and an index, and create the trigger that seals them, too."""
    op.execute("ALTER TABLE file ADD COLUMN seen_inode INTEGER")
    op.execute("ALTER TABLE file ADD COLUMN seen_ctime_ns INTEGER")
    op.create_index("file_seen_inode", "file", ["seen_inode"], sqlite_where=sa.text("seen_inode IS NOT NULL"))
    op.execute("DROP TRIGGER file_resealed")
    columns = _STATE.split()
    names = ", ".join(f'"{column.rstrip("*")}"' for column in columns)
    old, new = _call("file", columns, "OLD."), _call("file", columns, "NEW.")
    changed = f'AFTER UPDATE OF {names} ON "file" WHEN NEW.state_seal IS OLD.state_seal AND OLD.state_seal IS {old}'
    sealing = f'BEGIN UPDATE "file" SET state_seal = {new} WHERE "id" = NEW."id"; END'  # noqa: S608 - names of ours
    op.execute(f'CREATE TRIGGER "file_resealed" {changed} {sealing}')


def _call(table: str, columns: list[str], row: str) -> str:
    values = (
        f'CAST({row}"{column[:-1]}" AS BLOB)' if column.endswith("*") else f'{row}"{column}"' for column in columns
    )
    return f"row_seal('{table}', {', '.join(values)})"
