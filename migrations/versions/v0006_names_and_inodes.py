"""
Group findings about several names of one file into incidents, and store what was last seen under a suspect's name.

Findings are sealed again with the new column, except damaged ones. ``state_seal`` covers the new columns of suspects;
where they are null, the seal does not change.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

# Sealed columns in order; "*" marks text.
_FINDING = (
    "id root_id file_id path kind* certainty* state* opened_at updated_at resolved_at resolution* muted_until blocks*"
    " block_size_bytes ranges* confirmed_reads message* run_id copy* step* command* opened_by incident"
)
_STATE = "id seal recorded_at reason* verified_at read_how* boot_id is_suspect is_frozen seen_inode seen_ctime_ns"


def upgrade() -> None:
    """Add the columns and their indexes, and create the triggers that seal them."""
    _add_incidents()
    _add_sightings()


def _add_incidents() -> None:
    op.execute("DROP TRIGGER finding_sealed")
    op.execute("DROP TRIGGER finding_resealed")
    op.execute("ALTER TABLE finding ADD COLUMN incident INTEGER")
    op.create_index("finding_incident", "finding", ["incident"], sqlite_where=sa.text("state != 'resolved'"))
    columns = _FINDING.split()
    before, after = (_call("finding", some, "") for some in (columns[:-1], columns))
    op.execute(f"UPDATE finding SET seal = {after} WHERE seal IS {before}")  # noqa: S608 - names of ours
    old, new = _call("finding", columns, "OLD."), _call("finding", columns, "NEW.")
    sealing = f'BEGIN UPDATE "finding" SET seal = {new} WHERE "id" = NEW."id"; END'  # noqa: S608 - names of ours
    op.execute(f'CREATE TRIGGER "finding_sealed" AFTER INSERT ON "finding" {sealing}')
    changed = f'AFTER UPDATE OF {_names(columns)} ON "finding" WHEN OLD.seal IS {old}'
    op.execute(f'CREATE TRIGGER "finding_resealed" {changed} {sealing}')


def _add_sightings() -> None:
    op.execute("DROP TRIGGER file_resealed")
    op.execute("ALTER TABLE file ADD COLUMN seen_inode INTEGER")
    op.execute("ALTER TABLE file ADD COLUMN seen_ctime_ns INTEGER")
    op.create_index("file_seen_inode", "file", ["seen_inode"], sqlite_where=sa.text("seen_inode IS NOT NULL"))
    columns = _STATE.split()
    old, new = _call("file", columns, "OLD."), _call("file", columns, "NEW.")
    is_kept = f"NEW.state_seal IS OLD.state_seal AND OLD.state_seal IS {old}"
    sealing = f'BEGIN UPDATE "file" SET state_seal = {new} WHERE "id" = NEW."id"; END'  # noqa: S608 - names of ours
    changed = f'AFTER UPDATE OF {_names(columns)} ON "file" WHEN {is_kept}'
    op.execute(f'CREATE TRIGGER "file_resealed" {changed} {sealing}')


def _names(columns: list[str]) -> str:
    return ", ".join(f'"{column.rstrip("*")}"' for column in columns)


def _call(table: str, columns: list[str], row: str) -> str:
    values = (
        f'CAST({row}"{column[:-1]}" AS BLOB)' if column.endswith("*") else f'{row}"{column}"' for column in columns
    )
    return f"row_seal('{table}', {', '.join(values)})"
