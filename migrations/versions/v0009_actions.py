"""Add the history of actions: what people had done, when, and from where."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_SEALED = "id at who* address* verb* root path findings* reason* outcome*"  # "*" marks text


def upgrade() -> None:
    """Create the table, and the triggers that seal its rows."""
    op.create_table(
        "action",
        sa.Column("id", _INTEGER, primary_key=True, nullable=False),
        sa.Column("at", _INTEGER, nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("verb", sa.Text(), nullable=False),
        sa.Column("root", sa.LargeBinary(), nullable=True),
        sa.Column("path", sa.LargeBinary(), nullable=True),
        sa.Column("findings", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column(
            "seal",
            sa.LargeBinary(),
            sa.CheckConstraint("length(seal) = 16"),
            nullable=False,
            server_default=sa.text(f"x'{bytes(16).hex()}'"),
        ),
        sa.Column("parity", _INTEGER, sa.Computed("(id + at) % 127", persisted=True), nullable=False),
        sqlite_strict=True,
    )
    columns = _SEALED.split()
    names = ", ".join(f'"{column.rstrip("*")}"' for column in columns)
    old, new = _call(columns, "OLD."), _call(columns, "NEW.")
    sealing = f'BEGIN UPDATE "action" SET seal = {new} WHERE "id" = NEW."id"; END'  # noqa: S608 - names of ours
    op.execute(f'CREATE TRIGGER "action_sealed" AFTER INSERT ON "action" {sealing}')
    changed = f'AFTER UPDATE OF {names} ON "action" WHEN OLD.seal IS {old}'
    op.execute(f'CREATE TRIGGER "action_resealed" {changed} {sealing}')


def _call(columns: list[str], row: str) -> str:
    values = (
        f'CAST({row}"{column[:-1]}" AS BLOB)' if column.endswith("*") else f'{row}"{column}"' for column in columns
    )
    return f"row_seal('action', {', '.join(values)})"
