"""
Where something is mounted inside a root that is no part of it: what is recorded there is out of sight, and not gone.

A walk meets such a mount and says so. Who looks at names alone, below it, would find another tree, or nothing.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from integrity.files.mounts import find_mounts_beneath
from integrity.files.open_beneath import stat_beneath

if TYPE_CHECKING:
    from integrity.jobs.context import RootRun


def find_overmounts(run: RootRun) -> list[bytes]:
    """List the names in a root that another file system hides now; none where these belong to the root."""
    if run.settings.cross_mounts:
        return []
    return [point for point in sorted(find_mounts_beneath(run.root_fd)) if _is_barred(run.root_fd, point)]


def _is_barred(root_fd: int, point: bytes) -> bool:
    try:
        stat_beneath(root_fd, point, stay_on_mount=True)
    except OSError as error:
        return error.errno == errno.EXDEV  # any other is for those to tell who look at what lies there
    return False  # mounted over something above the root, and not to be seen from in here
