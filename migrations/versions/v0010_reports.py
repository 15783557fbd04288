"""Add the queue of what is reported to a hub, the digests of folders, and the triggers that keep both up to date."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_IS_ON = 'EXISTS (SELECT 1 FROM "report_state")'
_OF_FINDING = "kind path certainty state resolved_at muted_until blocks ranges message copy step command incident"
_OF_FILE = (
    "folder_id name size_bytes mtime_ns md5 xxh3_128 recorded_at verified_at read_how is_suspect is_frozen"
    " seal state_seal"
)
_SEALED = {  # "*" marks text
    "report_state": "id url* stream started_at confirmed chain complete_at failing_since last_error*",
    "report_change": "id kind* item_id",
    "report_message": "number at kind* item_id body*",
    "report_folder": "folder_id own content",
}


def upgrade() -> None:
    """Create the tables, the triggers that seal their rows, and those that fill and drop them."""
    op.create_table(
        "report_state",
        _key("id"),
        sa.Column("url", sa.Text(), nullable=False),
        _digest("stream"),
        _number("started_at"),
        _number("confirmed"),
        _digest("chain"),
        _number("complete_at", nullable=True),
        _number("failing_since", nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        _seal(),
        _parity("id + started_at + confirmed + coalesce(complete_at, 0) + coalesce(failing_since, 0)"),
        sqlite_strict=True,
    )
    op.create_table(
        "report_change",
        _key("id"),
        sa.Column("kind", sa.Text(), nullable=False),
        _number("item_id"),
        _seal(),
        _parity("id + item_id"),
        sa.UniqueConstraint("kind", "item_id"),
        sqlite_strict=True,
    )
    op.create_table(
        "report_message",
        _key("number"),
        _number("at"),
        sa.Column("kind", sa.Text(), nullable=False),
        _number("item_id"),
        sa.Column("body", sa.Text(), nullable=False),
        _seal(),
        _parity("number + at + item_id"),
        sqlite_strict=True,
    )
    op.create_table(
        "report_folder",
        sa.Column("folder_id", _INTEGER, sa.ForeignKey("folder.id"), primary_key=True, nullable=False),
        _digest("own", nullable=True),
        _digest("content", nullable=True),
        _seal(),
        _parity("folder_id"),
        sqlite_strict=True,
    )
    for table, columns in _SEALED.items():
        _seal_rows(table, columns.split())
    _queue_changes()
    _drop_digests()


def _key(name: str) -> sa.Column[int]:
    return sa.Column(name, _INTEGER, primary_key=True, nullable=False)


def _number(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, _INTEGER, nullable=nullable)


def _digest(name: str, *, nullable: bool = False) -> sa.Column[bytes]:
    return sa.Column(name, sa.LargeBinary(), sa.CheckConstraint(f"length({name}) = 16"), nullable=nullable)


def _seal() -> sa.Column[bytes]:
    return sa.Column(
        "seal",
        sa.LargeBinary(),
        sa.CheckConstraint("length(seal) = 16"),
        nullable=False,
        server_default=sa.text(f"x'{bytes(16).hex()}'"),
    )


def _parity(numbers: str) -> sa.Column[int]:
    return sa.Column("parity", _INTEGER, sa.Computed(f"({numbers}) % 127", persisted=True), nullable=False)


def _seal_rows(table: str, columns: list[str]) -> None:
    names = ", ".join(f'"{column.rstrip("*")}"' for column in columns)
    old, new = _call(table, columns, "OLD."), _call(table, columns, "NEW.")
    key = columns[0]
    sealing = f'BEGIN UPDATE "{table}" SET seal = {new} WHERE "{key}" = NEW."{key}"; END'  # noqa: S608 - names of ours
    op.execute(f'CREATE TRIGGER "{table}_sealed" AFTER INSERT ON "{table}" {sealing}')
    changed = f'AFTER UPDATE OF {names} ON "{table}" WHEN OLD.seal IS {old}'
    op.execute(f'CREATE TRIGGER "{table}_resealed" {changed} {sealing}')


def _call(table: str, columns: list[str], row: str) -> str:
    values = (
        f'CAST({row}"{column[:-1]}" AS BLOB)' if column.endswith("*") else f'{row}"{column}"' for column in columns
    )
    return f"row_seal('{table}', {', '.join(values)})"


def _queue_changes() -> None:
    names = ", ".join(f'"{name}"' for name in _OF_FINDING.split())
    differs = " OR ".join(f'OLD."{name}" IS NOT NEW."{name}"' for name in _OF_FINDING.split())
    changed = f'AFTER UPDATE OF {names} ON "finding" WHEN {_IS_ON} AND ({differs})'
    ended = f'AFTER UPDATE OF "outcome" ON "run" WHEN {_IS_ON} AND OLD."outcome" IS NULL AND NEW."outcome" IS NOT NULL'
    too_old = 'DELETE FROM "report_change" WHERE "kind" = \'run\' AND "item_id" <= NEW."id" - 10000'
    for name, event, body in (
        ("finding_opened", f'AFTER INSERT ON "finding" WHEN {_IS_ON}', _queue("finding", "NEW")),
        ("finding_changed", changed, _queue("finding", "NEW")),
        ("finding_gone", f'AFTER DELETE ON "finding" WHEN {_IS_ON}', _queue("finding", "OLD")),
        ("run", ended, _queue("run", "NEW", too_old)),
        ("action", f'AFTER INSERT ON "action" WHEN {_IS_ON}', _queue("action", "NEW")),
    ):
        op.execute(f'CREATE TRIGGER "{name}_reported" {event} {body}')


def _queue(kind: str, row: str, *then: str) -> str:
    known = f'SELECT 1 FROM "report_change" WHERE "kind" = \'{kind}\' AND "item_id" = {row}."id"'  # noqa: S608 - ours
    queue = f'INSERT INTO "report_change" ("kind", "item_id") SELECT \'{kind}\', {row}."id" WHERE NOT EXISTS ({known})'
    return f"BEGIN {'; '.join((queue, *then))}; END"


def _drop_digests() -> None:
    dropping = 'DELETE FROM "report_folder" WHERE "folder_id"'
    for name, event, row in (("added", "INSERT", "NEW"), ("removed", "DELETE", "OLD")):
        body = f'BEGIN {dropping} = {row}."folder_id"; END'
        op.execute(f'CREATE TRIGGER "file_{name}_reported" AFTER {event} ON "file" {body}')
    columns = ", ".join(f'"{name}"' for name in _OF_FILE.split())
    body = f'BEGIN {dropping} IN (OLD."folder_id", NEW."folder_id"); END'
    op.execute(f'CREATE TRIGGER "file_changed_reported" AFTER UPDATE OF {columns} ON "file" {body}')
