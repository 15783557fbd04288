"""
Is a root itself (R5)? And did more change in it than is to be believed?

Absence is suspicious: a disk that is not mounted looks like an empty folder, without any error. So before a root's
files are looked at, the root is recognised by its file system and folder, and may be empty only if each of its files is
known to be missing; and before removals and changes are taken over, they are weighed together.

What a run leaves out besides what its user excludes.

The catalog's own files, in case they lie in the root: they change with every run, and a catalog that watched itself
would never come to rest. And mounts inside the root that are not what was recorded there (``nested``).

Mounts inside a root that crosses mounts: is each of them the one that was recorded?

A disk that is not mounted inside a root looks like an empty folder there, too (R5). So what is mounted where is kept
with the root, and a place whose disk is absent or another one is left out of the run: its records stay, and it is said.

Open a root for a run: is it itself, what can its disk do, what is mounted inside (R5)?
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import files, findings
from integrity.catalog.own_files import compile_own_names
from integrity.catalog.repair_journal import find_repairs
from integrity.catalog.roots import RootRecord, drop_nested, find_nested, keep_nested, set_root_identity
from integrity.catalog.runs import MountSeen, rename_file_system
from integrity.config import RootSettings
from integrity.errors import RootSuspended, show_path
from integrity.files.block_devices import Device, find_device
from integrity.files.capability import (
    explain_unrecognised,
    find_capability,
    find_fs_names,
    get_fs_name,
    identify,
    recognise,
    recognise_folder,
    spell_folder,
)
from integrity.files.excludes import Excludes
from integrity.files.mirrors import Mirror, find_mirror
from integrity.files.mount_state import MountState, find_mount_state
from integrity.files.mounts import find_mounts_beneath, get_mount
from integrity.files.open_beneath import open_noatime, open_root
from integrity.jobs.report import NoteKind
from integrity.jobs.targets import is_inside
from integrity.model import Capability, FindingKind, RootIdentity

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog, Connection
    from integrity.jobs.context import RootRun


LEAST_PATTERN = 20
"""Changed files that may be a pattern: who changes the suffix of a handful does it by hand."""

RELEASED = "released"
"""State reason of a root whose suspension a person lifted: it is believed to be itself, empty or not, for one run."""


class Guarded(NamedTuple):
    """A root that is itself."""

    fd: int  # the caller closes it
    identity: RootIdentity  # what it is to be recognised by from now on: a surer name of its file system may be seen


def open_guarded(root: RootRecord, out_of_place: Collection[bytes] = ()) -> Guarded:
    """
    Open a root's folder if it is the root that was recorded.

    Args:
        root: its record.
        out_of_place: names in its folder that hold files of it for now: with one of them it is not empty.

    Raises:
        RootSuspended: unmounted, replaced, unreadable, or empty where it had files.
    """
    try:
        root_fd = open_root(root.path)
    except OSError as error:
        never = "" if root.was_seen else "is configured, but was never there, and "
        raise RootSuspended(f"{show_path(root.path)}: {never}can't be opened: {error.strerror}") from error
    try:
        return Guarded(root_fd, _check(root, root_fd, out_of_place))
    except BaseException:
        os.close(root_fd)
        raise


def _check(root: RootRecord, root_fd: int, out_of_place: Collection[bytes]) -> RootIdentity:
    known = root.identity
    seen = identify(root_fd, root.path)
    if root.state_reason == RELEASED or not root.was_seen:
        return replace(seen, mount_point=b"")
    fs_id = recognise(known.fs_id, seen.names)
    if fs_id is None:
        raise RootSuspended(f"{show_path(root.path)}: {explain_unrecognised(known.fs_id, seen.names)}")
    if seen.folder_inode != known.folder_inode:
        raise RootSuspended(f"{show_path(root.path)}: another folder is there than the one that was recorded")
    if root.file_count > root.missing_count and _is_empty(root_fd, root.path, out_of_place):
        raise RootSuspended(f"{show_path(root.path)}: is empty, where {root.file_count} files are recorded")
    return replace(known, fs_id=fs_id, names=seen.names)


def _is_empty(root_fd: int, path: bytes, out_of_place: Collection[bytes]) -> bool:
    """Say whether nothing but what systems put there themselves is in a folder."""
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


@dataclass(frozen=True, slots=True)
class Wave:
    """What changed and went in a root, in this run and in the day before it."""

    changed: int
    removed: int
    looked_at: int

    def is_mass_change(self, settings: RootSettings) -> bool:
        """Say whether it is more than both limits: so many files, and so much of what was looked at."""
        count = self.changed + self.removed
        is_many = count > settings.mass_change_files
        return is_many and count * 100 > settings.mass_change_percent * self.looked_at


class LeftOut(Excludes):
    """
    Tell what of a root is left out.

    Args:
        patterns: the user's.
        builtin: whether the built-in list holds, too.
        own: folder, relative to the root, and pattern of the names of the catalog's files; None: they are elsewhere.
        absent: folders, relative to the root, that nothing can be said of.
    """

    __slots__ = ("_absent", "_own_folder", "_own_names")

    def __init__(
        self,
        patterns: Sequence[str],
        *,
        builtin: bool,
        own: tuple[bytes, re.Pattern[bytes]] | None,
        absent: Iterable[bytes] = (),
    ) -> None:
        super().__init__(patterns, builtin=builtin)
        self._own_folder = b"" if own is None else own[0]
        self._own_names = None if own is None else own[1]
        self._absent = frozenset(absent)

    def matches(self, path: bytes, name: bytes, is_folder: bool) -> bool:
        """Tell whether one entry is left out, all of whose parent folders are not."""
        if path in self._absent:
            return True
        if self._own_names is not None and path == _join(self._own_folder, name) and self._own_names.fullmatch(name):
            return True
        return super().matches(path, name, is_folder)


def make_excludes(settings: RootSettings, root: bytes, catalog_path: bytes, absent: Iterable[bytes] = ()) -> Excludes:
    """
    Make what tells a run on a root what to leave out.

    Args:
        settings: of the root.
        root: its absolute path.
        catalog_path: of the catalog.
        absent: folders, relative to the root, that nothing can be said of.
    """
    own, places = _find_own(root, catalog_path), tuple(absent)
    if own is None and not places:
        return Excludes(settings.exclude, builtin=settings.builtin_excludes)
    return LeftOut(settings.exclude, builtin=settings.builtin_excludes, own=own, absent=places)


def _find_own(root: bytes, catalog_path: bytes) -> tuple[bytes, re.Pattern[bytes]] | None:
    """Find the catalog's folder relative to a root, and what its files are called; None if it is not inside."""
    top = root.rstrip(b"/") + b"/"
    path = os.path.realpath(catalog_path)
    if not path.startswith(top):
        return None
    return os.path.dirname(path[len(top) :]), compile_own_names(path)


