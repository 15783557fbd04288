"""
Look at a machine: the folders that hold data, what is in them, which to watch, and how long that takes to verify.

Proposes every folder of data, without those that are backups of others, hold the repository of a backup tool, or show
what other disks hold. The time is bytes, divided by the rate of the disk, in the hours that are allowed; the rate is
measured by a short reading of some of the files, from the disk instead of from memory.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import ceil

from integrity.config.copy_urls import keeps_versions
from integrity.errors import ReadError, show_path
from integrity.files.buffers import Buffers
from integrity.files.mounts import find_mounts
from integrity.files.open_beneath import open_root
from integrity.files.read import Reader
from integrity.files.span import ReadMode
from integrity.jobs.setup.backups import (
    LikelyCopy,
    LikelySeries,
    find_likely_copies,
    find_repository,
    find_series,
    find_series_of,
    is_named_like_backup,
)
from integrity.jobs.setup.folders import (
    DataFolder,
    FolderSample,
    SampledFile,
    find_archive_folders,
    find_data_folders,
    look_at,
    looks_like_archive,
    take_sample,
)
from integrity.jobs.setup.proposal import find_copy_problem, find_name_problem
from integrity.jobs.targets import is_inside
from integrity.model import Capability
from integrity.threads import BackgroundCall
from integrity.units import Cron, read_windows

_MEASURE_S = 1.0
_LEAST_BYTES = 4 << 20
_BUFFER_BYTES = 8 << 20
_LEAST_FILE_BYTES = 64 << 10

ASSUMED_BYTES_PER_S = 100 << 20
"""The rate of a disk that could not be measured: slow for a disk of today, fast for one behind USB 2."""

_DAY_S = 86_400
_DAYS = (30, 45, 60, 90, 120, 180, 365)
"""The intervals that are proposed: 30 days, or longer if the disks need it."""

_SPARE = 2
"""Share of the open hours that stays free: for new files, other programs, and disks that slow down."""


@dataclass(frozen=True, slots=True)
class Workload:
    """
    What has to be read from the same disks.

    Args:
        size_bytes: of all files that are watched there, at most.
        rate_bytes_per_s: measured; None if there was too little to measure with.
    """

    device_name: str
    size_bytes: int
    rate_bytes_per_s: float | None

    @property
    def duration_s(self) -> float:
        return self.size_bytes / (self.rate_bytes_per_s or ASSUMED_BYTES_PER_S)

    def days_needed(self, windows: str) -> int | None:
        """Return on how many days the windows must open until all is read; None if they never close."""
        open_s = open_seconds_per_day(windows)
        return None if open_s is None else max(1, ceil(self.duration_s / open_s))


def open_seconds_per_day(windows: str) -> float | None:
    """Return how long windows are open on an average day; None if they are moments, after which work just ends."""
    times = read_windows(windows)
    if isinstance(times, Cron):
        return None
    return sum(len(span.days) * (span.end_min - span.start_min) for span in times) * 60 / 7


def propose_days(workloads: Iterable[Workload], windows: str) -> int:
    """Return the interval, in days, within which all disks can be verified with hours to spare."""
    open_s = open_seconds_per_day(windows)
    if open_s is None:
        return _DAYS[0]
    needed = max((load.duration_s for load in workloads), default=0.0) * _SPARE / open_s
    return next((days for days in _DAYS if days >= needed), ceil(needed))


def can_keep(load: Workload, windows: str, verify_every_s: int) -> bool:
    """Return whether a disk can be verified within an interval, if nothing else needs it."""
    open_s = open_seconds_per_day(windows)
    return open_s is None or load.duration_s <= open_s * verify_every_s / _DAY_S


def measure_rate(
    folder: bytes,
    capability: Capability,
    files: Sequence[SampledFile],
    *,
    limit_s: float = _MEASURE_S,
    monotonic: Callable[[], float] = time.monotonic,
) -> float | None:
    """
    Read large files of a folder from the disk for a moment; return bytes per second.

    Returns:
        None if there is too little to read, or nothing can be read.
    """
    largest = sorted(
        (file for file in files if file.size_bytes >= _LEAST_FILE_BYTES), key=lambda file: -file.size_bytes
    )
    try:
        root_fd = open_root(folder)
    except OSError:
        return None
    try:
        reader, began_at, total = Reader(root_fd, capability, mode=ReadMode.DISK), monotonic(), 0
        with Buffers(_BUFFER_BYTES, 1) as buffers:
            for file in largest:
                with suppress(ReadError):
                    total += _read(reader, file.path, buffers, lambda: monotonic() - began_at > limit_s)
                if monotonic() - began_at > limit_s:
                    break
        duration_s = monotonic() - began_at
        return total / duration_s if total >= _LEAST_BYTES and duration_s > 0 else None
    finally:
        os.close(root_fd)


def _read(reader: Reader, path: bytes, buffers: Buffers, is_over: Callable[[], bool]) -> int:
    size_bytes = 0
    with reader.open(path) as file:
        for segment in file.segments(buffers):
            size_bytes += 0 if segment.data is None else segment.length
            if is_over():
                break
    return size_bytes


MOST_FOLDERS = 20
"""Folders that are looked at closely, those with the most data; the others can be named."""

_SAMPLING_S = 8.0
"""How long to wait for a sample, which takes 2 s from a disk that answers; one that sleeps takes some seconds more."""

_MEASURING_S = 10.0
_COMPARING_S = 30.0
"""How long to wait for disks that wake up or hang."""

_EMPTY = FolderSample((), (), 0, 0, is_whole=False)


@dataclass(frozen=True, slots=True)
class MachineView:
    """
    What was seen.

    Args:
        refused: folders that can't be used, each with the reason.
        left_out: number of folders that were not looked at.
        samples: of each folder, by its path.
        repositories: the backup tool whose repository a folder is.
        series: likely snapshots, and other folders of which each is a backup at another time.
        now: seconds UTC.
        is_root: whether root looks; others are offered what is theirs.
    """

    folders: tuple[DataFolder, ...]
    refused: tuple[tuple[bytes, str], ...]
    left_out: int
    samples: Mapping[bytes, FolderSample]
    repositories: Mapping[bytes, str]
    copies: tuple[LikelyCopy, ...]
    series: tuple[LikelySeries, ...]
    mount_points: tuple[bytes, ...]
    now: float
    is_root: bool

    def find_folder(self, path: bytes) -> DataFolder | None:
        return next((folder for folder in self.folders if folder.path == path), None)

    def find_size(self, folder: DataFolder) -> int:
        """Return how many bytes a folder holds, or all of its file system if not everything was counted."""
        sample = self.samples[folder.path]
        return sample.seen_bytes if sample.is_whole else folder.used_bytes

    def list_remarks(
        self,
        folder: DataFolder,
        describe_copy: Callable[[LikelyCopy], str],
        describe_series: Callable[[LikelySeries], str],
    ) -> list[str]:
        """Return what is to be said of a folder; the arguments say it of backups."""
        path = folder.path
        remarks = [describe_copy(one) for one in self.copies if one.holder == path]
        remarks += [describe_series(one) for one in self.series if (one.holder or one.of) == path]
        if path in self.repositories:
            tool = self.repositories[path]
            url = f"{tool}:{show_path(path)}"
            remarks.append(
                f"a repository of {tool}"
                if keeps_versions(url)
                else f"a repository of {tool}, which can't be compared; let {tool} check it itself"
            )
        elif is_named_like_backup(path) and not remarks:
            remarks.append("named like a backup, but it holds no files of the other folders")
        if folder.is_pool:
            remarks.append("joins other disks; watch these disks instead")
        if (problem := find_name_problem(path)) is not None:
            remarks.append(f"can't be watched by the service: {problem}")
        if self._is_empty(path):
            remarks.append("holds no files")
        return [*remarks, *self._describe_archives(path)]

    def propose_roots(self) -> list[bytes]:
        usable = [folder for folder in self.folders if find_name_problem(folder.path) is None]
        originals = [folder.path for folder in usable if not self._is_second_hand(folder)]
        return originals or [folder.path for folder in usable if folder.path not in self.repositories]

    def propose_archives(self, roots: Sequence[bytes]) -> list[bytes]:
        return [path for path in roots if path in self.samples and looks_like_archive(self.samples[path], self.now)]

    def list_repositories(self) -> dict[bytes, str]:
        """Return the URLs of the repositories of backups that can be compared, by their folders."""
        urls = {path: f"{tool}:{os.fsdecode(path)}" for path, tool in self.repositories.items()}
        return {path: url for path, url in urls.items() if keeps_versions(url)}

    def propose_copies(self, roots: Sequence[bytes]) -> list[LikelyCopy]:
        """Return the likely copies of some folders that are not watched themselves."""
        tops = [root.rstrip(b"/") for root in roots]
        return [
            copy
            for copy in self.copies
            if any(is_inside(copy.of, top) for top in tops)
            and copy.path not in roots
            and find_copy_problem(copy.path) is None
            and find_name_problem(copy.of) is None
        ]

    def propose_series(self, roots: Sequence[bytes]) -> list[LikelySeries]:
        """Return the likely series of backups of some folders."""
        tops = [root.rstrip(b"/") for root in roots]
        return [
            one
            for one in self.series
            if any(is_inside(one.of, top) for top in tops)
            and find_copy_problem(os.fsencode(one.url)) is None
            and find_name_problem(one.of) is None
        ]

    def measure(self, roots: Sequence[bytes]) -> list[tuple[Workload, list[bytes]]]:
        """Return the workload of each set of disks, and the folders on it. Reads each of them for a second."""
        folders = [folder for path in roots if (folder := self.find_folder(path)) is not None]
        loads = []
        for key in dict.fromkeys(folder.device_key for folder in folders):
            here = [folder for folder in folders if folder.device_key == key]
            rates = [self._measure(one) for one in here]
            rate = min((rate for rate in rates if rate is not None), default=None)
            load = Workload(here[0].device_name, self._find_total(here), rate)
            loads.append((load, [folder.path for folder in here]))
        return loads

    def with_folder(self, path: bytes) -> MachineView:
        """Return this with one more folder, if it can be looked at."""
        if self.find_folder(path) is not None:
            return self
        folder = look_at(path)
        if not isinstance(folder, DataFolder):
            return self
        sample = _sample([folder], self.mount_points)[path]
        return replace(self, folders=(*self.folders, folder), samples={**self.samples, path: sample})

    def _measure(self, folder: DataFolder) -> float | None:
        """Measure the rate of a folder's disks; None also if they hang."""
        files = self.samples[folder.path].files
        call = BackgroundCall("measure", partial(measure_rate, folder.path, folder.capability, files))
        return call.result() if call.wait(_MEASURING_S) else None

    def _find_total(self, folders: Sequence[DataFolder]) -> int:
        """Return the bytes of folders on the same disks; those of one file system hold no more than it."""
        systems = {(folder.size_bytes, folder.used_bytes) for folder in folders}
        return sum(
            min(used or size, sum(self.find_size(one) for one in folders if (one.size_bytes, one.used_bytes) == key))
            for key in systems
            for size, used in [key]
        )

    def _is_second_hand(self, folder: DataFolder) -> bool:
        """Return whether a folder shows data that others hold: a backup, or a pool; or another user's."""
        if folder.is_pool and not all(one.is_pool for one in self.folders):
            return True
        backups = [copy.holder for copy in self.copies if copy.fills_holder]
        backups += [one.holder for one in self.series if one.holder is not None and one.fills_holder]
        is_foreign = not self.is_root and not os.access(folder.path, os.W_OK)
        return (
            folder.path in backups
            or is_foreign
            or self._is_empty(folder.path)
            or folder.path in self.repositories
            or is_named_like_backup(folder.path)
        )

    def _is_empty(self, path: bytes) -> bool:
        """Return whether a folder holds no files, as one in which only other disks are mounted."""
        return self.samples[path].is_whole and not self.samples[path].seen_files

    def _describe_archives(self, path: bytes) -> list[str]:
        if looks_like_archive(self.samples[path], self.now):
            return ["photos, music or films that hardly change: an archive"]
        tops = find_archive_folders(self.samples[path], self.now)
        shown = ", ".join(os.fsencode(top).decode("utf-8", "backslashreplace") for top in tops[:3])
        return [f"archives in it: {shown}; to treat them as such, name the folders in it instead"] if tops else []


