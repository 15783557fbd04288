"""
Roots: the watched folders, what is mounted inside them, and the tally that detects lost rows (R9).

A mount inside a root that crosses mounts is recognized by its identity, like a root (R5).
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from integrity import program
from integrity.catalog import schema
from integrity.catalog.compiled_sql import CompiledStatement, snapshot
from integrity.catalog.gate_passes import follow_history
from integrity.catalog.history import drop_imports
from integrity.catalog.rows import (
    FILE_JOIN,
    RECORD_COLUMNS,
    FileRecord,
    chunked,
    join_path,
    read_word,
    require_rising,
    to_records,
)
from integrity.catalog.schema import file, finding, folder, nested_mount, root
from integrity.catalog.seal import SEAL_BYTES, Sealer, xor_seals
from integrity.errors import CatalogError
from integrity.model import FileId, FindingKind, RootId, RootIdentity, RootState


def find_nested(c: sa.Connection, root_id: RootId) -> dict[bytes, str]:
    """Return the mounts that the last scan found inside a root: path and identity."""
    query = sa.select(nested_mount.c.path, nested_mount.c.identity).where(nested_mount.c.root_id == root_id)
    return {row.path: row.identity for row in c.execute(query)}


def keep_nested(c: sa.Connection, root_id: RootId, path: bytes, identity: str) -> None:
    """Record the identity of the mount at a path."""
    drop_nested(c, root_id, path)
    c.execute(sa.insert(nested_mount).values(root_id=root_id, path=path, identity=identity))


def drop_nested(c: sa.Connection, root_id: RootId, path: bytes) -> None:
    """Delete the record of a mount."""
    c.execute(sa.delete(nested_mount).where(nested_mount.c.root_id == root_id, nested_mount.c.path == path))


UNSEEN = RootIdentity("never seen", 0, "", b"")
"""Identity of a configured root whose folder was never found; the first one found becomes its identity."""

_BROKEN_SHOWN = 1000
_PAGE = 5000
_SPAN = 2000
_SAMPLED_FOLDERS = 50
_SAMPLED_FILES = 200

_COUNT = CompiledStatement(
    sa.select(sa.func.count())
    .select_from(folder.join(file, file.c.folder_id == folder.c.id))
    .where(folder.c.root_id == sa.bindparam("root_id")),
    "root_id",
)
# "+ 0" keeps SQLite from reading by folder: pages are cut by id, and each page would sort the whole root.
_PAGE_OF_RECORDS = CompiledStatement(
    sa.select(*RECORD_COLUMNS)
    .select_from(FILE_JOIN)
    .where(folder.c.root_id + sa.literal_column("0") == sa.bindparam("root_id"), file.c.id > sa.bindparam("after"))
    .order_by(file.c.id)
    .limit(sa.bindparam("limit")),
    "root_id",
    "after",
    "limit",
)

_IS_MISSING = (
    finding.c.root_id == root.c.id,
    finding.c.kind == FindingKind.MISSING.value,
    finding.c.state != sa.literal_column("'resolved'"),  # must match the text of the partial index
)
_QUERY = sa.select(
    root, sa.select(sa.func.count(finding.c.file_id)).where(*_IS_MISSING).scalar_subquery().label("missing_count")
)


@dataclass(frozen=True, slots=True)
class RootRecord:
    """A watched folder."""

    id: RootId
    token: bytes
    path: bytes
    identity: RootIdentity  # mount_point is empty: it is not part of the identity
    state: RootState
    state_reason: str | None
    created_at: int
    file_count: int  # when this record was loaded
    missing_count: int  # of them, missing when this record was loaded

    @property
    def was_seen(self) -> bool:
        """Return whether its folder was ever found."""
        return self.identity != UNSEEN


@dataclass(frozen=True, slots=True)
class TallyCheck:
    """Result of counting the rows of a root and checking their seals."""

    expected_rows: int
    actual_rows: int
    xor_error: bytes  # recorded XOR of the seals ^ actual XOR
    broken: tuple[tuple[FileId, bytes], ...]  # (id, path) of rows whose seal does not match, the first 1,000
    broken_count: int

    @property
    def is_xor_right(self) -> bool:
        """Return whether the XOR of the seals is as recorded."""
        return not any(self.xor_error)

    @property
    def is_right(self) -> bool:
        """Return whether no row was lost, added, or damaged."""
        return self.expected_rows == self.actual_rows and self.is_xor_right and not self.broken_count


def count_all_files(c: sa.Connection) -> int:
    """Return the number of recorded files of all roots."""
    return int(c.execute(sa.select(sa.func.coalesce(sa.func.sum(schema.root.c.file_count), 0))).scalar_one())


def add_root(c: sa.Connection, path: bytes, identity: RootIdentity, now: int) -> RootRecord:
    """Add a root with an absolute, real path."""
    row = {
        "token": secrets.token_bytes(16),
        "path": path,
        **_identity_values(identity),
        "state": RootState.ACTIVE.value,
        "created_at": now,
        "file_count": 0,
        "seal_xor": bytes(SEAL_BYTES),
    }
    key = c.execute(sa.insert(root).values(row)).inserted_primary_key
    assert key is not None
    return get_root(c, RootId(key[0]))


def get_root(c: sa.Connection, root_id: RootId) -> RootRecord:
    """
    Return one root.

    Raises:
        CatalogError: there is no root with this id.
    """
    row = c.execute(_QUERY.where(root.c.id == root_id)).one_or_none()
    if row is None:
        raise CatalogError(
            f"root {root_id}: not in the catalog any more; `{program.command('root list')}` shows those that are"
        )
    return _to_record(row)


def find_some_files(c: sa.Connection, root_id: RootId) -> list[bytes]:
    """Return the paths of some files of a root: of its first and of its last folders, in the order of their paths."""
    of_root = sa.select(folder.c.id, folder.c.path).where(folder.c.root_id == root_id)
    found: list[bytes] = []
    for order in (folder.c.path, folder.c.path.desc()):
        some = of_root.order_by(order).limit(_SAMPLED_FOLDERS).subquery()
        query = sa.select(some.c.path, file.c.name).join(file, file.c.folder_id == some.c.id).limit(_SAMPLED_FILES)
        found += [join_path(row.path, row.name) for row in c.execute(query)]
    return found


def find_configured(c: sa.Connection) -> set[RootId]:
    """Return the roots that the service has seen in its configuration."""
    return {RootId(number) for number in c.execute(sa.select(schema.configured_root.c.root_id)).scalars()}


def set_configured(c: sa.Connection, root_id: RootId, *, is_configured: bool) -> None:
    """Record whether the configuration names a root. Call it only on a change."""
    table = schema.configured_root
    if is_configured:
        c.execute(sa.insert(table).values(root_id=root_id))
    else:
        c.execute(sa.delete(table).where(table.c.root_id == root_id))


def has_root(c: sa.Connection, root_id: RootId) -> bool:
    """Return whether a root with this id exists."""
    return c.execute(sa.select(root.c.id).where(root.c.id == root_id)).first() is not None


def find_roots(c: sa.Connection) -> list[RootRecord]:
    """Return all roots in the order of their paths."""
    return [_to_record(row) for row in c.execute(_QUERY.order_by(root.c.path))]


def set_root_state(c: sa.Connection, root_id: RootId, state: RootState, reason: str | None) -> None:
    """Set the state of a root: active, suspended, or paused."""
    _update(c, root_id, {"state": state.value, "state_reason": reason})


def set_root_identity(c: sa.Connection, root_id: RootId, identity: RootIdentity) -> None:
    """Store the new identity of a root."""
    _update(c, root_id, _identity_values(identity))


def rename_disk(c: sa.Connection, old: str, new: str) -> None:
    """Let all roots on a file system have its new name: equal names say that inode numbers mean the same."""
    c.execute(sa.update(root).where(root.c.fs_id == old).values(fs_id=new))


def rebind_root(c: sa.Connection, root_id: RootId, path: bytes, identity: RootIdentity) -> None:
    """Move a root to another path or disk; its baselines stay (R5)."""
    _update(c, root_id, {"path": path, **_identity_values(identity)})


def remove_unseen(c: sa.Connection, configured: Collection[bytes]) -> None:
    """Remove the roots that were never found and are no longer configured: corrected typing errors."""
    for one in find_roots(c):
        if not one.was_seen and one.path not in configured:
            remove_root(c, one.id)


def find_spans(c: sa.Connection, root_id: RootId) -> list[tuple[FileId, FileId]]:
    """Split the files of a root into ranges of ids (first, last) of some thousand files each."""
    query = sa.select(file.c.id).join(folder, file.c.folder_id == folder.c.id).where(folder.c.root_id == root_id)
    ids = sorted(c.execute(query).scalars())
    return [(ids[at], ids[min(at + _SPAN, len(ids)) - 1]) for at in range(0, len(ids), _SPAN)]


def find_history_ids(c: sa.Connection, root_id: RootId) -> list[int]:
    """Return the ids of all history rows of a root."""
    return list(c.execute(sa.select(schema.history.c.id).where(schema.history.c.root_id == root_id)).scalars())


def drop_files(c: sa.Connection, root_id: RootId, span: tuple[FileId, FileId]) -> None:
    """Delete the files of an id range without history, as part of removing their root."""
    _drop(c, root_id, file.c.id.between(*span))


def drop_files_of(c: sa.Connection, root_id: RootId, ids: Sequence[FileId]) -> None:
    """Delete some files without history: another catalog has their records."""
    for chunk in chunked(ids):
        _drop(c, root_id, file.c.id.in_(chunk))


def _drop(c: sa.Connection, root_id: RootId, condition: sa.ColumnElement[bool]) -> None:
    is_of_root = sa.exists().where(folder.c.id == file.c.folder_id, folder.c.root_id == root_id)
    gone = condition, is_of_root
    ids = sa.select(file.c.id).where(*gone)
    copies = sa.select(schema.copy.c.id).where(schema.copy.c.root_id == root_id)
    seals = list(c.execute(sa.select(file.c.seal).where(*gone)).scalars())
    for table in (schema.copy_file, schema.copy_reading):
        c.execute(sa.delete(table).where(table.c.copy_id.in_(copies), table.c.file_id.in_(ids)))
    for table in (schema.candidate, schema.block_run, finding):
        c.execute(sa.delete(table).where(table.c.file_id.in_(ids)))
    c.execute(sa.delete(file).where(*gone))
    adjust_tally(c, root_id, -len(seals), seals)


def drop_history(c: sa.Connection, ids: Iterable[int]) -> None:
    """Delete history rows and their blocks, as part of removing their root."""
    for chunk in chunked(ids):
        files = sa.select(schema.history.c.file_id).where(schema.history.c.id.in_(chunk))
        c.execute(sa.delete(schema.block_run).where(schema.block_run.c.file_id.in_(files)))
        c.execute(sa.delete(schema.history).where(schema.history.c.id.in_(chunk)))
    follow_history(c)


def remove_root(c: sa.Connection, root_id: RootId) -> None:
    """Delete a root and all its rows. For large roots, call ``drop_files`` and ``drop_history`` in pages before."""
    of_root = sa.select(file.c.id).join(folder, file.c.folder_id == folder.c.id).where(folder.c.root_id == root_id)
    of_history = sa.select(schema.history.c.file_id).where(schema.history.c.root_id == root_id)
    checkpoints = sa.select(schema.checkpoint.c.id).where(schema.checkpoint.c.root_id == root_id)
    in_folders = sa.select(folder.c.id).where(folder.c.root_id == root_id)
    copies = sa.select(schema.copy.c.id).where(schema.copy.c.root_id == root_id)
    for statement in (
        sa.delete(schema.checkpoint_run).where(schema.checkpoint_run.c.checkpoint_id.in_(checkpoints)),
        sa.delete(schema.candidate).where(schema.candidate.c.file_id.in_(of_root)),
        *(sa.delete(table).where(table.c.copy_id.in_(copies)) for table in (schema.copy_file, schema.copy_reading)),
        sa.delete(schema.block_run).where(schema.block_run.c.file_id.in_(of_root.union(of_history))),
        sa.delete(file).where(file.c.folder_id.in_(in_folders)),
        sa.delete(schema.report_folder).where(schema.report_folder.c.folder_id.in_(in_folders)),
    ):
        c.execute(statement)
    for table in (
        *(schema.checkpoint, schema.finding, schema.history, schema.run),
        *(schema.nested_mount, schema.configured_root, schema.copy, schema.gate, folder),
    ):
        c.execute(sa.delete(table).where(table.c.root_id == root_id))
    follow_history(c)
    drop_imports(c, root_id)
    key = schema.meta.c.key
    others = (key.startswith(f"{name}/{root_id}/") for name in ("space", "disk"))
    c.execute(sa.delete(schema.meta).where(sa.or_(key == f"report/{root_id}", *others)))
    c.execute(sa.delete(root).where(root.c.id == root_id))


def count_files(c: sa.Connection, root_id: RootId) -> int:
    """Count the file rows of a root, from an index."""
    return int(_COUNT.run(c, root_id).fetchone()[0])


def count_files_until(c: sa.Connection, root_id: RootId, last_file_id: int) -> int:
    """Count the files of a root with ids up to this one. Scans all of its rows."""
    query = sa.select(sa.func.count()).select_from(folder.join(file, file.c.folder_id == folder.c.id))
    return int(c.execute(query.where(folder.c.root_id == root_id, file.c.id <= last_file_id)).scalar_one())


def adjust_tally(c: sa.Connection, root_id: RootId, count: int, seals: Iterable[bytes]) -> None:
    """
    Update a root's tally (I2) in the transaction that changes its rows.

    Args:
        c: in a transaction.
        count: rows added minus rows removed.
        seals: of the rows added and the rows removed; old and new seal of a row that was sealed again.
    """
    old = c.execute(sa.select(root.c.file_count, root.c.seal_xor).where(root.c.id == root_id)).one()
    _update(c, root_id, {"file_count": old.file_count + count, "seal_xor": xor_seals(old.seal_xor, seals)})


def correct_tally(c: sa.Connection, root_id: RootId, found: TallyCheck) -> None:
    """
    Correct a tally by the result of a check, after a user has looked at it.

    Changes written since the check are in both the tally and the rows, so they do not matter.
    """
    adjust_tally(c, root_id, found.actual_rows - found.expected_rows, (found.xor_error,))


def find_records(c: sa.Connection, sealer: Sealer, root_id: RootId) -> Iterator[FileRecord]:
    """Yield all records of a root in the order of their ids, page by page."""
    after = 0
    while page := to_records(sealer, _PAGE_OF_RECORDS.run(c, root_id, after, _PAGE).fetchall()):
        require_rising((record.id for record in page), after)
        yield from page
        after = page[-1].id


def check_tally(c: sa.Connection, sealer: Sealer, root: RootRecord) -> TallyCheck:
    """Check the seal of each row of a root and the root's tally in one snapshot: 10 us for each file."""
    rows, broken_count, xor = 0, 0, 0
    broken: list[tuple[FileId, bytes]] = []
    with snapshot(c):
        tally = sa.select(schema.root.c.file_count, schema.root.c.seal_xor).where(schema.root.c.id == root.id)
        expected = c.execute(tally).one()
        for record in find_records(c, sealer, root.id):
            rows += 1
            xor ^= int.from_bytes(record.seal, "little")
            if not record.is_sealed:
                broken_count += 1
                if broken_count <= _BROKEN_SHOWN:
                    broken.append((record.id, record.path))
    xor_error = xor_seals(expected.seal_xor, (xor.to_bytes(SEAL_BYTES, "little"),))
    return TallyCheck(expected.file_count, rows, xor_error, tuple(broken), broken_count)


def _update(c: sa.Connection, root_id: RootId, values: dict[str, Any]) -> None:
    c.execute(sa.update(root).where(root.c.id == root_id).values(values))


def _identity_values(identity: RootIdentity) -> dict[str, Any]:
    return {"fs_id": identity.fs_id, "folder_inode": identity.folder_inode, "fs_type": identity.fs_type}


def _to_record(row: sa.Row[Any]) -> RootRecord:
    return RootRecord(
        id=row.id,
        token=row.token,
        path=row.path,
        identity=RootIdentity(row.fs_id, row.folder_inode, row.fs_type, b""),
        state=read_word(RootState, row.state),
        state_reason=row.state_reason,
        created_at=row.created_at,
        file_count=row.file_count,
        missing_count=row.missing_count,
    )
