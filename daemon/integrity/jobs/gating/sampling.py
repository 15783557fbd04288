"""Read a little of some of the files that changed: a few MiB, however many they are."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection

from integrity.errors import RootSuspended
from integrity.files.opening import open_noatime
from integrity.jobs.gating.changes import Changes
from integrity.jobs.gating.filetypes import HEAD_BYTES, MIDDLE_BYTES, Sample
from integrity.jobs.gating.signs import find_returned
from integrity.jobs.guard import open_guarded
from integrity.jobs.targets import Target

MOST_SAMPLES = 32
"""Of each group of files: a share of half is told from one of a fifth for certain, and a slow disk has them at once."""


def take_samples(target: Target, changes: Changes, doubtful: Collection[bytes]) -> list[list[Sample]]:
    """
    Read samples of the rewritten files, of new ones that stand for removed ones, of other new ones, of touched ones.

    Args:
        target: what is asked about.
        changes: since the gate was last passed.
        doubtful: paths of files with other content under their old times: samples of these as well.

    What can't be read is left out: the scan has said so, or will. So is everything in a root that is not itself.
    """
    returned = find_returned(changes)
    others = {one.path for one in changes.new}.difference(returned)
    groups = [paths for paths in (changes.rewritten, returned, others, changes.touched, doubtful) if paths]
    if not groups:
        return []
    try:
        root_fd = open_guarded(target.root)
    except RootSuspended:
        return []
    try:
        return [[sample for path in spread(paths) if (sample := _read(root_fd, path))] for paths in groups]
    finally:
        os.close(root_fd)


def spread(paths: Collection[bytes], most: int = MOST_SAMPLES) -> list[bytes]:
    """Choose some of many paths with equal steps, so that all folders have their share."""
    ordered = sorted(paths)
    count = min(most, len(ordered))
    return [ordered[number * len(ordered) // count] for number in range(count)]


def _read(root_fd: int, path: bytes) -> Sample | None:
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
        return Sample(path, head, os.pread(fd, MIDDLE_BYTES, seen.st_size // 2) if is_long else b"")
    except OSError:
        return None
    finally:
        os.close(fd)
