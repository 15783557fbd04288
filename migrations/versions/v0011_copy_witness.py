"""
Add what a copy had when its file was first read, as which file, and when; and which of several disks a copy is.

SQLite can't add columns before a generated one, so the table is made anew. Rows with a broken seal are left out: their
files are compared again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_BEFORE = "copy_id file_id version vote* compared_at read_at stated"  # "*" marks text
_NUMBERS = "found_size_bytes found_at found_mtime_ns found_ctime_ns found_inode"
_COPY = "id root_id prefix name* url* identity* has_bytes created_at listed_at"


def upgrade() -> None:
    """Make the table anew; what was the same was found at the comparison, under times that are not known."""
    op.rename_table("copy_file", "copy_file_before")
    op.execute('DROP TRIGGER "copy_file_sealed"')
    op.execute('DROP TRIGGER "copy_file_resealed"')
    op.create_table(
        "copy_file",
        sa.Column("copy_id", _INTEGER, sa.ForeignKey("copy.id"), nullable=False),
        _number("file_id", nullable=False),
        _number("version", nullable=False),
        sa.Column("vote", sa.Text(), nullable=False),
        _number("compared_at", nullable=False),
        _number("read_at"),
        sa.Column("stated", sa.LargeBinary(), sa.CheckConstraint("length(stated) = 16"), nullable=True),
        _number("found_version"),
        sa.Column("found_digest", sa.LargeBinary(), sa.CheckConstraint("length(found_digest) = 16"), nullable=True),
        *map(_number, _NUMBERS.split()),
        sa.Column("found_as", sa.LargeBinary(), nullable=True),
        sa.Column(
            "seal",
            sa.LargeBinary(),
            sa.CheckConstraint("length(seal) = 16"),
            nullable=False,
            server_default=sa.text(f"x'{bytes(16).hex()}'"),
        ),
        sa.Column(
            "parity",
            _INTEGER,
            sa.Computed("(copy_id + file_id + version + compared_at + coalesce(read_at, 0)) % 127", persisted=True),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("copy_id", "file_id"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    this = '"copy_id" = NEW."copy_id" AND "file_id" = NEW."file_id"'
    columns = f"{_BEFORE} found_version found_digest {_NUMBERS} found_as".split()
    _seal_rows("copy_file", columns, this)
    former = _BEFORE.replace("*", "").split()
    op.execute(
        f"INSERT INTO copy_file ({', '.join(former)}, found_version, found_at)"  # noqa: S608 - names of ours
        f" SELECT {', '.join(former)}, iif(vote = 'same', version, NULL), iif(vote = 'same', compared_at, NULL)"
        f" FROM copy_file_before WHERE seal IS {_call('copy_file', _BEFORE.split(), '')}"
    )
    op.drop_table("copy_file_before")
    op.execute('DROP TRIGGER "copy_sealed"')
    op.execute('DROP TRIGGER "copy_resealed"')
    op.add_column("copy", sa.Column("disk", sa.Text(), nullable=True))
    before, after = _COPY.split(), f"{_COPY} disk*".split()
    op.execute(f"UPDATE copy SET seal = {_call('copy', after, '')} WHERE seal IS {_call('copy', before, '')}")  # noqa: S608
    _seal_rows("copy", after, '"id" = NEW."id"')


def _number(name: str, *, nullable: bool = True) -> sa.Column[int]:
    return sa.Column(name, _INTEGER, nullable=nullable)


def _seal_rows(table: str, columns: list[str], this: str) -> None:
    """Create the triggers that seal the rows of a table, whose row that was written is ``this``."""
    names = ", ".join(f'"{column.rstrip("*")}"' for column in columns)
    old, new = _call(table, columns, "OLD."), _call(table, columns, "NEW.")
    sealing = f'BEGIN UPDATE "{table}" SET seal = {new} WHERE {this}; END'  # noqa: S608 - names of ours
    op.execute(f'CREATE TRIGGER "{table}_sealed" AFTER INSERT ON "{table}" {sealing}')
    changed = f'AFTER UPDATE OF {names} ON "{table}" WHEN OLD.seal IS {old}'
    op.execute(f'CREATE TRIGGER "{table}_resealed" {changed} {sealing}')


def _call(table: str, columns: list[str], row: str) -> str:
    values = (
        f'CAST({row}"{column[:-1]}" AS BLOB)' if column.endswith("*") else f'{row}"{column}"' for column in columns
    )
    return f"row_seal('{table}', {', '.join(values)})"
