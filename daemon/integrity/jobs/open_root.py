"""
Open a root for a run, if it is the recorded one (R5).

An unmounted disk looks like an empty folder, without any error. So the root is recognized by its file system and folder
before its files are read, and it may be empty only if every recorded file is already known to be missing. In a root
that crosses mounts, the file system at each inner mount is recorded as well; where it is absent or replaced, the run
skips the place, keeps its records and reports it.

Also decides what a run excludes besides the user's patterns: absent inner mounts, and the catalog's own files, which
change with every run. ``ChangeCounts`` decides whether too much changed at once to apply it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import files, findings
from integrity.catalog.own_files import compile_own_names
from integrity.catalog.root_meta import find_repairs
from integrity.catalog.roots import (
    RootRecord,
    drop_nested,
    find_nested,
    find_some_files,
    keep_nested,
    rename_disk,
    set_root_identity,
)
from integrity.catalog.runs import MountSeen, rename_file_system
from integrity.config import RootSettings
from integrity.errors import RootSuspended, show_path
from integrity.files.block_devices import Device, find_device
from integrity.files.capability import find_capability, find_folder_number, find_fs_names, identify
from integrity.files.excludes import Excludes
from integrity.files.mirrors import Mirror, find_mirror
from integrity.files.mount_state import MountState, find_mount_state
from integrity.files.mounts import find_mounts_beneath, get_mount
from integrity.files.open_beneath import GONE, open_noatime, open_root
from integrity.jobs.presence import may_be_there
from integrity.jobs.report import NoteKind
from integrity.jobs.targets import is_inside
from integrity.model import Capability, FindingKind, RootIdentity
from integrity.same_place import (
    explain_unrecognised,
    get_fs_name,
    get_plain_name,
    is_path_number,
    is_same_pool_type,
    may_be_same_folder,
    recognise,
    recognise_folder,
    spell_folder,
)

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog, Connection
    from integrity.jobs.context import RootRun


LEAST_PATTERN = 20
"""Fewest changed files that may form a pattern: a handful is renamed by hand."""

RELEASED = "released"
"""State reason of a root whose suspension a person lifted: for one run it is trusted, empty or not."""


class Guarded(NamedTuple):
    """A root that is the recorded one."""

    fd: int  # closed by the caller
    identity: RootIdentity  # recorded from now on; it may have a more reliable name of the file system


class RecordedNames(NamedTuple):
    """
    Names that a root's folder is recognized by, besides its identity.

    Attributes:
        out_of_place: names in its folder that hold displaced files of it; with one of them the root is not empty.
        some: paths of some recorded files, of which the recorded folder has at least one; empty: not asked.
    """

    out_of_place: Collection[bytes] = ()
    some: Collection[bytes] = ()


_NONE = RecordedNames()


def open_guarded(root: RootRecord, recorded: RecordedNames = _NONE) -> Guarded:
    """
    Open a root's folder if it is the recorded one.

    Raises:
        RootSuspended: unmounted, replaced, unreadable, or empty although files are recorded.
    """
    try:
        root_fd = open_root(root.path)
    except OSError as error:
        raise RootSuspended(f"{show_path(root.path)}{_explain_unopened(root, error)}") from error
    try:
        return Guarded(root_fd, _check(root, root_fd, recorded))
    except BaseException:
        os.close(root_fd)
        raise


def _explain_unopened(root: RootRecord, error: OSError) -> str:
    if not root.was_seen:
        return f" is configured, but was never there, and can't be opened: {error.strerror}"
    if error.errno in GONE and not _is_disk_there(root):
        return ": its disk is not mounted"
    return f" can't be opened: {error.strerror}"


def _is_disk_there(root: RootRecord) -> bool:
    """Return whether the folder that is left above a root is on the root's file system, or can't be asked."""
    folder = os.path.dirname(root.path)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    try:
        fd = open_root(folder)
    except OSError:
        return True
    try:
        return recognise(root.identity.fs_id, identify(fd, folder).names) is not None
    finally:
        os.close(fd)


def _check(root: RootRecord, root_fd: int, recorded: RecordedNames) -> RootIdentity:
    known, name = root.identity, show_path(root.path)
    seen = identify(root_fd, root.path)
    if root.state_reason == RELEASED or not root.was_seen:
        return seen._replace(mount_point=b"")
    fs_id, least = recognise(known.fs_id, seen.names), LEAST_PATTERN
    if fs_id is None and recorded.some and is_same_pool_type(known.fs_id, seen.names):
        fs_id, least = seen.fs_id, 1  # its members changed: the names decide
    if fs_id is None:
        is_mounted = seen.mount_point != b"/"
        why = explain_unrecognised(known.fs_id, seen.names) if is_mounted else "its disk is not mounted"
        raise RootSuspended(f"{name}: {why}")
    if not may_be_same_folder(known.folder_inode, seen.folder_inode):
        raise RootSuspended(f"{name} is not the recorded folder: another one replaced it")
    if root.file_count > root.missing_count:
        if _is_empty(root_fd, root.path, recorded.out_of_place):
            raise RootSuspended(f"{name} is empty, but {root.file_count:,} files are recorded")
        if known.folder_inode != seen.folder_inode:
            least = 1  # recorded by its inode, which does not last here, or the reverse
        if is_path_number(seen.folder_inode) or least == 1:
            _require_some(root_fd, root, recorded.some, least)
    return known._replace(fs_id=fs_id, folder_inode=seen.folder_inode, names=seen.names)


def _require_some(root_fd: int, root: RootRecord, paths: Collection[bytes], least: int) -> None:
    """
    Raise RootSuspended unless the folder, which its number does not prove, has one of some recorded files.

    Fewer than ``least`` paths prove nothing: a handful of files is renamed by hand.
    """
    if len(paths) >= least and not any(may_be_there(root_fd, path) for path in paths):
        raise RootSuspended(
            f"{show_path(root.path)} is not the recorded folder: of {root.file_count:,} recorded files, none of"
            f" {len(paths):,} that were looked for is there"
        )


def _is_empty(root_fd: int, path: bytes, out_of_place: Collection[bytes]) -> bool:
    """Return whether a folder contains only entries that systems create themselves."""
    builtin = Excludes()
    try:
        fd = open_noatime(root_fd, b"", os.O_RDONLY | os.O_DIRECTORY)
        try:
            with os.scandir(fd) as entries:
                names = ((os.fsencode(entry.name), entry.is_dir(follow_symlinks=False)) for entry in entries)
                return all(
                    name not in out_of_place and builtin.matches(name, name, is_folder) for name, is_folder in names
                )
        finally:
            os.close(fd)
    except OSError as error:
        raise RootSuspended(f"{show_path(path)}: can't be listed: {error.strerror}") from error


class ChangeCounts(NamedTuple):
    """The changes and removals in a root, with the number of files they are compared with."""

    changed: int
    removed: int
    looked_at: int

    def is_mass_change(self, settings: RootSettings) -> bool:
        """Return whether both limits are exceeded: number of files, and percentage of the files looked at."""
        count = self.changed + self.removed
        is_many = count > settings.mass_change_files
        return is_many and count * 100 > settings.mass_change_percent * self.looked_at


class InternalExcludes(Excludes):
    """
    Decide what of a root is excluded.

    Args:
        patterns: the user's.
        builtin: also apply the built-in list.
        own: folder, relative to the root, and name pattern of the catalog's files; None if they are elsewhere.
        absent: folders, relative to the root, whose file system is absent or replaced.
    """

    __slots__ = ("_absent", "_catalog_folder", "_catalog_names")

    def __init__(
        self,
        patterns: Sequence[str],
        *,
        builtin: bool,
        own: tuple[bytes, re.Pattern[bytes]] | None,
        absent: Iterable[bytes] = (),
    ) -> None:
        super().__init__(patterns, builtin=builtin)
        self._catalog_folder = b"" if own is None else own[0]
        self._catalog_names = None if own is None else own[1]
        self._absent = frozenset(absent)

    def matches(self, path: bytes, name: bytes, is_folder: bool) -> bool:
        """Return whether an entry is excluded; none of its parent folders is."""
        if path in self._absent:
            return True
        if (
            self._catalog_names is not None
            and path == _join(self._catalog_folder, name)
            and self._catalog_names.fullmatch(name)
        ):
            return True
        return super().matches(path, name, is_folder)


def make_excludes(settings: RootSettings, root: bytes, catalog_path: bytes, absent: Iterable[bytes] = ()) -> Excludes:
    """
    Return the excludes of a run on a root.

    Args:
        root: its absolute path.
        catalog_path: path of the catalog's file.
        absent: folders, relative to the root, whose file system is absent or replaced.

    The folder of its parity, which may lie in it, is excluded as well.
    """
    own, places = _find_catalog_names(root, catalog_path), [*absent, *_find_parity_folder(root, settings)]
    if own is None and not places:
        return Excludes(settings.exclude, builtin=settings.builtin_excludes)
    return InternalExcludes(settings.exclude, builtin=settings.builtin_excludes, own=own, absent=places)


def _find_parity_folder(root: bytes, settings: RootSettings) -> list[bytes]:
    """Return the folder of parity relative to a root that it lies in."""
    if not settings.parity_folder:
        return []
    top, folder = root.rstrip(b"/") + b"/", os.path.realpath(settings.parity_folder)
    return [folder[len(top) :].rstrip(b"/")] if folder.startswith(top) else []


def _find_catalog_names(root: bytes, catalog_path: bytes) -> tuple[bytes, re.Pattern[bytes]] | None:
    """Return the catalog's folder relative to a root and the pattern of its file names; None if it lies outside."""
    top = root.rstrip(b"/") + b"/"
    path = os.path.realpath(catalog_path)
    if not path.startswith(top):
        return None
    return os.path.dirname(path[len(top) :]), compile_own_names(path)


