"""
Recognize backups: folders that hold files of another folder under the same relative paths, with the same sizes.

A name such as "backup" alone proves nothing, and no name is needed: a sample of files of each folder is looked up in
each other folder, and a few of the files found are read and compared. Which side is the copy follows from the names,
then from the age of the newest file, then from the order of the folders. A series is several folders of which each is a
backup at another time: snapshots in or above a folder, and dated or numbered folders on another disk, as rsnapshot,
Time Machine and scripts around ``rsync --link-dest`` make them.

I1  A folder is called a copy only if at least half of the files looked up are there with their size, and the data of
    at least one is equal; of a series this holds for the newest.
"""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

from integrity.copies.snapshots import DATE, is_unfinished
from integrity.files.open_beneath import open_noatime, open_root, stat_beneath
from integrity.jobs.setup.folders import FolderSample, SampledFile, narrow
from integrity.jobs.targets import is_inside

_PROBES = 6
_PROBES_FOUND = 2
_LOOKED_UP = 40
_LEAST = 3
_READ = 3
_READ_BYTES = 4 << 20
_HOLDER_PERCENT = 80
_MOST_TOPS = 30

_BACKUP_NAME = re.compile(
    rb"back[-_. ]?up|\bbak\b|sicherung|mirror|spiegel|sauvegarde|kopie|\bcopy\b|\bcopies\b|snapshot|rsync|rsnap",
    re.IGNORECASE,
)
# What repositories of backup tools have at their top: names of which all must be there.
_REPOSITORIES: Mapping[str, frozenset[bytes]] = {
    "restic": frozenset({b"config", b"data", b"keys", b"snapshots"}),
    "borg": frozenset({b"config", b"data", b"README"}),
    "kopia": frozenset({b"kopia.repository.f"}),
    "duplicacy": frozenset({b"chunks", b"snapshots", b"config"}),
}


@dataclass(frozen=True, slots=True)
class LikelyCopy:
    """
    A folder that looks like a backup copy of another one.

    Args:
        of: absolute path of the original, or of a folder in it.
        path: absolute path of the copy.
        same_size: how many are there with the same size.
        other_size: how many are there with another size.
        read: how many of the former were read on both sides.
        equal: how many of these are equal.
        fills_holder: the copy is (nearly) all that its holder holds, or the holder is named like a backup.
    """

    of: bytes
    path: bytes
    holder: bytes
    checked: int
    same_size: int
    other_size: int
    read: int
    equal: int
    fills_holder: bool

    @property
    def missing(self) -> int:
        return self.checked - self.same_size - self.other_size


def is_named_like_backup(path: bytes) -> bool:
    return _BACKUP_NAME.search(path) is not None


def find_repository(sample: FolderSample) -> str | None:
    """Return the tool whose repository a folder is; such data can't be compared file by file."""
    names = {path for path in (*sample.folders, *(file.path for file in sample.files)) if b"/" not in path}
    return next((tool for tool, wanted in _REPOSITORIES.items() if wanted <= names), None)


def fills(holder: bytes, held: FolderSample, pattern: bytes) -> bool:
    """Return whether what a pattern matches is (nearly) all that a folder holds, or it is named like a backup."""
    inside = sum(fnmatchcase(file.path, pattern) for file in held.files)
    return is_named_like_backup(holder) or inside * 100 >= len(held.files) * _HOLDER_PERCENT


def is_backup_of(of: bytes, sample: FolderSample, place: bytes) -> bool:
    """Return whether a folder holds files of another one under the same relative paths (I1)."""
    try:
        place_fd = open_root(place)
    except OSError:
        return False
    try:
        found = _look_up(place_fd, b"", sample.files)
        return _is_enough(found) and _compare_data(of, place_fd, found)[1] > 0
    finally:
        os.close(place_fd)


def find_likely_copies(samples: Mapping[bytes, FolderSample]) -> list[LikelyCopy]:
    """Return the folders that look like copies, at most one for each pair of folders."""
    found: list[LikelyCopy] = []
    for original, sample in samples.items():
        for holder, held in samples.items():
            if holder != original and (copy := _find_copy(original, sample, holder, held)) is not None:
                found.append(copy)
    places = list(samples)
    return [copy for copy in found if not any(_is_reverse(copy, other, samples, places) for other in found)]


def _find_copy(original: bytes, sample: FolderSample, holder: bytes, held: FolderSample) -> LikelyCopy | None:
    """Look for a copy of a folder, else for copies of one of the folders at its top."""
    try:
        holder_fd = open_root(holder)
    except OSError:
        return None
    try:
        tops = [folder for folder in sample.folders if b"/" not in folder][:_MOST_TOPS]
        for source in (b"", *tops):
            part = narrow(sample, source)
            best = max(
                (_look_up(holder_fd, place, part.files) for place in _find_places(holder_fd, held, part)),
                key=lambda one: one.same,
                default=None,
            )
            if best is None or not _is_enough(best):
                continue
            of = _join(original, source)
            read, equal = _compare_data(of, holder_fd, best)
            if equal:
                is_all = fills(holder, held, _beneath(glob.escape(best.place), b"*"))
                counts = (best.checked, best.same, best.other, read, equal)
                return LikelyCopy(of, _join(holder, best.place), holder, *counts, is_all)
        return None
    finally:
        os.close(holder_fd)


