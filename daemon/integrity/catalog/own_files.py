"""
Names of the files beside a catalog, and opening them safely.

    CATALOG-wal, -shm, -journal         SQLite's own
    CATALOG.lock                        held while the catalog is open: shared, or alone to replace it
    CATALOG.root-N.lock                 held while a job works on root N (jobs/lock.py)
    CATALOG.control                     link to the service's socket (service/control/socket.py)
    CATALOG.new-XXXXXXXX                a new catalog until it is complete (copying.py)
    CATALOG.upgrading                   held while the catalog is being upgraded
    CATALOG.restoring                   the backup that a restore puts in place (maintenance.py)
    CATALOG.replaced-TIME               the catalog before a restore
    CATALOG.before-REVISION-TIME        the catalog before an upgrade (rebuild.py)
    STEM-TIME.SUFFIX                    a backup; CATALOG is STEM.SUFFIX (maintenance.py)
    FILE.partial                        a copy of a catalog until it is complete (copying.py)

Times sort as text. SQLite resolves symbolic links before it names its files; so do the locks.

Root also works with catalogs in folders of other users, such as the service's. The owner of such a folder can put any
file, link, or FIFO under any name at any time, so no file is trusted by its name. Only regular files are opened: those
of the owner of the catalog or its folder, and those of the caller or of root that have no other name. Ownership is only
changed on a file that was just created.

I1  SQLite opens its files by name: ``require_own`` checks them before, and the kernel prevents hard links to other
    users' files (fs.protected_hardlinks).
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from integrity.errors import CatalogError, CatalogLocked, CopyBeingMade, show_path
from integrity.model import RootId

LOG, LOG_INDEX, JOURNAL = b"-wal", b"-shm", b"-journal"
SQLITE_SUFFIXES = (LOG, LOG_INDEX, JOURNAL)
LOCK, UPGRADING, CONTROL, RESTORING, PARTIAL = b".lock", b".upgrading", b".control", b".restoring", b".partial"

_TIME = rb"\d{8}T\d{6}Z"


def root_lock_path(catalog: bytes, root_id: RootId) -> bytes:
    """Return the path of a root's lock."""
    return os.path.realpath(catalog) + b".root-%d.lock" % root_id


def is_being_restored(catalog: bytes) -> bool:
    """Return whether a restore was started and not finished. The next program that opens the catalog finishes it."""
    return os.path.lexists(os.path.realpath(catalog) + RESTORING)


def former_path(catalog: bytes, revision: str | None, at: int) -> bytes:
    """Return the path of a catalog that was replaced at a time: before an upgrade to a revision, or by a restore."""
    return catalog + (b".replaced-" if revision is None else b".before-%s-" % revision.encode()) + _write_time(at)


def find_before(catalog: bytes, revision: str) -> bytes | None:
    """Return the newest copy of a catalog from before its upgrade to a schema that a program of this revision lacks."""
    folder, name = os.path.split(catalog)
    pattern = re.compile(re.escape(name) + rb"\.before-(\d+)-" + _TIME)
    found = [(match[1], match[0]) for each in os.listdir(folder or b".") if (match := pattern.fullmatch(each))]
    newer = [(number, copy) for number, copy in found if number > revision.encode()]
    wanted = min(newer, default=(b"", b""))[0]
    return max((os.path.join(folder, copy) for number, copy in newer if number == wanted), default=None)


def backup_name(catalog: bytes, at: int) -> bytes:
    """Return the name of a backup, without its folder."""
    stem, suffix = os.path.splitext(os.path.basename(catalog))
    return stem + b"-" + _write_time(at) + suffix


def find_backups(catalog: bytes, folder: bytes = b"") -> list[bytes]:
    """Return the backups of a catalog in a folder (empty: the catalog's), oldest first."""
    stem, suffix = (re.escape(part) for part in os.path.splitext(os.path.basename(catalog)))
    pattern = re.compile(stem + b"-" + _TIME + suffix)
    folder = folder or os.path.dirname(catalog) or b"."
    if not os.path.isdir(folder):
        return []
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if pattern.fullmatch(name)]


def compile_own_names(catalog: bytes) -> re.Pattern[bytes]:
    """Return a pattern for the names of the catalog and of all its side files, in one folder."""
    stem, suffix = (re.escape(part) for part in os.path.splitext(os.path.basename(catalog)))
    tails = rb"-wal|-shm|-journal|(\.root-\d+)?\.lock|\.control|\.upgrading|\.restoring|\.partial|\.new-\w+"
    copies = rb"\.(damaged|replaced|before)-.*"  # older versions used "damaged" for "replaced"
    return re.compile(stem + rb"(-" + _TIME + rb")?" + suffix + rb"(" + tails + rb"|" + copies + rb")*")


def _write_time(at: int) -> bytes:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at)).encode()


_log = logging.getLogger(__name__)

_NO_OWNERS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS})  # of vfat, exFAT, and some FUSE file systems


