"""
What the files are called that stand beside a catalog because of it.

    CATALOG-wal, -shm, -journal         SQLite's own
    CATALOG.lock                        who has it open (locking.py)
    CATALOG.root-N.lock                 who works on root N (jobs/lock.py)
    CATALOG.control                     leads to the service's socket (service/sockets.py)
    CATALOG.new-XXXXXXXX                a catalog until it is whole (building.py)
    CATALOG.restoring                   the backup that a restore brings back (restoring.py)
    CATALOG.replaced-TIME               the catalog before a restore
    CATALOG.before-REVISION-TIME        the catalog before an upgrade (upgrade.py)
    STEM-TIME.SUFFIX                    a backup; CATALOG is STEM.SUFFIX (backup.py)
    FILE.partial                        a copy of a catalog until it is whole (copying.py)

Times sort as text. SQLite names its files after what a link leads to, and so do the locks.

Files beside the catalog, opened so that no neighbour's file, link or FIFO under their names is touched.

Root works with catalogs in other people's folders, the service's own among them. Whoever owns such a folder can put
anything under any name, at any moment; so no file is trusted by its name. What is opened is a regular file of the
owner of the catalog or its folder, or one of the caller or of root that has no other name. Only what was just made is
given away.

I1  SQLite opens its files by name: they are looked at before (``require_own``), and the kernel keeps users from
    linking files that are not theirs (fs.protected_hardlinks).
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from integrity.errors import CatalogError, CopyBeingMade, show_path
from integrity.model import RootId

LOG, LOG_INDEX, JOURNAL = b"-wal", b"-shm", b"-journal"
SQLITE_SUFFIXES = (LOG, LOG_INDEX, JOURNAL)

_TIME = rb"\d{8}T\d{6}Z"


def lock_path(catalog: bytes) -> bytes:
    """Name the lock of a catalog's file."""
    return os.path.realpath(catalog) + b".lock"


def root_lock_path(catalog: bytes, root_id: RootId) -> bytes:
    """Name the lock of a root."""
    return os.path.realpath(catalog) + b".root-%d.lock" % root_id


def control_path(catalog: bytes) -> bytes:
    """Name the link that leads to the socket of the service."""
    return catalog + b".control"


def draft_path(catalog: bytes) -> bytes:
    """Make up a name for a catalog that is being made."""
    return catalog + b".new-" + secrets.token_hex(4).encode()


def restoring_path(catalog: bytes) -> bytes:
    """Name what a restore brings back."""
    return catalog + b".restoring"


def is_being_restored(catalog: bytes) -> bool:
    """Say whether a restore was decided, and is not at its end: whoever opens the catalog ends it."""
    return os.path.lexists(restoring_path(os.path.realpath(catalog)))


def replaced_path(catalog: bytes, at: int) -> bytes:
    """Name the catalog that a restore replaces, at a time in seconds UTC."""
    return catalog + b".replaced-" + _write_time(at)


def before_path(catalog: bytes, revision: str, at: int) -> bytes:
    """Name the copy of a catalog from before its upgrade to a revision of the schema."""
    return catalog + b".before-" + revision.encode() + b"-" + _write_time(at)


def partial_path(copy: bytes) -> bytes:
    """Name a copy while it is being written."""
    return copy + b".partial"


def backup_name(catalog: bytes, at: int) -> bytes:
    """Name a backup, without its folder."""
    stem, suffix = os.path.splitext(os.path.basename(catalog))
    return stem + b"-" + _write_time(at) + suffix


def find_backups(catalog: bytes, folder: bytes = b"") -> list[bytes]:
    """
    List the backups of a catalog, oldest first.

    Args:
        catalog: its path.
        folder: where they are; beside the catalog when empty.
    """
    stem, suffix = (re.escape(part) for part in os.path.splitext(os.path.basename(catalog)))
    pattern = re.compile(stem + b"-" + _TIME + suffix)
    folder = folder or os.path.dirname(catalog) or b"."
    if not os.path.isdir(folder):
        return []
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if pattern.fullmatch(name)]