@dataclass(frozen=True, slots=True)
class _LookUp:
    """Files that were looked up below a folder of the holder: found with their size, and with another one."""

    place: bytes
    checked: int
    same: int
    other: int
    found: tuple[SampledFile, ...]


def _is_enough(found: _LookUp) -> bool:
    return found.same >= _LEAST and found.same * 2 >= found.checked


def _find_places(holder_fd: int, held: FolderSample, part: FolderSample) -> Iterator[bytes]:
    """Yield the folders of a holder that have some of a few files."""
    probes = _spread(part.files, _PROBES)
    for place in (b"", *held.folders):
        if _look_up_files(holder_fd, place, probes).same >= _PROBES_FOUND:
            yield place


def _look_up(holder_fd: int, place: bytes, files: Sequence[SampledFile]) -> _LookUp:
    return _look_up_files(holder_fd, place, _spread(files, _LOOKED_UP))


def _look_up_files(holder_fd: int, place: bytes, files: Sequence[SampledFile]) -> _LookUp:
    found, other = [], 0
    for file in files:
        try:
            size_bytes = stat_beneath(holder_fd, _beneath(place, file.path)).st_size
        except OSError:
            continue
        if size_bytes == file.size_bytes:
            found.append(file)
        else:
            other += 1
    return _LookUp(place, len(files), len(found), other, tuple(found))