def _join(folder: bytes, name: bytes) -> bytes:
    return folder + b"/" + name if folder else name


_NOT_HERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""Mounted below something that hides it by now, or on a file."""


class _RootSeen(NamedTuple):
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


def _why_absent(seen: _RootSeen | None, was_mounted: bool) -> str | None:
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


def _find_present(root_fd: int, excludes: Excludes) -> dict[bytes, _RootSeen]:
    """Look at what is mounted below an open root and can be seen from in there."""
    present: dict[bytes, _RootSeen] = {}
    own = get_mount(root_fd).mount_id
    for path in find_mounts_beneath(root_fd):
        if excludes.covers(path + b"/x"):
            continue
        try:
            fd = open_noatime(root_fd, path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            if error.errno not in _NOT_HERE:
                present[path] = _RootSeen((f"can't be opened: {error.strerror}",), 0, is_empty=True)
            continue
        try:
            mount = get_mount(fd)
            if mount.mount_id != own:
                with os.scandir(fd) as entries:
                    is_empty = all(entry.name == "lost+found" for entry in entries)
                present[path] = _RootSeen(
                    find_fs_names(fd, mount), os.fstat(fd).st_ino, is_empty, find_mount_state(fd, mount)
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
"""Of a root that is not there."""


@dataclass(frozen=True, slots=True)
class Opened:
    """
    An open root; ``fd`` is -1 if it is not itself, ``suspension`` says why.

    ``mounts``: the root's own mount, at the empty path, and those inside it, by their paths.
    ``absent``: where inside it nothing can be said of the recorded files, and why.
    """

    fd: int
    capability: Capability = _NOTHING_KNOWN
    device: Device = _NO_DEVICE
    mirror: Mirror | None = None
    mounts: dict[bytes, MountSeen] = field(default_factory=dict)
    absent: dict[bytes, str] = field(default_factory=dict)
    suspension: str = ""


def open_disk(catalog: Catalog, root: RootRecord, settings: RootSettings) -> Opened:
    """Open a root; find out what can be expected of its disk, and what is mounted inside. The caller closes it."""
    fd = -1
    try:
        fd, identity = open_guarded(root, _find_out_of_place(catalog, root))
        mounts = {b"": MountSeen(identity.fs_id, *find_mount_state(fd, get_mount(fd)))}
        absent: dict[bytes, str] = {}
        if settings.cross_mounts:
            excludes = make_excludes(settings, root.path, catalog.path)
            absent, nested = find_absent(catalog, root, fd, excludes)
            mounts |= nested
        found = find_capability(fd, root.path), find_device(fd), find_mirror(fd)
        if identity != root.identity:
            _take_over(catalog, root, identity)
        return Opened(fd, *found, mounts, absent)
    except (RootSuspended, OSError) as error:  # also a disk that dies right after it was recognised
        if fd >= 0:
            os.close(fd)
        reason = (
            f"{show_path(root.path)}: its disk does not answer: {error}" if isinstance(error, OSError) else str(error)
        )
        return Opened(-1, suspension=reason)


def _take_over(catalog: Catalog, root: RootRecord, identity: RootIdentity) -> None:
    """Record what a root is recognised by from now on: a surer name, or what a person or the first look said it is."""
    with catalog.transaction() as connection:
        set_root_identity(connection, root.id, identity)
        if recognise(root.identity.fs_id, identity.names) is not None:
            rename_file_system(connection, root.identity.fs_id, identity.fs_id)


def _find_out_of_place(catalog: Catalog, root: RootRecord) -> frozenset[bytes]:
    """
    Name the files in the root's own folder that a repair, cut short, had put out of the way of the good ones.

    Where names can't be exchanged it may have been the only file; the run ends the repair before it looks at anything.
    """
    with catalog.read() as connection:
        repairs = find_repairs(connection, root)
    return frozenset(place.kept for repair in repairs for place in repair.places if not place.folder)
