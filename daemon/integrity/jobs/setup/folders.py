"""
Find the folders of a machine that hold data, and sample what they hold.

Mounted disks, network shares, and the data folders of the system disk. What is mounted in several places is listed
once, by the mount that shows the most of it. A disk that does not answer is named and left alone. Sampling ends at a
time limit; the sample tells whether a folder looks like an archive: media that hardly anybody changes.

I1  Nothing is opened but folders, and no time of access changes where the kernel permits that.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from integrity.errors import AppError, ConfigError
from integrity.files.block_devices import find_device
from integrity.files.capability import find_capability, get_capability
from integrity.files.excludes import Excludes
from integrity.files.mounts import Mount, find_mounts, get_block_device, get_mount_id
from integrity.files.open_beneath import open_noatime, open_root
from integrity.model import Capability
from integrity.threads import BackgroundCall

_PATIENCE_S = 3.0

# Where systems keep themselves. /run/media is where desktops mount disks.
_SYSTEM_FOLDERS = tuple(
    b"/" + name for name in b"proc sys dev run boot efi usr bin sbin lib etc var tmp opt root snap nix gnu".split()
)
_DESKTOP_MOUNTS = b"/run/media"

# File systems without storage of their own, or with a system in it. A type that is in no list counts if its source is a
# block device.
_NO_STORAGE = frozenset(
    {"tmpfs", "ramfs", "overlay", "squashfs", "erofs", "iso9660", "udf", "autofs", "aufs", "cramfs"}
)
_NO_STORAGE_FUSE = frozenset({"fusectl", "fuse.portal", "fuse.lxcfs", "fuse.snapfuse", "fuse.gvfsd-fuse"})

_POOLS = frozenset({"fuse.mergerfs", "fuse.shfs", "fuse.unionfs", "fuse.unionfs-fuse", "fuse.mhddfs"})
"""File systems that show the files of other mounted disks as one tree."""

_DATA_FOLDERS = (b"/home", b"/srv", b"/data", b"/storage", b"/export", b"/share", b"/shares")
"""Folders of the system disk that usually hold data."""

_MOST_NAMES = 1_000


@dataclass(frozen=True, slots=True)
class DataFolder:
    """
    A folder that may be watched.

    Args:
        path: absolute and real.
        size_bytes: of the whole file system; 0 if it does not tell.
        used_bytes: of the whole file system.
        device_name: of its disks, for people.
        device_key: equal for folders on the same disks.
        is_whole: the folder shows the whole file system.
    """

    path: bytes
    capability: Capability
    size_bytes: int
    used_bytes: int
    device_name: str
    device_key: str
    is_whole: bool

    @property
    def is_pool(self) -> bool:
        """Return whether it shows files that other disks hold."""
        return self.capability.fs_type in _POOLS


@dataclass(frozen=True, slots=True)
class DataFolders:
    """What was found; ``refused``: folders that can't be used, each with the reason."""

    folders: tuple[DataFolder, ...]
    refused: tuple[tuple[bytes, str], ...] = ()


def find_data_folders(*, home: bytes = b"", mounts: Sequence[Mount] | None = None) -> DataFolders:
    """
    Find the folders that may be watched, those of mounted disks first.

    Args:
        home: home folder of the user who asks; empty for root, who is offered the data folders of the system disk.
        mounts: in the order of mounting; None reads them.

    Raises:
        ConfigError: the mounts can't be read.
    """
    seen = _read_mounts() if mounts is None else mounts
    disks = [mount.mount_point for mount in _drop_repeated([mount for mount in seen if _holds_data(mount)])]
    own = [home] if home else [path for path in _DATA_FOLDERS if path not in disks and _has_content(path, seen)]
    found, refused = [], []
    for path in dict.fromkeys((own + disks) if home else (disks + own)):
        folder = look_at(path, is_whole=path in disks)
        if isinstance(folder, DataFolder):
            found.append(folder)
        elif folder:
            refused.append((path, folder))
    return DataFolders(tuple(found), tuple(refused))


def _read_mounts() -> list[Mount]:
    try:
        return find_mounts()
    except OSError as error:
        raise ConfigError(f"can't see what is mounted: {error.strerror}; is /proc mounted?") from error


def look_at(path: bytes, *, is_whole: bool = False) -> DataFolder | str:
    """Return what a folder can be trusted with and how much it holds; a text says why it can't be used."""
    call = BackgroundCall("look at a folder", lambda: _look_at(path, is_whole=is_whole))
    if not call.wait(_PATIENCE_S):
        return f"does not answer within {_PATIENCE_S:.0f} s"
    return call.result()