def compile_own_names(catalog: bytes) -> re.Pattern[bytes]:
    """Match the names of the catalog and of all files that stand beside it because of it, in one folder."""
    stem, suffix = (re.escape(part) for part in os.path.splitext(os.path.basename(catalog)))
    tails = rb"-wal|-shm|-journal|(\.root-\d+)?\.lock|\.control|\.restoring|\.partial|\.new-\w+"
    copies = rb"\.(damaged|replaced|before)-.*"  # what versions before this one put aside was called damaged
    return re.compile(stem + rb"(-" + _TIME + rb")?" + suffix + rb"(" + tails + rb"|" + copies + rb")*")


def compile_alike(name: bytes) -> re.Pattern[bytes]:
    """Match the names of files that are made for the same purpose: they differ in a time, or in something random."""
    fixed = re.split(_TIME + rb"|(?<=\.new-)[0-9a-f]{8}", name)
    return re.compile(rb"\w+".join(map(re.escape, fixed)))


def _write_time(at: int) -> bytes:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at)).encode()


_log = logging.getLogger(__name__)

_NO_OWNERS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS})  # vfat, exFAT and some FUSE say these


def find_owner(catalog: bytes) -> os.stat_result:
    """Stat the catalog, or if there is none its folder: who owns that owns all files beside it."""
    try:
        return os.stat(catalog)
    except FileNotFoundError:
        return os.stat(os.path.dirname(catalog) or b".")


def open_own(path: bytes, flags: int, owner: os.stat_result) -> int:
    """
    Open a file beside the catalog.

    Args:
        path: of the file.
        flags: for open(2). With O_CREAT it is made if missing, 0600, for ``owner``.
        owner: stat of what belongs to the catalog's owner.

    Returns:
        The descriptor.

    Raises:
        CatalogError: something else has its name.
        OSError: it can't be opened.
    """
    safe = (flags & ~os.O_CREAT) | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    while True:
        try:
            fd = os.open(path, safe)
        except FileNotFoundError:
            if not flags & os.O_CREAT:
                raise
            try:
                return make_own(path, owner)
            except FileExistsError:
                continue  # somebody else made it at the same moment
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise _refuse(path, "is a symbolic link") from error
            raise
        try:
            _require_ours(path, os.fstat(fd), owner)
        except CatalogError:
            os.close(fd)
            raise
        return fd