def _join(folder: bytes, name: bytes) -> bytes:
    return folder + b"/" + name if folder else name


class _RootSeen(NamedTuple):
    names: tuple[str, ...]  # of its file system, the most reliable first
    folder: int  # number of the visible folder
    is_empty: bool
    state: MountState = MountState("")


def find_absent(
    catalog: Catalog, root: RootRecord, root_fd: int, excludes: Excludes
) -> tuple[dict[bytes, str], dict[bytes, MountSeen]]:
    """
    Compare the mounts inside a root with the recorded ones, and record new ones.

    Returns:
        The places whose recorded files are out of sight, with the reason; and the other mounts inside the root.

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
            recognised = seen and recognise_folder(known.get(path, ""), seen.names, seen.folder)
            if recognised is not None:
                if recognised != known[path]:
                    keep_nested(connection, root.id, path, recognised)
                    rename_file_system(connection, get_fs_name(known[path]), get_fs_name(recognised))
                continue
            why = _explain_absent(seen, path in known) if _has_files(connection, root, path) else None
            if why is not None:
                absent[path] = why
            elif seen is not None:
                keep_nested(connection, root.id, path, spell_folder(seen.names, seen.folder))
            else:
                drop_nested(connection, root.id, path)
        mounts = {
            path: MountSeen(get_fs_name(identity), *present[path].state)
            for path, identity in find_nested(connection, root.id).items()
            if path in present and path not in absent
        }
    return absent, mounts


def _explain_absent(seen: _RootSeen | None, was_mounted: bool) -> str | None:
    """Return why the files recorded below a place can't be those that are there now; None if they can."""
    if seen is None:
        return "what was mounted here is not mounted"
    if was_mounted:
        return "something else is mounted here than what was recorded"
    return "an empty file system was mounted over recorded files" if seen.is_empty else None