def _look_at(path: bytes, *, is_whole: bool) -> DataFolder | str:
    try:
        fd = open_root(path)
    except OSError as error:
        return error.strerror or "can't be opened"
    try:
        total = os.fstatvfs(fd)
        device = find_device(fd)
        return DataFolder(
            path=path,
            capability=find_capability(fd, path),
            size_bytes=total.f_blocks * total.f_frsize,
            used_bytes=(total.f_blocks - total.f_bfree) * total.f_frsize,
            device_name=device.name,
            device_key=device.key,
            is_whole=is_whole,
        )
    except OSError as error:
        return error.strerror or "can't be queried"
    except AppError as error:
        return str(error)
    finally:
        os.close(fd)


def _holds_data(mount: Mount) -> bool:
    point, fs_type = mount.mount_point, mount.fs_type
    if point == b"/" or (_is_below(point, _SYSTEM_FOLDERS) and not _is_below(point, (_DESKTOP_MOUNTS,))):
        return False
    if fs_type in _NO_STORAGE or fs_type in _NO_STORAGE_FUSE:
        return False
    return (_is_known(fs_type) or get_block_device(mount) is not None) and _is_visible(mount)


def _is_known(fs_type: str) -> bool:
    """Return whether a type of file system is one that stores files; its device may not be visible here."""
    capability = get_capability(fs_type)
    return fs_type.startswith("fuse.") or any((capability.has_ctime, capability.is_remote, capability.has_direct_io))


def _is_below(path: bytes, folders: Sequence[bytes]) -> bool:
    return any(path == folder or path.startswith(folder + b"/") for folder in folders)