def make_own(path: bytes, owner: os.stat_result) -> int:
    """
    Make a file, 0600; as root for ``owner``.

    Raises:
        FileExistsError: something has its name.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if os.geteuid() == 0 and (owner.st_uid, owner.st_gid) != (0, 0):
            os.fchown(fd, owner.st_uid, owner.st_gid)
    except OSError as error:
        if error.errno not in _NO_OWNERS:
            os.close(fd)
            raise
        _log.warning("catalog_file_without_owner path=%s: its file system knows no owners", show_path(path))
    return fd


@contextmanager
def claim(path: bytes, owner: os.stat_result) -> Iterator[int]:
    """
    Make a file that is renamed in the block, or removed after it. Those that killed programs left are removed.

    Raises:
        CopyBeingMade: another program makes the same file at this moment.
        CatalogError: something else has its name.
    """
    _remove_abandoned(path, owner)
    fd = _make_locked(path, owner)
    try:
        yield fd
    finally:
        if is_same_file(path, fd):
            os.unlink(path)
        os.close(fd)


def is_same_file(path: bytes, fd: int) -> bool:
    """Say whether a name is that of an open file."""
    try:
        seen = os.lstat(path)
    except FileNotFoundError:
        return False
    own = os.fstat(fd)
    return (seen.st_dev, seen.st_ino) == (own.st_dev, own.st_ino)


def require_opened(path: bytes, fd: int) -> None:
    """
    Require that something else of this process has the same file open: what opened it by its name got no other.

    Raises:
        CatalogError: it did.
    """
    own = os.fstat(fd)
    for name in os.listdir("/proc/self/fd"):
        try:
            seen = os.fstat(int(name))
        except OSError:
            continue  # closed meanwhile: the listing's own
        if int(name) != fd and (seen.st_dev, seen.st_ino) == (own.st_dev, own.st_ino):
            return
    raise _refuse(path, "was exchanged while it was opened")


def require_own(catalog: bytes) -> None:
    """
    Require that what SQLite will open by name is what this program made.

    The catalog itself may be a symbolic link, if the kernel would follow it in a sticky folder
    (fs.protected_symlinks): of the caller, of root or of the owner of the file that it leads to.

    Raises:
        CatalogError: something else has one of the names.
        OSError: one can't be looked at.
    """
    owner, link = os.stat(catalog), os.lstat(catalog)
    if not stat.S_ISREG(owner.st_mode):
        raise _refuse(catalog, "is no regular file")
    if stat.S_ISLNK(link.st_mode) and link.st_uid not in {0, os.geteuid(), owner.st_uid}:
        raise _refuse(catalog, "is another user's symbolic link")
    real = os.path.realpath(catalog) if stat.S_ISLNK(link.st_mode) else catalog
    for suffix in SQLITE_SUFFIXES:
        try:
            seen = os.lstat(real + suffix)
        except FileNotFoundError:
            continue
        _require_ours(real + suffix, seen, owner)


def _remove_abandoned(path: bytes, owner: os.stat_result) -> None:
    """Remove files of the same purpose as ``path`` that nobody has locked, with what SQLite made for them."""
    folder, name = os.path.split(path)
    for other in filter(compile_alike(name).fullmatch, os.listdir(folder or b".")):
        abandoned = os.path.join(folder, other)
        try:
            fd = open_own(abandoned, os.O_RDONLY, owner)
        except (FileNotFoundError, CatalogError):  # gone, or none of ours
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_same_file(abandoned, fd):
                for suffix in SQLITE_SUFFIXES:
                    with suppress(FileNotFoundError):
                        os.unlink(abandoned + suffix)
                os.unlink(abandoned)  # last: a kill before it is made up for
        except BlockingIOError:
            pass  # it is being made
        finally:
            os.close(fd)


def _make_locked(path: bytes, owner: os.stat_result) -> int:
    """Make a file and lock it, in the place of one that nobody has locked."""
    while True:
        try:
            fd = make_own(path, owner)
            is_new = True
        except FileExistsError:
            try:
                fd = open_own(path, os.O_RDONLY, owner)
            except FileNotFoundError:
                continue
            is_new = False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(fd)
            raise CopyBeingMade(
                f"{show_path(path)}: another program is making this file; try again when it is done"
            ) from error
        if is_same_file(path, fd):
            if is_new:
                return fd
            os.unlink(path)
        os.close(fd)


def _require_ours(path: bytes, seen: os.stat_result, owner: os.stat_result) -> None:
    if stat.S_ISLNK(seen.st_mode):
        raise _refuse(path, "is a symbolic link")
    if not stat.S_ISREG(seen.st_mode):
        raise _refuse(path, "is no regular file")
    folder = os.stat(os.path.dirname(path) or b".")
    own = {owner.st_uid} if folder.st_mode & stat.S_IWOTH else {owner.st_uid, folder.st_uid}
    if seen.st_uid not in own | {0, os.geteuid()}:
        raise _refuse(path, f"belongs to user {seen.st_uid}")
    if seen.st_nlink > 1 and seen.st_uid not in own:  # an owner's snapshots by hard link are harmless
        raise _refuse(path, "is another file's second name")


def _refuse(path: bytes, what: str) -> CatalogError:
    return CatalogError(
        f"{show_path(path)}: {what}, so it is none of the catalog's files and was left alone; see who put it there, and"
        " move it away"
    )