def look_around(home: bytes, known: Sequence[bytes]) -> MachineView:
    """
    Look at the machine; takes some seconds.

    Args:
        known: folders that are watched already; each takes the place of folders that contain it.
    """
    found = find_data_folders(home=home)
    watched = [folder for path in known if isinstance(folder := look_at(path), DataFolder)]
    inner = {folder.path: _find_inner(folder.path, known) for folder in found.folders}
    others = [folder for folder in found.folders if inner[folder.path] is None]
    reasons = tuple(
        (path, f"contains {show_path(other)}, which is watched by itself")
        for path, other in inner.items()
        if other is not None and other != path
    )
    others.sort(key=lambda folder: -folder.used_bytes)
    chosen = [folder for folder in found.folders if folder in others[:MOST_FOLDERS]]
    folders = (*watched, *chosen)
    points = tuple(mount.mount_point for mount in find_mounts())
    samples = _sample(folders, points)
    originals = {one.path: samples[one.path] for one in folders if not one.is_pool}
    comparison = BackgroundCall("look for backups", partial(_find_backups, originals))
    copies, series = comparison.result() if comparison.wait(_COMPARING_S) else ([], [])
    return MachineView(
        folders=folders,
        refused=(*found.refused, *reasons),
        left_out=len(others) - len(chosen),
        samples=samples,
        repositories={one.path: tool for one in folders if (tool := find_repository(samples[one.path])) is not None},
        copies=tuple(copies),
        series=tuple(series),
        mount_points=points,
        now=time.time(),
        is_root=not home,
    )