def find_owner(catalog: bytes) -> os.stat_result:
    """Return stat of the catalog, or of its folder if it does not exist; its owner owns all side files."""
    try:
        return os.stat(catalog)
    except FileNotFoundError:
        return os.stat(os.path.dirname(catalog) or b".")


def open_own(path: bytes, flags: int, owner: os.stat_result) -> int:
    """
    Open a file beside the catalog and return its descriptor.

    Args:
        flags: for open(2). With O_CREAT a missing file is created, mode 0600, for ``owner``.
        owner: stat of a file of the catalog's owner.

    Raises:
        CatalogError: the name belongs to a file that is not the catalog's.
        OSError: the file cannot be opened.
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
                continue  # another program created it just now
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
    """Create a file, mode 0600; as root, for ``owner``. Raises FileExistsError if the name is taken."""
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


def share_new_with_group(fd: int, path: bytes) -> None:
    """Let the group of a folder read a new catalog in it, whatever the umask is. Locks stay closed (jobs/lock.py)."""
    if not _is_for_group(os.stat(os.path.dirname(path) or b".")):
        return
    try:
        os.fchmod(fd, 0o640)
    except OSError as error:
        if error.errno not in _NO_OWNERS:
            raise


def share_with_group(path: bytes) -> None:
    """Let the group of a catalog's folder read an older catalog, whose mode SQLite gives to its own files, too."""
    if not _is_for_group(os.stat(os.path.dirname(path))):
        return
    for place in (path, *(path + suffix for suffix in SQLITE_SUFFIXES)):
        with suppress(FileNotFoundError):
            if os.stat(place, follow_symlinks=False).st_uid == os.geteuid():
                os.chmod(place, 0o640)


def _is_for_group(folder: os.stat_result) -> bool:
    """Return whether a group may enter a folder and nobody else: it is meant to read what lies there."""
    return stat.S_IMODE(folder.st_mode) & 0o077 == 0o050


@contextmanager
def claim(path: bytes, owner: os.stat_result) -> Iterator[int]:
    """Create and lock a file for the block, or raise CopyBeingMade; remove it unless renamed, and abandoned ones."""
    _remove_abandoned(path, owner)
    fd = _make_locked(path, owner)
    try:
        yield fd
    finally:
        if is_same_file(path, fd):
            os.unlink(path)
        os.close(fd)


def is_same_file(path: bytes, fd: int) -> bool:
    """Return whether a path names an open file."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(fd))
    except FileNotFoundError:
        return False


def require_opened(path: bytes, fd: int) -> None:
    """Require that this process has the same file open once more: that an open by name got this file."""
    if find_descriptor(os.fstat(fd), other_than=fd) is None:
        raise _refuse(path, "was exchanged while it was opened")


def find_descriptor(wanted: os.stat_result, *, other_than: int = -1) -> int | None:
    """Return another descriptor by which this process has a file open; None if it has none."""
    for fd in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):  # the closed descriptor of listdir
            if fd != other_than and os.path.samestat(os.fstat(fd), wanted):
                return fd
    return None


def require_own(catalog: bytes) -> None:
    """
    Require that the files that SQLite opens by name were made by this program.

    The catalog itself may be a symbolic link, if the kernel would follow it in a sticky folder (fs.protected_symlinks):
    one of the caller, of root, or of the owner of its target.
    """
    owner, link = os.stat(catalog), os.lstat(catalog)
    if not stat.S_ISREG(owner.st_mode):
        raise _refuse(catalog, "is not a regular file")
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
    """Remove unlocked files with the same purpose as ``path``, and SQLite's files beside them."""
    folder, name = os.path.split(path)
    fixed = re.split(_TIME + rb"|(?<=\.new-)[0-9a-f]{8}", name)
    alike = re.compile(rb"\w+".join(map(re.escape, fixed)))  # other times or random parts
    for other in filter(alike.fullmatch, os.listdir(folder or b".")):
        abandoned = os.path.join(folder, other)
        try:
            fd = open_own(abandoned, os.O_RDONLY, owner)
        except (FileNotFoundError, CatalogError):  # gone, or not a catalog file
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_same_file(abandoned, fd):
                for suffix in SQLITE_SUFFIXES:
                    with suppress(FileNotFoundError):
                        os.unlink(abandoned + suffix)
                os.unlink(abandoned)  # last, so that an interrupted removal is repeated
        except BlockingIOError:
            pass  # in use by its creator
        finally:
            os.close(fd)


def _make_locked(path: bytes, owner: os.stat_result) -> int:
    """Create and lock a file, replacing one that no program has locked."""
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
            # One that looks for abandoned files may lock a new one for a moment.
            fcntl.flock(fd, fcntl.LOCK_EX | (0 if is_new else fcntl.LOCK_NB))
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
        raise _refuse(path, "is not a regular file")
    folder = os.stat(os.path.dirname(path) or b".")
    own = {owner.st_uid} if folder.st_mode & stat.S_IWOTH else {owner.st_uid, folder.st_uid}
    if seen.st_uid not in own | {0, os.geteuid()}:
        raise _refuse(path, f"belongs to user {seen.st_uid}")
    if seen.st_nlink > 1 and seen.st_uid not in own:  # the owner's hard links (snapshots) are harmless
        raise _refuse(path, "is another file's second name")


