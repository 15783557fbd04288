"""
Recognize folders of which each is a backup at another time.

Snapshots in or above a folder, and dated or numbered folders on another disk, as rsnapshot, Time Machine and scripts
around ``rsync --link-dest`` make them.

I1  Nothing is proposed for its name alone: the newest must hold files of the folder, as any backup must.
"""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

from integrity.copies.snapshots import DATE, is_unfinished
from integrity.jobs.setup.backups import LikelyCopy, fills, is_backup_of
from integrity.jobs.setup.contents import FolderSample, narrow
from integrity.jobs.targets import is_inside

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
_LEAST = 2
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
        """Return whether a copy is one of these, or lies in one."""
        pattern = self.url.removeprefix("snapshots:")
        path = os.fsdecode(copy.path).rstrip("/")
        return fnmatchcase(path, pattern) or fnmatchcase(path, f"{pattern}/*")


def find_series(samples: Mapping[bytes, FolderSample]) -> list[LikelySeries]:
    """
    Return the series of backups of some folders.

    Args:
        samples: by the absolute path of each folder.
    """
    found = []
    for of, sample in samples.items():
        shown = (_make_series(of, sample, pattern) for pattern in _find_shown(os.fsdecode(of)))
        found += [one for one in shown if one is not None][:1]
        for holder, held in samples.items():
            if holder != of and not holder.startswith(of.rstrip(b"/") + b"/"):
                found += _find_held(of, sample, holder, held)
    return found


def find_series_of(copy: LikelyCopy, samples: Mapping[bytes, FolderSample]) -> LikelySeries | None:
    """
    Return the series that a copy is one of, as that of a folder in a root; None if it stands alone.

    Args:
        copy: that was found.
        samples: by the absolute path of each folder.
    """
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
        if number < _LEAST:
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