def _is_visible(mount: Mount) -> bool:
    """Return whether a path leads to this mount: it is a folder, and nothing was mounted over it."""

    def look() -> bool:
        fd = os.open(mount.mount_point, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return get_mount_id(fd) == mount.mount_id
        finally:
            os.close(fd)

    call = BackgroundCall("look for a mount", look)
    if not call.wait(_PATIENCE_S):
        return True  # looking at it closer tells that it does not answer
    try:
        return call.result()
    except PermissionError:
        return True  # as above
    except OSError:
        return False


def _drop_repeated(mounts: Sequence[Mount]) -> list[Mount]:
    """Leave out mounts of a part of what another mount of the same file system shows, and repetitions."""
    kept: list[Mount] = []
    for mount in sorted(mounts, key=lambda one: len(one.root.rstrip(b"/"))):
        others = (other for other in kept if other.device == mount.device)
        if not any(_is_below(mount.root, (other.root.rstrip(b"/"),)) for other in others):
            kept.append(mount)
    return sorted(kept, key=mounts.index)


def _has_content(path: bytes, mounts: Sequence[Mount]) -> bool:
    """Return whether a folder holds anything besides mount points and empty folders."""
    points = {mount.mount_point for mount in mounts}
    if path in points or os.path.islink(path):
        return False
    waiting, names = [path], 0
    while waiting and names < _MOST_NAMES:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    names += 1
                    if entry.is_file(follow_symlinks=False):
                        return True
                    if entry.is_dir(follow_symlinks=False) and entry.path not in points:
                        waiting.append(entry.path)
        except OSError:
            continue
    return names >= _MOST_NAMES


_MOST_S = 2.0
_MOST_SAMPLED = 200_000
_FILES_OF_A_FOLDER = 40
_MOST_FILES = 4_000
_DEPTH_OF_FOLDERS = 2
_MOST_FOLDERS = 200

_MEDIA = frozenset(
    (
        b"jpg jpeg jpe png gif tif tiff heic heif raw cr2 cr3 nef arw dng orf rw2 raf psd bmp webp"
        b" mp3 flac m4a aac ogg opus wav aif aiff wma ape alac"
        b" mp4 mkv avi mov m4v mpg mpeg wmv mts m2ts vob webm iso flv 3gp srt xmp cue nfo"
    ).split()
)
_ARCHIVE_FILES = 20
_ARCHIVE_MEDIA_PERCENT = 80
_ARCHIVE_RECENT_PERCENT = 5
_RECENT_S = 90 * 86_400


class SampledFile(NamedTuple):
    """A file of a sample; the path is relative to the sampled folder."""

    path: bytes
    size_bytes: int
    mtime: int


@dataclass(frozen=True, slots=True)
class FolderSample:
    """
    What was seen of a folder.

    Args:
        files: some files of each folder that was listed.
        folders: relative paths of the folders nearest to the top.
        seen_files: number of files that were counted, sampled or not.
        seen_bytes: their sizes.
        is_whole: everything was counted.
    """

    files: tuple[SampledFile, ...]
    folders: tuple[bytes, ...]
    seen_files: int
    seen_bytes: int
    is_whole: bool


def take_sample(
    path: bytes,
    mount_points: Collection[bytes] = (),
    *,
    limit_s: float = _MOST_S,
    monotonic: Callable[[], float] = time.monotonic,
) -> FolderSample:
    """
    List a folder, the nearest levels first, until all is seen or the time is over.

    Folders that can't be listed, mount points and what scans exclude are left out.

    Args:
        path: absolute.
        mount_points: absolute paths that are not entered.
    """
    try:
        root_fd = open_root(path)
    except OSError:
        return FolderSample((), (), 0, 0, is_whole=False)
    try:
        top = path.rstrip(b"/") + b"/"
        inner = {point[len(top) :] for point in mount_points if point.startswith(top)}
        return _Sampling(root_fd, inner, monotonic() + limit_s, monotonic).run()
    finally:
        os.close(root_fd)


class _Sampling:
    """One walk over a folder."""

    def __init__(self, root_fd: int, left_out: set[bytes], ends_at: float, monotonic: Callable[[], float]) -> None:
        self._root_fd = root_fd
        self._left_out = left_out
        self._ends_at = ends_at
        self._monotonic = monotonic
        self._excludes = Excludes()
        self._waiting = deque([b""])
        self._files: list[SampledFile] = []
        self._folders: list[bytes] = []
        self._seen_files = self._seen_bytes = self._names = 0
        self._is_whole = True

    def run(self) -> FolderSample:
        while self._waiting:
            if self._is_over():
                self._is_whole = False
                break
            self._list(self._waiting.popleft())
        files, folders = tuple(self._files[:_MOST_FILES]), tuple(self._folders[:_MOST_FOLDERS])
        return FolderSample(files, folders, self._seen_files, self._seen_bytes, self._is_whole)

    def _is_over(self) -> bool:
        return self._names > _MOST_SAMPLED or self._monotonic() > self._ends_at

    def _list(self, folder: bytes) -> None:
        try:
            fd = open_noatime(self._root_fd, folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            self._is_whole = False
            return
        taken = 0
        try:
            with os.scandir(fd) as entries:
                for entry in sorted(entries, key=lambda one: one.name):
                    taken += self._take(folder, entry, is_wanted=taken < _FILES_OF_A_FOLDER)
                    if self._is_over():
                        self._is_whole = False
                        return
        except OSError:
            self._is_whole = False
        finally:
            os.close(fd)

    def _take(self, folder: bytes, entry: os.DirEntry[str], *, is_wanted: bool) -> bool:
        """Count an entry of a folder; return whether it became part of the sample."""
        self._names += 1
        name = os.fsencode(entry.name)
        path = folder + b"/" + name if folder else name
        is_folder = entry.is_dir(follow_symlinks=False)
        if self._excludes.matches(path, name, is_folder) or path in self._left_out:
            return False
        if is_folder:
            self._waiting.append(path)
            if path.count(b"/") < _DEPTH_OF_FOLDERS:
                self._folders.append(path)
            return False
        if not entry.is_file(follow_symlinks=False):
            return False
        status = entry.stat(follow_symlinks=False)
        self._seen_files += 1
        self._seen_bytes += status.st_size
        if is_wanted:
            self._files.append(SampledFile(path, status.st_size, int(status.st_mtime)))
        return is_wanted


def looks_like_archive(sample: FolderSample, now: float) -> bool:
    """Return whether most files are photos, music or films, and hardly any changed within the last months."""
    files = [file for file in sample.files if file.size_bytes]
    if len(files) < _ARCHIVE_FILES:
        return False
    media = sum((file.path.rpartition(b".")[2].lower() in _MEDIA) for file in files)
    recent = sum(file.mtime > now - _RECENT_S for file in files)
    total = len(files)
    return media * 100 >= total * _ARCHIVE_MEDIA_PERCENT and recent * 100 <= total * _ARCHIVE_RECENT_PERCENT


def find_archive_folders(sample: FolderSample, now: float) -> list[bytes]:
    """Return the folders at the top that look like archives, relative to the sampled folder."""
    tops = [folder for folder in sample.folders if b"/" not in folder]
    return [top for top in tops if looks_like_archive(narrow(sample, top), now)]


def narrow(sample: FolderSample, folder: bytes) -> FolderSample:
    """Return the part of a sample that lies below a folder, with paths relative to it; counts cover the sample only."""
    if not folder:
        return sample
    top = folder + b"/"
    files = tuple(file._replace(path=file.path[len(top) :]) for file in sample.files if file.path.startswith(top))
    folders = tuple(path[len(top) :] for path in sample.folders if path.startswith(top))
    return FolderSample(files, folders, len(files), sum(file.size_bytes for file in files), is_whole=False)
