"""
Roots: the watched folders, what is mounted inside them, and the folders in them that hold recorded files.

A mount inside a root that crosses mounts is recognized by its identity, like a root (R5). The fingerprint of a folder
covers all of its recorded files: if it matches, every file of the folder is as recorded.

I1  A folder has a fingerprint only if a walk would compute the same one when it finds exactly the recorded files, all
    as recorded and none racy or frozen. Triggers drop it when a row changes in a way that may break this, so code that
    writes rows need not know about fingerprints.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from integrity import program
from integrity.catalog.db import Connection, names, numbers
from integrity.catalog.rows import FILE_JOIN, below, inside, join_path, read_word
from integrity.errors import CatalogError
from integrity.model import FileId, FolderId, RootId, RootIdentity, RootState

UNSEEN = RootIdentity("never seen", 0, "", b"")
"""Identity of a configured root whose folder was never found; the first one found becomes its identity."""

_SAMPLED_FOLDERS = 50
_SAMPLED_FILES = 200

_ROOTS = """
SELECT id, path, fs_id, folder_inode, fs_type, state, state_reason, created_at, file_count, (
    SELECT count(file_id) FROM finding
    WHERE finding.root_id = root.id AND finding.kind = 'missing' AND finding.state != 'resolved')
FROM root"""


class RootRecord(NamedTuple):
    """A watched folder."""

    id: RootId
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


def find_nested(c: Connection, root_id: RootId) -> dict[bytes, str]:
    """Return the mounts that the last scan found inside a root: path and identity."""
    return dict(c.rows("SELECT path, identity FROM nested_mount WHERE root_id = ?", root_id))


def keep_nested(c: Connection, root_id: RootId, path: bytes, identity: str) -> None:
    """Record the identity of the mount at a path."""
    c.run("INSERT OR REPLACE INTO nested_mount (root_id, path, identity) VALUES (?, ?, ?)", root_id, path, identity)


def drop_nested(c: Connection, root_id: RootId, path: bytes) -> None:
    """Delete the record of a mount."""
    c.run("DELETE FROM nested_mount WHERE root_id = ? AND path = ?", root_id, path)


def count_all_files(c: Connection) -> int:
    """Return the number of recorded files of all roots."""
    return c.value("SELECT coalesce(sum(file_count), 0) FROM root")


def add_root(c: Connection, path: bytes, identity: RootIdentity, now: int) -> RootRecord:
    """Add a root with an absolute, real path."""
    query = """
        INSERT INTO root (path, fs_id, folder_inode, fs_type, state, created_at, file_count)
        VALUES (?, ?, ?, ?, 'active', ?, 0)"""
    root_id = c.insert(query, path, identity.fs_id, identity.folder_inode, identity.fs_type, now)
    return get_root(c, RootId(root_id))


def get_root(c: Connection, root_id: RootId) -> RootRecord:
    """Return one root, or raise CatalogError if there is none with this id."""
    found = c.one(_to_record, f"{_ROOTS} WHERE id = ?", root_id)
    if found is None:
        raise CatalogError(
            f"root {root_id}: not in the catalog any more; `{program.command('root list')}` shows those that are"
        )
    return found


def find_some_files(c: Connection, root_id: RootId) -> list[bytes]:
    """Return the paths of some files of a root: of its first and of its last folders, in the order of their paths."""
    found: list[bytes] = []
    for order in ("path", "path DESC"):
        query = f"""
            SELECT some.path, file.name
            FROM (SELECT id, path FROM folder WHERE root_id = ? ORDER BY {order} LIMIT ?) AS some
            JOIN file ON file.folder_id = some.id LIMIT ?"""
        found += c.all(join_path, query, root_id, _SAMPLED_FOLDERS, _SAMPLED_FILES)
    return found


def find_configured(c: Connection) -> set[RootId]:
    """Return the roots that the service has seen in its configuration."""
    return set(c.column("SELECT root_id FROM configured_root"))


def set_configured(c: Connection, root_id: RootId, *, is_configured: bool) -> None:
    """Record whether the configuration names a root. Call it only on a change."""
    if is_configured:
        c.run("INSERT INTO configured_root (root_id) VALUES (?)", root_id)
    else:
        c.run("DELETE FROM configured_root WHERE root_id = ?", root_id)


def has_root(c: Connection, root_id: RootId) -> bool:
    """Return whether a root with this id exists."""
    return c.row("SELECT 1 FROM root WHERE id = ?", root_id) is not None


def find_roots(c: Connection) -> list[RootRecord]:
    """Return all roots in the order of their paths."""
    return c.all(_to_record, f"{_ROOTS} ORDER BY path")


def set_root_state(c: Connection, root_id: RootId, state: RootState, reason: str | None) -> None:
    """Set the state of a root: active, suspended, or paused."""
    c.run("UPDATE root SET state = ?, state_reason = ? WHERE id = ?", state, reason, root_id)


def set_root_identity(c: Connection, root_id: RootId, identity: RootIdentity) -> None:
    """Store the new identity of a root."""
    query = "UPDATE root SET fs_id = ?, folder_inode = ?, fs_type = ? WHERE id = ?"
    c.run(query, identity.fs_id, identity.folder_inode, identity.fs_type, root_id)


def rename_disk(c: Connection, old: str, new: str) -> None:
    """Let all roots on a file system have its new name: equal names say that inode numbers mean the same."""
    c.run("UPDATE root SET fs_id = ? WHERE fs_id = ?", new, old)


def rebind_root(c: Connection, root_id: RootId, path: bytes, identity: RootIdentity) -> None:
    """Move a root to another path or disk; its baselines stay (R5)."""
    c.run("UPDATE root SET path = ? WHERE id = ?", path, root_id)
    set_root_identity(c, root_id, identity)


def remove_unseen(c: Connection, configured: Collection[bytes]) -> None:
    """Remove the roots that were never found and are no longer configured: corrected typing errors."""
    for one in find_roots(c):
        if not one.was_seen and one.path not in configured:
            remove_root(c, one.id)


def find_former_ids(c: Connection, root_id: RootId) -> list[int]:
    """Return the ids of all former versions of a root."""
    return c.column("SELECT id FROM version WHERE root_id = ? AND state = 'former'", root_id)


def drop_files(c: Connection, root_id: RootId, ids: Sequence[FileId]) -> None:
    """Delete some files of a root without their former versions."""
    some, of_copies = numbers(ids), f"copy_id IN (SELECT id FROM copy WHERE root_id = {root_id}) AND file_id"
    for place in (
        *(f"copy_file WHERE {of_copies}", f"copy_reading WHERE {of_copies}", "block_run WHERE file_id"),
        *("finding WHERE file_id", "version WHERE state <> 'former' AND file_id", "file WHERE id"),
    ):
        c.run(f"DELETE FROM {place} IN (SELECT value FROM json_each(?))", some)
    adjust_file_count(c, root_id, -len(ids))


def drop_former(c: Connection, ids: Iterable[int]) -> None:
    """Delete former versions and their blocks, as part of removing their root."""
    listed = numbers(ids)
    query = """
        DELETE FROM block_run
        WHERE file_id IN (SELECT file_id FROM version WHERE id IN (SELECT value FROM json_each(?)))"""
    c.run(query, listed)
    c.run("DELETE FROM version WHERE id IN (SELECT value FROM json_each(?))", listed)


def remove_root(c: Connection, root_id: RootId) -> None:
    """Delete a root and all its rows. For large roots, call ``drop_files`` and ``drop_former`` in pages before."""
    for place in (
        f"block_run WHERE file_id IN (SELECT file.id FROM {FILE_JOIN} WHERE folder.root_id = ?1)",
        "block_run WHERE file_id IN (SELECT file_id FROM version WHERE root_id = ?1)",
        "meta WHERE substr(key, instr(key, '/')) || '/' GLOB '/' || ?1 || '/*'",  # KIND/ROOT_ID or KIND/ROOT_ID/...
        "root WHERE id = ?1",  # and what refers to it
    ):
        c.run(f"DELETE FROM {place}", root_id)


def count_files(c: Connection, root_id: RootId, prefix: bytes = b"") -> int:
    """Count the recorded files at or below a path, from an index."""
    part, values = inside(root_id, prefix)
    return c.value(f"SELECT count(*) FROM {FILE_JOIN} WHERE {part}", *values)


def count_files_until(c: Connection, root_id: RootId, last_file_id: int) -> int:
    """Count the files of a root with ids up to this one. Scans all of its rows."""
    return c.value(f"SELECT count(*) FROM {FILE_JOIN} WHERE folder.root_id = ? AND file.id <= ?", root_id, last_file_id)


def adjust_file_count(c: Connection, root_id: RootId, count: int) -> None:
    """Note how many files were added to a root, or removed from it, in the transaction that does so (I1)."""
    c.run("UPDATE root SET file_count = file_count + ? WHERE id = ?", count, root_id)


def _to_record(
    root_id: RootId, path: bytes, fs_id: str, folder_inode: int, fs_type: str, state: str, *rest: Any
) -> RootRecord:
    identity = RootIdentity(fs_id, folder_inode, fs_type, b"")
    return RootRecord(root_id, path, identity, read_word(RootState, state), *rest)


class Fingerprint(NamedTuple):
    """The fingerprint that is recorded for a folder."""

    folder: bytes  # its path
    id: FolderId
    fingerprint: bytes | None


def get_folder_id(c: Connection, root_id: RootId, path: bytes) -> FolderId | None:
    """Return the id of a folder; None if no file in it was ever recorded."""
    return c.value("SELECT id FROM folder WHERE root_id = ? AND path = ?", root_id, path)


def has_folder(c: Connection, root_id: RootId, path: bytes) -> bool:
    """Return whether files were ever recorded in a folder, or in one below it."""
    is_below, bounds = below("path", path)
    return bool(c.value(f"SELECT EXISTS (SELECT 1 FROM folder WHERE root_id = ? AND {is_below})", root_id, *bounds))


def ensure_folders(c: Connection, root_id: RootId, paths: Iterable[bytes]) -> dict[bytes, FolderId]:
    """Return the ids of folders by path, creating missing rows."""
    # RETURNING yields an existing row only if it is updated.
    query = """
        INSERT INTO folder (root_id, path) SELECT ?, unhex(value) FROM json_each(?) WHERE 1
        ON CONFLICT (root_id, path) DO UPDATE SET path = excluded.path RETURNING path, id"""
    return dict(c.rows(query, root_id, names(paths)))


def find_fingerprints(c: Connection, root_id: RootId, folder_paths: Sequence[bytes]) -> list[Fingerprint]:
    """Return the fingerprints of those folders that have a row."""
    query = """
        SELECT path, id, fingerprint FROM folder
        WHERE root_id = ? AND path IN (SELECT unhex(value) FROM json_each(?))"""
    return c.all(Fingerprint, query, root_id, names(folder_paths))


def set_fingerprints(c: Connection, fingerprints: Iterable[tuple[FolderId, bytes, int]]) -> None:
    """
    Store fingerprints of folders, each with the number of files that it covers; a folder with more files gets none.

    The caller ensures the rest of I1 in the same transaction.
    """
    query = """
        UPDATE folder SET fingerprint = ?2
        WHERE id = ?1 AND (SELECT count(*) FROM (SELECT 1 FROM file WHERE folder_id = ?1 LIMIT ?3 + 1)) = ?3"""
    c.run_many(query, fingerprints)


def find_folder_paths(c: Connection, root_id: RootId) -> list[bytes]:
    """Return the paths of all folders of a root in which a file was recorded."""
    return c.column("SELECT path FROM folder WHERE root_id = ?", root_id)


def find_ids_in(c: Connection, folder_ids: Iterable[FolderId]) -> list[FileId]:
    """Return the ids of all files that are recorded in these folders."""
    return c.column("SELECT id FROM file WHERE folder_id IN (SELECT value FROM json_each(?))", numbers(folder_ids))
