"""
Triggers that note what a hub has to be told: no code that writes rows needs to know about reports.

I1  While ``report_state`` has a row, each change of a finding, each run that ends, and each action is in the queue
    ``report_change`` from the transaction on that made it, until a message about it is written. An item stands in the
    queue once, however often it changes.
I2  The queue has at most one row for each finding and action, and ``_MOST_RUNS`` for runs, however long no hub answers.
I3  A row of ``report_folder`` exists only if no file of the folder was added, removed, or changed since it was made.
"""

from __future__ import annotations

from collections.abc import Iterator

KINDS = ("finding", "run", "action", "state")
"""What can be in the queue. ``state``: the beginning of a stream."""

_MOST_RUNS = 10_000
_IS_ON = 'EXISTS (SELECT 1 FROM "report_state")'
_OF_FINDING = (
    *("kind", "path", "certainty", "state", "resolved_at", "muted_until", "blocks", "ranges"),
    *("message", "copy", "step", "command", "incident"),
)
_OF_FILE = (
    *("folder_id", "name", "size_bytes", "mtime_ns", "md5", "xxh3_128", "recorded_at", "verified_at"),
    *("read_how", "is_suspect", "is_frozen", "seal", "state_seal"),
)


def make_triggers() -> Iterator[str]:
    """Yield the statements that create the triggers."""
    names = ", ".join(f'"{name}"' for name in _OF_FINDING)
    differs = " OR ".join(f'OLD."{name}" IS NOT NEW."{name}"' for name in _OF_FINDING)
    changed = f'AFTER UPDATE OF {names} ON "finding" WHEN {_IS_ON} AND ({differs})'
    yield f'CREATE TRIGGER "finding_opened_reported" AFTER INSERT ON "finding" WHEN {_IS_ON} {_queue("finding", "NEW")}'
    yield f'CREATE TRIGGER "finding_changed_reported" {changed} {_queue("finding", "NEW")}'
    yield f'CREATE TRIGGER "finding_gone_reported" AFTER DELETE ON "finding" WHEN {_IS_ON} {_queue("finding", "OLD")}'
    ended = f'AFTER UPDATE OF "outcome" ON "run" WHEN {_IS_ON} AND OLD."outcome" IS NULL AND NEW."outcome" IS NOT NULL'
    too_old = f'DELETE FROM "report_change" WHERE "kind" = \'run\' AND "item_id" <= NEW."id" - {_MOST_RUNS}'  # noqa: S608 - ours
    yield f'CREATE TRIGGER "run_reported" {ended} {_queue("run", "NEW", too_old)}'
    yield f'CREATE TRIGGER "action_reported" AFTER INSERT ON "action" WHEN {_IS_ON} {_queue("action", "NEW")}'
    dropping = 'DELETE FROM "report_folder" WHERE "folder_id"'
    for name, event, row in (("added", "INSERT", "NEW"), ("removed", "DELETE", "OLD")):
        body = f'BEGIN {dropping} = {row}."folder_id"; END'
        yield f'CREATE TRIGGER "file_{name}_reported" AFTER {event} ON "file" {body}'
    columns = ", ".join(f'"{name}"' for name in _OF_FILE)
    body = f'BEGIN {dropping} IN (OLD."folder_id", NEW."folder_id"); END'
    yield f'CREATE TRIGGER "file_changed_reported" AFTER UPDATE OF {columns} ON "file" {body}'


def _queue(kind: str, row: str, *then: str) -> str:
    known = f'SELECT 1 FROM "report_change" WHERE "kind" = \'{kind}\' AND "item_id" = {row}."id"'  # noqa: S608 - ours
    queue = f'INSERT INTO "report_change" ("kind", "item_id") SELECT \'{kind}\', {row}."id" WHERE NOT EXISTS ({known})'
    return f"BEGIN {'; '.join((queue, *then))}; END"