def _refuse(path: bytes, what: str) -> CatalogError:
    return CatalogError(
        f"{show_path(path)}: {what}, so it is none of the catalog's files and was left alone; see who put it there, and"
        " move it away"
    )


_TRIES = 20
_BETWEEN_S = 0.1
_COMMAND_BYTES = 200


def hold_shared(catalog: bytes) -> int:
    """Take the shared lock, or raise CatalogLocked during a replacement; closing the descriptor releases it."""
    fd = _open(catalog)
    if _take(fd, fcntl.LOCK_SH):
        return fd
    os.close(fd)
    raise CatalogLocked(
        f"{show_path(catalog)}: is being restored, salvaged or upgraded at this moment; try again when that is done"
    )


@contextmanager
def shared_lock(catalog: bytes) -> Iterator[None]:
    """Hold the shared lock in the block. Raises like ``hold_shared``."""
    fd = hold_shared(catalog)
    try:
        yield
    finally:
        os.close(fd)


@contextmanager
def exclusive_lock(catalog: bytes) -> Iterator[None]:
    """Hold the lock alone in the block, to replace the file; CatalogLocked names a process that has it open."""
    fd = _open(catalog)
    try:
        _take_exclusive(catalog, fd)
        yield
    finally:
        os.close(fd)


@contextmanager
def held_alone(catalog: bytes, fd: int) -> Iterator[None]:
    """Upgrade the shared lock of a descriptor to exclusive for the block. Raises like ``exclusive_lock``."""
    try:
        _take_exclusive(catalog, fd)
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_SH)


@contextmanager
def upgrade_mark(catalog: bytes) -> Iterator[None]:
    """
    Let readers know, in the block, that the catalog is being upgraded.

    It excludes nobody, and whoever may read the catalog may hold it: the database's own lock protects the upgrade.
    """
    path, owner = os.path.realpath(catalog) + UPGRADING, find_owner(catalog)
    try:
        fd = open_own(path, os.O_RDWR | os.O_CREAT, owner)
        os.fchmod(fd, stat.S_IMODE(owner.st_mode) & 0o444 | 0o600)
    except OSError as error:
        raise CatalogError(
            f"{show_path(path)}: can't be made, so the catalog was not upgraded: {error.strerror}; free space there,"
            " and check its permissions"
        ) from error
    try:
        with suppress(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        with suppress(OSError):
            os.unlink(path)
        os.close(fd)


def is_being_upgraded(catalog: bytes) -> bool:
    """Return whether a program upgrades the catalog at this moment; one that was killed leaves no lock behind."""
    try:
        path = os.path.realpath(catalog) + UPGRADING
        fd = open_own(path, os.O_RDONLY, find_owner(catalog))
    except (OSError, CatalogError):
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _take_exclusive(catalog: bytes, fd: int) -> None:
    if not _take(fd, fcntl.LOCK_EX):
        raise CatalogLocked(
            f"{show_path(catalog)}: is in use{_describe_holders(fd)}; stop that first (the service with: systemctl"
            " stop integrity), or wait for it to end"
        )


def _open(catalog: bytes) -> int:
    path = os.path.realpath(catalog) + LOCK
    try:
        return open_own(path, os.O_RDWR | os.O_CREAT, find_owner(catalog))
    except OSError as error:
        raise CatalogError(
            f"{show_path(path)}: the lock of the catalog can't be used: {error.strerror}; free space there, and check"
            " its permissions"
        ) from error


def _take(fd: int, kind: int) -> bool:
    """Take a lock, waiting up to 2 s for short commands that hold it; return whether it was taken."""
    for number in range(_TRIES):
        if number:
            time.sleep(_BETWEEN_S)
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        return True
    return False


def _describe_holders(fd: int) -> str:
    """List the processes that hold a lock on a file; empty if the kernel does not show them (proc(5), ``locks``)."""
    own = os.fstat(fd)
    device, inode = f"{os.major(own.st_dev):02x}:{os.minor(own.st_dev):02x}", str(own.st_ino)
    try:
        with open("/proc/locks", encoding="ascii") as locks:
            words = [line.split() for line in locks]
    except OSError:
        return ""
    found = [one for one in words if one[1] == "FLOCK" and one[5].rpartition(":")[2] == inode]
    here = [one for one in found if one[5].startswith(device)]  # on btrfs this device differs from that of stat(2)
    holders: list[str] = []
    for pid in sorted({int(one[4]) for one in here or found}):
        command = [b""]
        with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
            command = file.read(_COMMAND_BYTES).rstrip(b"\0").split(b"\0")
        name = b" ".join([os.path.basename(command[1] if len(command) > 1 else command[0]), *command[2:]])
        holders.append(f"process {pid}: {show_path(name)}" if name else f"process {pid}")
    return f" (by {', '.join(holders)})" if holders else ""
