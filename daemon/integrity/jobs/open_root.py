"""
Mounts inside a root that crosses mounts: is each of them the one that was recorded?

A disk that is not mounted inside a root looks like an empty folder there, too (R5). So what is mounted where is kept
with the root, and a place whose disk is absent or another one is left out of the run: its records stay, and it is said.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import files, findings
from integrity.catalog.boots import MountSeen, rename_file_system
from integrity.catalog.nested import drop_nested, find_nested, keep_nested
from integrity.files.identity import find_fs_names, get_fs_name, recognise_folder, spell_folder
from integrity.files.mounts import find_mounts_beneath, get_mount
from integrity.files.mountstate import MountState, find_mount_state
from integrity.files.open_beneath import open_noatime
from integrity.jobs.report import NoteKind
from integrity.jobs.targets import is_inside
from integrity.model import FindingKind

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog, Connection
    from integrity.catalog.roots import RootRecord
    from integrity.files.excludes import Excludes
    from integrity.jobs.context import RootRun

_NOT_HERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""Mounted below something that hides it by now, or on a file."""


class _Seen(NamedTuple):
    names: tuple[str, ...]  # of its file system, the surest first
    inode: int  # of the folder that is shown
    is_empty: bool
    state: MountState = MountState("")


def find_absent(
    catalog: Catalog, root: RootRecord, root_fd: int, excludes: Excludes
) -> tuple[dict[bytes, str], dict[bytes, MountSeen]]:
    """
    Compare what is mounted inside a root with what was, and keep what is new.

    Returns:
        Where nothing can be said of the recorded files, and why; and what is mounted elsewhere inside.

    Raises:
        OSError: the list of mounts can't be read.
    """
    present = _find_present(root_fd, excludes)
    absent: dict[bytes, str] = {}
    with catalog.transaction() as connection:
        known = find_nested(connection, root.id)
        for path in sorted(known.keys() | present.keys()):
            if any(is_inside(path, other) for other in absent):
                continue
            seen = present.get(path)
            recognised = seen and recognise_folder(known.get(path, ""), seen.names, seen.inode)
            if recognised is not None:
                if recognised != known[path]:
                    keep_nested(connection, root.id, path, recognised)
                    rename_file_system(connection, get_fs_name(known[path]), get_fs_name(recognised))
                continue
            why = _why_absent(seen, path in known) if _has_files(connection, root, path) else None
            if why is not None:
                absent[path] = why
            elif seen is not None:
                keep_nested(connection, root.id, path, spell_folder(seen.names, seen.inode))
            else:
                drop_nested(connection, root.id, path)
        mounts = {
            path: MountSeen(get_fs_name(identity), *present[path].state)
            for path, identity in find_nested(connection, root.id).items()
            if path in present and path not in absent
        }
    return absent, mounts


def _why_absent(seen: _Seen | None, was_mounted: bool) -> str | None:
    """Say why the files recorded below a place can't be those that are there now, if so."""
    if seen is None:
        return "what was mounted here is not mounted"
    if was_mounted:
        return "something else is mounted here than what was recorded"
    return "an empty file system was mounted over recorded files" if seen.is_empty else None


def tell_absent(run: RootRun, absent: dict[bytes, str]) -> None:
    """Open a finding for each place of the run's part of the root that is absent; end those that are over."""
    concerned = {
        path: why
        for path, why in absent.items()
        if any(is_inside(path, part) or is_inside(part, path) for part in run.parts)
    }
    with run.catalog.read() as connection:
        found = findings.find_findings(connection, root_id=run.root.id)
    said = [one for one in found if one.kind is FindingKind.ROOT_SUSPENDED and one.path is not None]
    over = [one for one in said if one.path not in absent]
    if not concerned and not over:
        return
    resolution = "what was recorded there is mounted again"
    with run.writing() as connection:
        ended = findings.resolve_ids(connection, [one.id for one in over], resolution=resolution, now=run.now())
        for path, why in concerned.items():
            if run.settings.presence == "sometimes":
                run.note(NoteKind.WARNING, path, f"{why}; it is allowed to be absent, so that is no finding")
            else:
                run.open_finding(connection, FindingKind.ROOT_SUSPENDED, _describe(why), path=path)
    run.note_over(ended)


def _describe(why: str) -> str:
    return (
        f"{why}, so nothing is said of the files recorded below it, and none is taken out of the catalog. Mount the"
        " right disk and run again; if it is not coming back, take its files out with: integrity forget"
    )


def _find_present(root_fd: int, excludes: Excludes) -> dict[bytes, _Seen]:
    """Look at what is mounted below an open root and can be seen from in there."""
    present: dict[bytes, _Seen] = {}
    own = get_mount(root_fd).mount_id
    for path in find_mounts_beneath(root_fd):
        if excludes.covers(path + b"/x"):
            continue
        try:
            fd = open_noatime(root_fd, path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            if error.errno not in _NOT_HERE:
                present[path] = _Seen((f"can't be opened: {error.strerror}",), 0, is_empty=True)
            continue
        try:
            mount = get_mount(fd)
            if mount.mount_id != own:
                with os.scandir(fd) as entries:
                    is_empty = all(entry.name == "lost+found" for entry in entries)
                present[path] = _Seen(
                    find_fs_names(fd, mount), os.fstat(fd).st_ino, is_empty, find_mount_state(fd, mount)
                )
        except OSError as error:
            present[path] = _Seen((f"can't be looked at: {error.strerror}",), 0, is_empty=True)
        finally:
            os.close(fd)
    return present


def _has_files(connection: Connection, root: RootRecord, path: bytes) -> bool:
    return bool(files.page_files(connection, root.id, prefix=path, limit=1))