def report_absent(run: RootRun, absent: dict[bytes, str]) -> None:
    """Open a finding for each absent place in the run's part of the root; resolve those that are over."""
    in_scope = {
        path: why
        for path, why in absent.items()
        if any(is_inside(path, part) or is_inside(part, path) for part in run.parts)
    }
    with run.catalog.read() as connection:
        found = findings.find_findings(connection, root_id=run.root.id)
    reported = [one for one in found if one.kind is FindingKind.ROOT_SUSPENDED and one.path is not None]
    over = [one for one in reported if one.path not in absent]
    if not in_scope and not over:
        return
    resolution = "the recorded file system is mounted again"
    with run.writing() as connection:
        ended = findings.resolve_ids(connection, [one.id for one in over], resolution=resolution, now=run.now())
        for path, why in in_scope.items():
            if run.settings.presence == "sometimes":
                run.note(NoteKind.WARNING, path, f"{why}; it is allowed to be absent, so that is no finding")
            else:
                run.open_finding(connection, FindingKind.ROOT_SUSPENDED, _describe(why), path=path)
    run.note_resolved(ended)


def _describe(why: str) -> str:
    return (
        f"{why}, so nothing is said of the files recorded below it, and none is taken out of the catalog. Mount the"
        " right disk and run again; if it is not coming back, forget its files."
    )