def _find_backups(samples: Mapping[bytes, FolderSample]) -> tuple[list[LikelyCopy], list[LikelySeries]]:
    """Find copies and series; a copy that is one of a series is not listed by itself."""
    series = find_series(samples)
    copies = []
    for one in find_likely_copies(samples):
        if any(many.covers(one) for many in series):
            continue
        many = find_series_of(one, samples)
        if many is None:
            copies.append(one)
        else:
            series.append(many)
    return copies, series


def look_only_at(paths: Sequence[bytes]) -> MachineView:
    """Look at some folders; those that can't be used are refused, with the reason."""
    seen = {path: look_at(path) for path in paths}
    folders = tuple(folder for folder in seen.values() if isinstance(folder, DataFolder))
    points = tuple(mount.mount_point for mount in find_mounts())
    return MachineView(
        folders=folders,
        refused=tuple((path, reason) for path, reason in seen.items() if isinstance(reason, str)),
        left_out=0,
        samples=_sample(folders, points),
        repositories={},
        copies=(),
        series=(),
        mount_points=points,
        now=time.time(),
        is_root=True,
    )


def _find_inner(path: bytes, known: Sequence[bytes]) -> bytes | None:
    """Return the watched folder that is, or lies in, another one."""
    return next((one for one in known if is_inside(one, path.rstrip(b"/"))), None)


def _sample(folders: Sequence[DataFolder], mount_points: Sequence[bytes]) -> dict[bytes, FolderSample]:
    """Sample folders, all at the same time; one whose disk does not answer gets an empty sample."""
    calls = {
        folder.path: BackgroundCall("sample a folder", partial(take_sample, folder.path, mount_points))
        for folder in folders
    }
    ends_at = time.monotonic() + _SAMPLING_S
    return {
        path: call.result() if call.wait(max(0.0, ends_at - time.monotonic())) else _EMPTY
        for path, call in calls.items()
    }
