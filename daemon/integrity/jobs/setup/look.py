"""
Look at a machine: the folders that hold data, what is in them, and which of them to watch.

Proposes every folder of data, without those that are backups of others, hold the repository of a backup tool, or show
what other disks hold.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from integrity.config.copy_urls import keeps_versions
from integrity.errors import show_path
from integrity.files.mounts import find_mounts
from integrity.jobs.setup.backups import (
    LikelyCopy,
    find_likely_copies,
    find_repository,
    is_named_like_backup,
)
from integrity.jobs.setup.contents import FolderSample, find_archive_folders, looks_like_archive, take_sample
from integrity.jobs.setup.data_folders import DataFolder, find_data_folders, look_at
from integrity.jobs.setup.proposal import find_copy_problem, find_name_problem
from integrity.jobs.setup.series import LikelySeries, find_series, find_series_of
from integrity.jobs.setup.workload import Workload, measure_rate
from integrity.jobs.targets import is_inside
from integrity.threads import BackgroundCall

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
        folders: that may be watched.
        refused: folders that can't be used, each with the reason.
        left_out: number of folders that were not looked at.
        samples: of each folder, by its path.
        repositories: the backup tool whose repository a folder is.
        copies: likely backup copies.
        series: likely snapshots, and other folders of which each is a backup at another time.
        mount_points: of all mounts.
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
        """Return the folder with this path, if it was looked at."""
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
        """Return the folders to watch."""
        usable = [folder for folder in self.folders if find_name_problem(folder.path) is None]
        originals = [folder.path for folder in usable if not self._is_second_hand(folder)]
        return originals or [folder.path for folder in usable if folder.path not in self.repositories]

    def propose_archives(self, roots: Sequence[bytes]) -> list[bytes]:
        """Return those of some folders that look like archives."""
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
        home: of the user who asks; empty for root.
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