def _spread(files: Sequence[SampledFile], number: int) -> list[SampledFile]:
    """Return some files from all over a sample, without empty ones, which are equal everywhere."""
    usable = [file for file in files if file.size_bytes]
    step = max(1, len(usable) // number)
    return usable[::step][:number]


def _compare_data(of: bytes, holder_fd: int, looked_up: _LookUp) -> tuple[int, int]:
    """Read a few files on both sides; return how many were read, and how many are equal."""
    small = [file for file in looked_up.found if file.size_bytes <= _READ_BYTES] or list(looked_up.found)
    try:
        original_fd = open_root(of)
    except OSError:
        return 0, 0
    try:
        answers = [
            _read_head(original_fd, file.path) == _read_head(holder_fd, _beneath(looked_up.place, file.path))
            for file in _spread(small, _READ)
        ]
    except OSError:
        return 0, 0
    finally:
        os.close(original_fd)
    return len(answers), sum(answers)


def _read_head(root_fd: int, path: bytes) -> bytes:
    with open(open_noatime(root_fd, path, os.O_RDONLY), "rb") as file:
        return file.read(_READ_BYTES)


def _is_reverse(
    copy: LikelyCopy, other: LikelyCopy, samples: Mapping[bytes, FolderSample], places: Sequence[bytes]
) -> bool:
    """Return whether another entry says the reverse of this one, and is more likely."""
    if not (_overlaps(copy.of, other.path) and _overlaps(copy.path, other.of)):
        return False
    return _rank(other, samples, places) > _rank(copy, samples, places)


def _rank(
    copy: LikelyCopy, samples: Mapping[bytes, FolderSample], places: Sequence[bytes]
) -> tuple[bool, bool, int, int]:
    """Return how likely it is that this is the copy, and not the original."""
    newest = max((file.mtime for file in samples[copy.holder].files), default=0)
    has_name = is_named_like_backup(copy.path), not is_named_like_backup(copy.of)
    return (*has_name, -newest, places.index(copy.holder))


def _overlaps(one: bytes, other: bytes) -> bool:
    return one == other or one.startswith(other + b"/") or other.startswith(one + b"/")


def _join(folder: bytes, path: bytes) -> bytes:
    return folder.rstrip(b"/") + b"/" + path if path else folder


def _beneath(place: bytes, path: bytes) -> bytes:
    return place + b"/" + path if place else path


# Where file systems and NAS boxes show the snapshots of the folder that this lies in.
_SHOWN_AT = (
    ".snapshots/*/snapshot",  # snapper
    ".snapshots/*",  # btrbk
    ".zfs/snapshot/*",
    "#snapshot/*",  # Synology
    "@Recently-Snapshot/*",  # QNAP
    ".snapshot/*",  # NetApp
)
_NUMBERED = re.compile(r"\w+\.\d+")
_ANY_NUMBER = "*.[0-9]*"  # hourly.0, daily.0 and weekly.0 are versions of one folder
_LEAST_VERSIONS = 2
_MOST_MACHINES = 5


class LikelySeries(NamedTuple):
    """
    Folders that look like backups of one folder, each of another time.

    Attributes:
        of: absolute path of the original.
        url: ``snapshots:PATTERN``.
        number: how many there are.
        holder: the data folder that holds them, if it is another one.
        fills_holder: they are (nearly) all that it holds.
    """

    of: bytes
    url: str
    number: int
    holder: bytes | None = None
    fills_holder: bool = False

    def covers(self, copy: LikelyCopy) -> bool:
        pattern = self.url.removeprefix("snapshots:")
        path = os.fsdecode(copy.path).rstrip("/")
        return fnmatchcase(path, pattern) or fnmatchcase(path, f"{pattern}/*")


def find_series(samples: Mapping[bytes, FolderSample]) -> list[LikelySeries]:
    """Return the series of backups of some folders."""
    found = []
    for of, sample in samples.items():
        shown = (_make_series(of, sample, pattern) for pattern in _find_shown(os.fsdecode(of)))
        found += [one for one in shown if one is not None][:1]
        for holder, held in samples.items():
            if holder != of and not holder.startswith(of.rstrip(b"/") + b"/"):
                found += _find_held(of, sample, holder, held)
    return found


def find_series_of(copy: LikelyCopy, samples: Mapping[bytes, FolderSample]) -> LikelySeries | None:
    """Return the series that a copy is one of, as that of a folder in a root; None if it stands alone."""
    original = max((one for one in samples if is_inside(copy.of, one.rstrip(b"/"))), key=len)
    sample = narrow(samples[original], copy.of[len(original) :].strip(b"/"))
    holder = os.fsdecode(copy.holder).rstrip("/")
    parts = os.fsdecode(copy.path)[len(holder) :].strip("/").split("/")
    for index, part in enumerate(parts):
        if stem := _find_stem(os.fsencode(part)):
            top = glob.escape("/".join((holder, *parts[:index])))
            pattern = f"{top}/{stem}" + "".join(f"/{glob.escape(name)}" for name in parts[index + 1 :])
            versions = [os.fsencode(one) for one in glob.glob(pattern, include_hidden=True)]
            if any(one != copy.path and is_backup_of(copy.of, sample, one) for one in versions):
                inside = os.fsencode("/".join((*parts[:index], stem, "*")))
                is_all = fills(copy.holder, samples[copy.holder], inside)
                return LikelySeries(copy.of, f"snapshots:{pattern}", len(versions), copy.holder, is_all)
    return None


def _find_shown(of: str) -> Iterator[str]:
    """Yield the patterns of the snapshots that a file system may show of a folder."""
    top, rest = of.rstrip("/"), ""
    while True:
        for place in _SHOWN_AT:
            yield glob.escape(top) + "/" + place + glob.escape(rest)
        if not top:
            return
        top, _, name = top.rpartition("/")
        rest = f"/{name}{rest}"


def _find_held(of: bytes, sample: FolderSample, holder: bytes, held: FolderSample) -> Iterator[LikelySeries]:
    """Yield the series of a folder's backups that another one holds, at most one of each kind of name."""
    stems = Counter((os.path.dirname(folder), stem) for folder in held.folders if (stem := _find_stem(folder)))
    for (place, stem), number in stems.most_common():
        if number < _LEAST_VERSIONS:
            continue
        top = glob.escape(os.fsdecode(os.path.join(holder, place)).rstrip("/")) + "/" + stem
        for rest in _find_rests(top, os.fsdecode(of)):
            series = _make_series(of, sample, top + glob.escape(rest))
            if series is not None:
                pattern = os.fsencode(os.path.join(os.fsdecode(place), stem)) + b"/*"
                yield series._replace(holder=holder, fills_holder=fills(holder, held, pattern))
                break


def _find_stem(folder: bytes) -> str:
    """Return the pattern of a name with a date or a number; empty for others."""
    name = os.path.basename(os.fsdecode(folder))
    if is_unfinished(name):
        return ""
    if (date := DATE.search(name)) is not None:
        return glob.escape(name[: date.start()]) + "*"
    return _ANY_NUMBER if _NUMBERED.fullmatch(name) else ""


def _find_rests(top: str, of: str) -> Iterator[str]:
    """Yield where a folder may be in a backup: under its path, or the end of it, perhaps below a machine's name."""
    newest = _find_newest(top)
    if newest is None:
        return
    with os.scandir(newest) as entries:
        machines = [f"/{one.name}" for one in entries if one.is_dir(follow_symlinks=False)][:_MOST_MACHINES]
    parts = of.strip("/").split("/")
    for start in range(len(parts) + 1):
        tail = "".join(f"/{part}" for part in parts[start:])
        yield from (before + tail for before in ("", *machines) if os.path.isdir(newest + before + tail))


def _make_series(of: bytes, sample: FolderSample, pattern: str) -> LikelySeries | None:
    """Return the series of a pattern; None if its newest folder is no backup."""
    newest = _find_newest(pattern)
    if newest is None or not is_backup_of(of, sample, os.fsencode(newest)):
        return None
    return LikelySeries(of, f"snapshots:{pattern}", len(glob.glob(pattern, include_hidden=True)))


def _find_newest(pattern: str) -> str | None:
    """Return the folder of a pattern that was changed last; None if there is none that can be looked at."""
    folders = [one for one in glob.glob(pattern, include_hidden=True) if os.path.isdir(one) and not is_unfinished(one)]
    try:
        return max(folders, key=lambda one: os.stat(one).st_mtime, default=None)
    except OSError:
        return None