def _find_present(root_fd: int, excludes: Excludes) -> dict[bytes, _RootSeen]:
    """Return the mounts below an open root that are visible in it."""
    present: dict[bytes, _RootSeen] = {}
    own = get_mount(root_fd).mount_id
    for path in find_mounts_beneath(root_fd):
        if excludes.covers(path + b"/x"):
            continue
        try:
            fd = open_noatime(root_fd, path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            if error.errno not in GONE:  # else mounted on a file, or below something that hides it now
                present[path] = _RootSeen((f"can't be opened: {error.strerror}",), 0, is_empty=True)
            continue
        try:
            mount = get_mount(fd)
            if mount.mount_id != own:
                with os.scandir(fd) as entries:
                    is_empty = all(entry.name == "lost+found" for entry in entries)
                present[path] = _RootSeen(
                    find_fs_names(fd, mount), find_folder_number(fd, mount), is_empty, find_mount_state(fd, mount)
                )
        except OSError as error:
            present[path] = _RootSeen((f"can't be looked at: {error.strerror}",), 0, is_empty=True)
        finally:
            os.close(fd)
    return present


def _has_files(connection: Connection, root: RootRecord, path: bytes) -> bool:
    return bool(files.page_files(connection, root.id, prefix=path, limit=1))


_NOTHING_KNOWN = Capability("unknown", False, False, 0, False, False)
_NO_DEVICE = Device(is_rotational=False, name="", key="")
"""The device of a root that could not be opened."""


@dataclass(frozen=True, slots=True)
class Opened:
    """
    An open root. If it is not the recorded one, ``fd`` is -1 and ``suspension`` is the reason.

    ``mounts``: the root's own mount, at the empty path, and those inside it, by path. ``absent``: places inside it
    whose recorded files are out of sight, with the reason.
    """

    fd: int
    capability: Capability = _NOTHING_KNOWN
    device: Device = _NO_DEVICE
    mirror: Mirror | None = None
    mounts: dict[bytes, MountSeen] = field(default_factory=dict)
    absent: dict[bytes, str] = field(default_factory=dict)
    suspension: str = ""


def open_disk(catalog: Catalog, root: RootRecord, settings: RootSettings) -> Opened:
    """Open a root and find out its capability, device, mirror and inner mounts. The caller closes ``fd``."""
    fd = -1
    try:
        fd, identity = open_guarded(root, _find_names(catalog, root))
        mounts = {b"": MountSeen(identity.fs_id, *find_mount_state(fd, get_mount(fd)))}
        absent: dict[bytes, str] = {}
        if settings.cross_mounts:
            excludes = make_excludes(settings, root.path, catalog.path)
            absent, nested = find_absent(catalog, root, fd, excludes)
            mounts |= nested
        found = find_capability(fd, root.path), find_device(fd), find_mirror(fd)
        if identity != root.identity:
            _save_identity(catalog, root, identity)
        return Opened(fd, *found, mounts, absent)
    except (RootSuspended, OSError) as error:  # also a disk that dies right after it was recognized
        if fd >= 0:
            os.close(fd)
        reason = (
            f"{show_path(root.path)}: its disk does not answer: {error}" if isinstance(error, OSError) else str(error)
        )
        return Opened(-1, suspension=reason)


def _save_identity(catalog: Catalog, root: RootRecord, identity: RootIdentity) -> None:
    """Record the identity of a root: a more reliable name, or what a person or the first run established."""
    with catalog.transaction() as connection:
        set_root_identity(connection, root.id, identity)
        if recognise(root.identity.fs_id, identity.names) is not None:
            rename_file_system(connection, root.identity.fs_id, identity.fs_id)
            if get_plain_name(root.identity.fs_id) == get_plain_name(identity.fs_id):
                rename_disk(connection, root.identity.fs_id, identity.fs_id)


def _find_names(catalog: Catalog, root: RootRecord) -> RecordedNames:
    """
    Return the names that the root is recognized by.

    An interrupted repair had moved files in the root's own folder aside. Where names can't be exchanged, such a file
    may have been the only one. The run completes the repair first.
    """
    with catalog.read() as connection:
        repairs = find_repairs(connection, root)
        some = find_some_files(connection, root.id)
    return RecordedNames(
        frozenset(place.kept for repair in repairs for place in repair.places if not place.folder), some
    )
