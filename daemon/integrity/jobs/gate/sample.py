"""
Read samples of changed files, and decide whether the recent changes of a root look like destruction.

Samples are a few MiB in total, however many files changed. The gate uses them before a backup; a scan calls
``find_reason`` before it records its changes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from integrity.errors import RootSuspended
from integrity.files.open_beneath import open_noatime
from integrity.jobs import messages
from integrity.jobs.gate.changes import Changes, find_changes_after, find_hit_group
from integrity.jobs.gate.file_types import HEAD_BYTES, MIDDLE_BYTES, ContentLook, Sample, look_at
from integrity.jobs.gate.signs import AppearedFile, are_enough, find_arrivals, find_returned, find_signs
from integrity.jobs.open_root import open_guarded
from integrity.jobs.targets import Target

if TYPE_CHECKING:
    from integrity.jobs.context import RootRun


MOST_SAMPLES = 32
"""Samples per group of files: enough to tell a share of half from one of a fifth, and fast even on a slow disk."""

MOST_TRIED = 1024
"""Files opened for that: some are too short to judge, or of a type that may contain anything."""


@dataclass(frozen=True, slots=True)
class Looks:
    """
    What samples show.

    Args:
        changed: samples of files that existed before, one list per kind of change.
        arrivals: samples of new files, if most of the others are gone and may have become these.
    """

    changed: list[list[ContentLook]]
    arrivals: list[AppearedFile]

    @property
    def count(self) -> int:
        """Return the number of samples that could be judged."""
        return sum(map(len, self.changed)) + sum(len(one.looks) for one in self.arrivals)


def read_samples(target: Target, changes: Changes, silently_rewritten: Collection[bytes]) -> Looks:
    """
    Read samples of rewritten, touched and renamed files, and of new ones if most others are gone.

    Args:
        target: the part of a root.
        changes: since the gate was last passed.
        silently_rewritten: paths of files with changed content and unchanged times; sampled as well.

    Touched and silently rewritten files may have been renamed: with its times restored, one looks like a moved file.
    Unreadable files are left out, because the scan reports them. A suspended root is left out as well.
    """
    returned = find_returned(changes)
    renamed = returned, changes.touched, silently_rewritten
    arrivals = find_arrivals(changes)
    if not any((changes.rewritten, *renamed, *arrivals)):
        return Looks([], [])
    try:
        root_fd = open_guarded(target.root).fd
    except RootSuspended:
        return Looks([], [])
    try:
        changed = [_look(root_fd, changes.rewritten)]
        changed += (_look(root_fd, paths, is_renamed=True) for paths in renamed)
        return Looks(changed, [AppearedFile(len(paths), _look(root_fd, paths)) for paths in arrivals])
    finally:
        os.close(root_fd)


def _look(root_fd: int, paths: Collection[bytes], *, is_renamed: bool = False) -> list[ContentLook]:
    samples = (_read(root_fd, path, is_renamed=is_renamed) for path in spread(paths))
    looks = (look for sample in samples if sample is not None and (look := look_at(sample)) is not None)
    return list(islice(looks, MOST_SAMPLES))


def spread(paths: Collection[bytes], most: int = MOST_TRIED) -> Iterator[bytes]:
    """Choose evenly spaced paths in several rounds, so that any number of them covers all folders."""
    ordered = sorted(paths)
    count = min(most, len(ordered))
    rounds = -(-count // MOST_SAMPLES)
    for first in range(rounds):
        for number in range(first, count, rounds):
            yield ordered[number * len(ordered) // count]


def _read(root_fd: int, path: bytes, *, is_renamed: bool) -> Sample | None:
    try:
        fd = open_noatime(root_fd, path, os.O_RDONLY)
    except OSError:
        return None
    try:
        seen = os.fstat(fd)
        if not stat.S_ISREG(seen.st_mode):
            return None
        head = os.pread(fd, HEAD_BYTES, 0)
        is_long = seen.st_size >= 2 * MIDDLE_BYTES
        middle = os.pread(fd, MIDDLE_BYTES, seen.st_size // 2) if is_long else b""
        return Sample(path, head, middle, is_renamed)
    except OSError:
        return None
    finally:
        os.close(fd)


def find_reason(run: RootRun, since: int) -> str | None:
    """
    Return why the changes of a root are suspicious, as the end of a sentence; None if they are not.

    All changes of the run must be staged. ``since`` is in seconds UTC: earlier changes are not considered.
    """
    settings = run.settings
    with run.catalog.read() as connection:
        changes = find_changes_after(connection, run.root, since)
        hit_group = find_hit_group(connection, run.root.id, changes, settings)
    looks = read_samples(Target(run.root, b""), changes, ())
    limits = {"most_files": settings.mass_change_files, "most_percent": settings.mass_change_percent}
    signs = find_signs(changes, looks.changed, looks.arrivals, **limits)
    if are_enough(signs):
        return messages.ransomware(sign.message for sign in signs)
    return hit_group
