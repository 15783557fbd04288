"""
Sample what a folder holds, within a time limit: names, sizes and times of some files in each of its folders.

Decides whether the sample looks like an archive: photos, music or films that hardly anybody changes.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NamedTuple

from integrity.files.excludes import Excludes
from integrity.files.open_beneath import open_noatime, open_root

_MOST_S = 2.0
_MOST_NAMES = 200_000
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
        limit_s: how long this may take.
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
        return self._names > _MOST_NAMES or self._monotonic() > self._ends_at

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
    media = sum(_is_media(file.path) for file in files)
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


def _is_media(path: bytes) -> bool:
    return path.rpartition(b".")[2].lower() in _MEDIA
