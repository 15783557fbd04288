"""
Seal all rows by triggers: ``file`` rows over what runs record about them, rows of other tables as a whole.

Candidates, checkpoints, and readings of copies had other seals. They are sealed again in their present state: a damaged
row, which would have been dropped on its next use, counts as valid from now on.
"""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_SEAL = "BLOB DEFAULT (x'00000000000000000000000000000000') NOT NULL"
_HAD_SEALS = ("candidate", "checkpoint", "copy_reading")

# Primary key : sealed columns in order; "*" marks text.
_TABLES = {
    "meta": "key* : key* value*",
    "root": "id : id token path fs_id* folder_inode fs_type* state* state_reason* created_at file_count seal_xor",
    "nested_mount": "root_id path : root_id path identity*",
    "configured_root": "root_id : root_id",
    "boot": "id : id uuid* fs_id* mount* mount_count first_seen_at stopped_cleanly_at",
    "finding": "id : id root_id file_id path kind* certainty* state* opened_at updated_at resolved_at resolution*"
    " muted_until blocks* block_size_bytes ranges* confirmed_reads message* run_id copy* step* command* opened_by",
    "told": "finding_id : finding_id certainty* blocks* ranges* first_told_at swallowed_by",
    "channel": "name* : name* first_seen_at good_at failing_since failed_at is_permanent last_error* told_at",
    "copy": "id : id root_id prefix name* url* identity* has_bytes created_at listed_at",
    "gate": "root_id prefix : root_id prefix passed_at last_history_id last_file_id",
    "run": "id : id root_id job* started_at finished_at outcome* boot_id pid verified new changed damaged"
    " missing unreadable unstable skipped not_due moved bytes_read findings_opened findings_open"
    " duration_s error* copy* last_file_id",
    "candidate": "file_id : file_id kind* size_bytes mtime_ns ctime_ns inode is_racy md5 xxh3_128 blake3"
    " block_size_bytes version verdict* because* read_how* seen_at run_id state* crc64nvme",
    "history": "id : id root_id file_id path size_bytes mtime_ns md5 xxh3_128 blake3 version recorded_at reason*"
    " replaced_at replaced_because* note* crc64nvme block_size_bytes is_racy ctime_ns inode",
    "checkpoint": "id : id root_id path purpose* size_bytes mtime_ns ctime_ns inode is_racy offset_bytes md5_state"
    " bad_blocks* block_size_bytes saved_at",
    "schedule_run": "id : id schedule* root_id due_at started_at finished_at outcome*",
    "alert": "id : id kind* message_id* subject* body* html* facts* incidents* created_at",
    "delivery": "alert_id channel* : alert_id channel* attempts next_try_at sent_at last_error*",
    "copy_file": "copy_id file_id : copy_id file_id version vote* compared_at read_at stated",
    "copy_reading": "copy_id file_id : copy_id file_id version size_bytes mtime_ns ctime_ns inode is_racy offset_bytes"
    " bad_blocks*",
}
_STATE = "id seal recorded_at reason* verified_at read_how* boot_id is_suspect is_frozen"


def upgrade() -> None:
    """Add the columns, seal existing rows, and create the triggers that seal later changes."""
    for table, text in _TABLES.items():
        key, columns = (part.split() for part in text.split(" : "))
        if table not in _HAD_SEALS:
            op.execute(f'ALTER TABLE "{table}" ADD COLUMN seal {_SEAL} CHECK (length(seal) = 16)')
        op.execute(f'UPDATE "{table}" SET seal = {_call(table, columns, "")}')  # noqa: S608 - names of ours
        names = ", ".join(f'"{column.rstrip("*")}"' for column in columns)
        this = " AND ".join(f'"{column.rstrip("*")}" = NEW."{column.rstrip("*")}"' for column in key)
        old, new = _call(table, columns, "OLD."), _call(table, columns, "NEW.")
        sealing = f'BEGIN UPDATE "{table}" SET seal = {new} WHERE {this}; END'  # noqa: S608 - names of ours
        op.execute(f'CREATE TRIGGER "{table}_sealed" AFTER INSERT ON "{table}" {sealing}')
        changed = f'AFTER UPDATE OF {names} ON "{table}" WHEN OLD.seal IS {old}'
        op.execute(f'CREATE TRIGGER "{table}_resealed" {changed} {sealing}')
    _seal_states()


def _seal_states() -> None:
    columns = _STATE.split()
    op.execute(f'ALTER TABLE "file" ADD COLUMN state_seal {_SEAL} CHECK (length(state_seal) = 16)')
    op.execute(f'UPDATE "file" SET state_seal = {_call("file", columns, "")}')  # noqa: S608 - names of ours
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
