"""
The copies that the service compares: of which root each is one, and whether that on a disk is there.

A folder or manifest on this machine may lie on a disk that is not always attached; that can be seen. Whether another
machine answers is only known when it is asked.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from integrity.copies.opening import open_copy
from integrity.errors import AppError
from integrity.files.devices import find_device
from integrity.files.mounts import get_block_device, mount_of
from integrity.files.open_beneath import open_root
from integrity.service.control.requests import covers

if TYPE_CHECKING:
    from integrity.config import Config
    from integrity.config.definition import ConfiguredCopy
    from integrity.service.inventory import KeptRoot

PATIENCE_S = 2.0
"""Who does not answer within so long is not there."""


@dataclass(frozen=True, slots=True)
class KeptCopy:
    """
    A copy in the service's care.

    Args:
        settings: of it.
        root: of which it has files.
    """

    settings: ConfiguredCopy
    root: KeptRoot

    @property
    def name(self) -> str:
        """Name it as the configuration does."""
        return self.settings.name

    @property
    def path(self) -> bytes | None:
        """Name the folder or file on this machine that it is; None for other kinds."""
        return os.fsencode(self.settings.url) if self.settings.url.startswith("/") else None


def find_kept_copies(config: Config, roots: Sequence[KeptRoot]) -> list[KeptCopy]:
    """List the configured copies of roots that are worked on."""
    found = ((copy, _find_root(roots, copy.of)) for copy in config.copies)
    return [KeptCopy(copy, root) for copy, root in found if root is not None]


def find_disks(path: bytes) -> list[str]:
    """
    Name the disks that a folder lies on, in sysfs, without waking them: only the mount point is looked at.

    None where that is not known, as of a server.
    """
    try:
        mount = mount_of(os.path.normpath(path))
        if get_block_device(mount) is None:
            return []
        fd = open_root(mount.mount_point)
    except OSError:
        return []
    try:
        device = find_device(fd)
    except OSError:
        return []
    finally:
        os.close(fd)
    return device.name.split("+") if device.key.startswith("disk:") else []


class Glance:
    """
    A look whether a copy on this machine is there, in a thread of its own: a disk that hangs has nobody else hang.

    Args:
        path: of the copy.
        seen: takes why it is not there, empty if it is, in that thread.
    """

    def __init__(self, path: bytes, seen: Callable[[str], None] | None = None) -> None:
        self._path = path
        self._seen = seen
        self._absence: str | None = None
        self._thread = threading.Thread(target=self._look, name="copy", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Say whether it was answered."""
        return not self._thread.is_alive()

    def result(self, timeout_s: float = PATIENCE_S) -> str:
        """Say why the copy is not there, for people; empty if it is."""
        self._thread.join(timeout_s)
        return "its disk does not answer" if self._absence is None else self._absence

    def _look(self) -> None:
        self._absence = _find_absence(self._path)
        if self._seen is not None:
            self._seen(self._absence)


def _find_absence(path: bytes) -> str:
    if os.path.isfile(path):
        return ""
    try:
        with open_copy(os.fsdecode(path)):
            return ""
    except AppError as error:
        return str(error)


def _find_root(roots: Sequence[KeptRoot], path: bytes) -> KeptRoot | None:
    return next((root for root in roots if covers((root.path,), path)), None)
